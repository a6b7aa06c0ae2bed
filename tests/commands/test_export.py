"""workspace export: load reads the lines, and the API shows the same objects with the same ids."""

import hmac
import json
import re
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from standardwebhooks import Webhook as StandardWebhook
from support.commands import value
from support.derived import Values, full_line
from support.http import Client
from support.processes import wait_until
from support.resources import RESOURCES
from support.rows import TOKENS, UNKNOWN, count
from support.statements import waiting
from support.world import tables_with

from service.commands.load.lines import TYPES
from service.database.statements import STATEMENTS
from service.version import version

TIMES = {"startTime": "2026-01-01T10:00:00.125Z", "endTime": "2026-01-01T11:00:00.000Z"}
ACME = {"workspace": "acme"}
PARENT, CHILD = "0394063d-8694-739b-aea5-966c26f8ad91", UNKNOWN.replace("1890", "2222")
# A task, and an object of each type with a value in every field. The second task is a subtask of
# the first one and has a smaller id.
VALUES = Values({"parentId": [PARENT], "taskId": [CHILD], "webhookId": [CHILD]})
KINDS = [entry.line for entry in RESOURCES if entry.line in TYPES and entry.schema]
LINES = [
    {"type": "task", **ACME, "id": PARENT, "title": "Schön ☕ \u2028 \x01"},
    *(
        {"type": kind, **full_line(kind, VALUES)}
        for kind in (*KINDS, "webhook", "previous_secret", "deleted")
    ),
]
DOCUMENTS = [
    *(entry.path for entry in RESOURCES if entry.path),
    *(f"/tasks/{CHILD}", f"/meetings/{CHILD}", "/dashboard/stats", "/workspaces"),
]


@pytest.fixture
def load(cli, tmp_path):
    def run(text):
        (tmp_path / "lines").write_bytes(text)
        return cli("load", str(tmp_path / "lines"))

    return run


@pytest.fixture
def export(cli):
    def run():
        outcome = cli("workspace", "export", "acme")
        assert (outcome.exit_code, outcome.stderr) == (0, "")
        return outcome.stdout_bytes

    return run


@pytest.fixture
def acme(cli, load, connection):
    """Fill Acme with each field of each type, authors who have left, and a deactivated assignee."""
    for name in ("dora", "erin"):
        cli("user", "create", f"{name}@example.com", name.title())
        cli("member", "add", "acme", f"{name}@example.com")
    written = [json.dumps(line) for line in LINES]
    for name in ("dora", "erin"):
        line = {"type": "task", **ACME, "title": f"By {name}", "createdBy": f"{name}@example.com"}
        written.append(json.dumps(line))
    assert load("\n".join(written).encode()).exit_code == 0
    connection.execute("UPDATE workspaces SET timezone = 'Europe/Berlin' WHERE slug = 'acme'")
    value(cli("member", "remove", "acme", "dora@example.com", "--yes"))
    value(cli("user", "delete", "erin@example.com", "--yes"))
    value(cli("user", "deactivate", "bob@example.com"))


def shown(app, cookie):
    """Return all documents that Alice can read, without ``generatedAt``."""
    alice = Client(app, cookie=cookie)
    documents = [alice.get(path).get_json() for path in DOCUMENTS]
    return json.loads(
        json.dumps(documents),
        object_hook=lambda found: {
            name: item for name, item in found.items() if name != "generatedAt"
        },
    )


def test_a_workspace_that_is_exported_and_loaded_again_is_the_same_with_or_without_its_users(
    app, cli, load, export, acme, connection
):
    cookie = value(cli("session", "create", "alice@example.com"))
    before, exported = shown(app, cookie), export()
    members = Client(app, TOKENS["alice"]).get(f"/workspaces/{before[-1][0]['id']}/members")
    value(cli("workspace", "delete", "acme", "--yes"))
    assert shown(app, cookie)[0]["data"] == []
    for absent in (False, True):
        if absent:
            value(cli("workspace", "delete", "acme", "--yes"))
            connection.execute("DELETE FROM users WHERE name <> 'Charlie'")
            connection.execute("DELETE FROM deleted_users")
        loaded = load(exported)
        assert loaded.exit_code == 0, loaded.output
        assert export() == exported
        if absent:
            cookie = value(cli("session", "create", "alice@example.com"))
        assert shown(app, cookie) == before
    again = Client(app, cookie=cookie).get(f"/workspaces/{before[-1][0]['id']}/members")
    assert again.get_json() == members.get_json()
    states = [line.split("\t")[7] for line in cli("user", "list").stdout.splitlines()]
    assert sorted(states) == ["active", "active", "active", "deactivated"]


def test_when_a_deleted_workspace_is_loaded_again_only_the_tokens_for_it_alone_stay_revoked(
    app, cli, load, export
):
    words = "token", "create", "alice@example.com"
    clients = {
        "any workspace": Client(app, value(cli(*words)).strip()),
        "this one alone": Client(app, value(cli(*words, "--workspace", "acme")).strip()),
        "a session": Client(app, cookie=value(cli("session", "create", "alice@example.com"))),
    }
    exported = export()
    value(cli("workspace", "delete", "acme", "--yes"))
    assert load(exported).exit_code == 0
    assert {name: client.get("/tasks").status_code for name, client in clients.items()} == {
        "any workspace": 200,
        "this one alone": 401,
        "a session": 200,
    }


def test_load_rejects_an_incomplete_export_and_loads_nothing_of_it(
    cli, load, export, acme, connection
):
    exported = export()
    lines = exported.splitlines(keepends=True)
    parts = {
        "without its end": (lines[:-1], len(lines)),
        "in the middle of the end": ([*lines[:-1], lines[-1][:-3]], len(lines)),
        "in the middle of a task": ([*lines[:12], lines[12][:50]], 13),
        "its first line": (lines[:1], 2),
        "without a task": ([*lines[:12], *lines[13:]], len(lines) - 1),
        "without its first line": (lines[1:], len(lines) - 1),
        "twice, once without its end": ([*lines[:-1], *lines], len(lines)),
    }
    value(cli("workspace", "delete", "acme", "--yes"))
    for name, (part, line) in parts.items():
        stderr = load(b"".join(part)).stderr
        assert f":{line}: the export is cut off or changed: " in stderr, name
        assert count(connection, "workspaces") == 1
    more = {"type": "task", **ACME, "title": "After the export"}
    # An editor may have removed the line end after the last line.
    for text in (exported.rstrip(), exported + json.dumps(more).encode()):
        loaded = load(text)
        assert loaded.exit_code == 0, loaded.output
        value(cli("workspace", "delete", "acme", "--yes"))


def test_load_names_the_release_to_use_for_an_export_of_a_later_release(cli, load, export, acme):
    first, *lines, last = map(json.loads, export().splitlines())
    assert first == {"type": "export", "release": version()}
    value(cli("workspace", "delete", "acme", "--yes"))
    task = next(line for line in lines if line["type"] == "task")

    def loaded(release):
        # A later release may add members to the first and the last line.
        ends = {**first, "release": release, "from": "here"}, {**last, "sum": 1}
        written = [json.dumps(line) for line in (ends[0], *lines, ends[1])]
        return load("\n".join(written).encode())

    task["mood"] = "good"
    hint = "; release 1000.0.0 made this export, and only 1000.0.0 or later loads all of it\n"
    assert loaded("1000.0.0").stderr.endswith(hint)
    for other in (version(), "0.9.1", "1.0", 7, None, "1000.0.0\n"):
        stderr = loaded(other).stderr
        assert "mood: unknown field" in stderr
        assert "made this export" not in stderr
    del task["mood"]
    assert loaded("1000.0.0").exit_code == 0


def test_a_webhook_signs_with_the_same_secrets_after_export_and_load(
    ada, cli, load, export, receiver
):
    """It signs with the new secret, and with the replaced secret until that expires."""
    webhook = ada.post("/webhooks", {"url": receiver.url}).get_json()
    new = ada.post(f"/webhooks/{webhook['id']}/rotate").get_json()["secret"]
    exported = export()
    value(cli("workspace", "delete", "acme", "--yes"))
    assert load(exported).exit_code == 0
    assert receiver.take_all() == []
    ada.post("/tasks", {"title": "Signed"})
    received = receiver.take()
    signature = hmac.digest(new.encode(), received.body, "sha256").hex()
    assert received.headers["X-Service-Signature"] == signature
    for secret in (new, webhook["secret"]):
        assert StandardWebhook(secret).verify(received.body, dict(received.headers))


def test_a_deleted_webhook_is_not_exported(ada, export, receiver):
    webhook = ada.post("/webhooks", {"url": receiver.url}).get_json()["id"]
    ada.post(f"/webhooks/{webhook}/rotate")
    assert webhook in str(export())
    ada.delete(f"/webhooks/{webhook}")
    assert webhook not in str(export())


def test_load_posts_no_events_to_the_webhooks_in_the_same_export(cli, load, export, connection):
    """The export has a pending suggestion before its webhook. Other loads announce suggestions."""
    hint = {"type": "suggestion", **ACME, "kind": "task", "title": "Do"}
    key = "0123456789abcdef"
    hook = {"type": "webhook", **ACME, "url": "https://example.com/hook", "keyFingerprint": key}
    assert load(b"\n".join(json.dumps(line).encode() for line in (hint, hook))).exit_code == 0
    exported = export()
    value(cli("workspace", "delete", "acme", "--yes"))
    assert load(exported).exit_code == 0
    assert count(connection, "events") == 0


def test_load_says_how_to_replace_a_workspace_that_exists(load, export):
    exists = "id: is taken: the workspace exists; to replace it, run workspace delete first"
    assert exists in load(export()).stderr


def test_load_rejects_a_user_whose_id_belongs_to_another_address(load, cast):
    line = {"type": "user", "id": cast["bob"], "email": "BOB@example.com", "name": "Other"}
    assert load(json.dumps(line).encode()).exit_code == 0
    changed = {**line, "email": "robert@example.com"}
    assert "id: is taken" in load(json.dumps(changed).encode()).stderr


def test_the_export_has_every_field_that_load_reads(acme, export):
    found = {kind: set() for kind in TYPES}
    for line in map(json.loads, export().splitlines()[1:-1]):
        found[line.pop("type")] |= set(line)
    assert found == {
        kind: {field.data_key for field in schema.load_fields.values()}
        for kind, schema in TYPES.items()
    }


def test_an_export_includes_each_table_of_a_workspace(connection):
    """Deliveries, waiting events and counts of requests belong to the installation instead."""
    known = {"events", "usage"} | {
        entry.table for entry in RESOURCES if entry.left_out or entry.line in TYPES
    }
    missing = sorted(set(tables_with(connection, "workspace_id")) - known)
    assert not missing, f"tests/support/resources.py: sql/export and sql/load leave out {missing}"


def test_each_type_of_a_line_has_a_statement_that_exports_it_and_one_that_loads_it():
    needed = {f"{folder}/{kind}" for folder in ("export", "load") for kind in TYPES}
    lacking = sorted(f"sql/{name}.sql" for name in needed - STATEMENTS.keys())
    assert not lacking, f"TYPES of service/commands/load/lines.py needs {', '.join(lacking)}"


def test_the_help_of_workspace_export_names_the_types_of_lines_and_tables_that_are_left_out(cli):
    text = " ".join(cli("workspace", "export", "--help").output.split())
    types, left_out = re.search("lines of the types (.*?)[.] (.*?) are not exported", text).groups()
    assert {*types.split(", ")} == TYPES.keys()
    tables = {entry.table for entry in RESOURCES if entry.left_out} | {"events"}
    assert {*re.split(", | and ", left_out.lower())} <= tables


def test_an_export_contains_no_other_workspace_and_no_credential(
    acme, export, cli, connection, insert_into
):
    before = export()
    insert_into("mail", "globex", "charlie")
    insert_into("tasks", "globex", "charlie", title="Secret")
    cli("token", "create", "alice@example.com")
    assert export() == before
    assert b"harlie" not in before
    assert b"tmw_" not in before


def test_an_export_is_a_snapshot_of_one_moment(database_url, export, connection, insert_into):
    """A suggestion that is created while the export runs is not in it."""
    insert_into("tasks")
    with ThreadPoolExecutor(1) as thread, psycopg.connect(database_url) as blocker:
        blocker.execute("LOCK TABLE meetings")
        exported = thread.submit(export)
        wait_until(lambda: waiting(connection))
        insert_into("suggestions", title="Too late")
        blocker.rollback()
        lines = exported.result(30).splitlines()
    assert [json.loads(line)["type"] for line in lines] == [
        *("export", "workspace", "user", "user", "member", "member", "task", "end")
    ]
