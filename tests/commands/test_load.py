"""load: the API shows loaded rows; load names an invalid line and then loads no row of its file."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date, datetime
from uuid import UUID

import psycopg
import pytest
from click import ClickException
from support.commands import CommandRunner
from support.derived import Values, full_line, key, references
from support.processes import wait_until
from support.receivers import KEY
from support.resources import TABLE_OF
from support.statements import waiting
from support.world import tables_with

from service.commands.load import MAX_LINE, batches, load_file
from service.commands.load.lines import TYPES, UserRef
from service.database.statements import SQL
from service.devkit.local import DEMO
from service.values.types import Day, DayOrTimestamp
from service.webhooks.secrets import fingerprint

ID = "0190163d-8694-739b-aea5-966c26f8ad91"
OTHER = "0190163d-8694-739b-aea5-966c26f8ad92"
ACME = {"workspace": "acme"}
TASK = {"type": "task", **ACME, "title": "Write"}
MEETING = {
    "type": "meeting",
    **ACME,
    "title": "Talk",
    "startTime": "2026-01-01T10:00:00Z",
    "endTime": "2026-01-01T11:00:00Z",
}
MAIL = {
    "type": "mail",
    **ACME,
    "user": "alice@example.com",
    "from": "bob@example.com",
    "receivedAt": "2026-01-01T10:00:00.125Z",
}
HINT = {"type": "suggestion", **ACME, "kind": "k", "title": "t"}
NEW = {"type": "workspace", "name": "A", "slug": "a"}
USER = {"type": "user", "email": "a@example.com", "name": "A"}
MEMBER = {"type": "member", **ACME, "user": "charlie@example.com"}


@pytest.fixture
def load(app, tmp_path):
    """Return a function that runs `load` on a file with these lines: objects, or bytes as is."""

    def run(*lines, name="in.jsonl"):
        (tmp_path / name).write_bytes(written(*lines))
        return CommandRunner(app).invoke(args=["load", str(tmp_path / name)])

    return run


def written(*lines):
    return b"".join(
        (line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in lines
    )


def counts(connection):
    return {
        table: connection.execute(f"SELECT count(*) AS n FROM {table}").fetchone()["n"]
        for table in TABLE_OF.values()
    }


def rejection(result):
    """Return the only line on stderr from the name of the file on; require an empty stdout."""
    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr[result.stderr.index("in.jsonl:") :].rstrip("\n")


def test_load_prints_each_file_with_its_count(load, tmp_path):
    result = load(TASK, TASK)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"{tmp_path}/in.jsonl\t2\n"
    empty = load()
    assert (empty.exit_code, empty.stdout) == (1, "")
    assert empty.stderr.endswith("in.jsonl has no object; did the command that wrote it fail?\n")


def test_a_loaded_task_needs_only_a_title_and_a_done_task_was_completed_when_it_last_changed(
    load, alice, cast
):
    done = TASK | {"status": "done", "updatedAt": "2025-01-01T00:00:00Z"}
    load(done, TASK | {"completedAt": None}, TASK)
    task, other, finished = alice.get("/tasks").get_json()["data"]
    assert (task["status"], task["priority"]) == ("todo", "medium")
    assert task["createdBy"] == cast["alice"]
    assert task["createdAt"] == task["updatedAt"]
    assert task["completedAt"] is other["completedAt"] is None
    assert finished["completedAt"] == "2025-01-01T00:00:00.000Z"


def test_a_line_names_users_by_id_or_by_address_in_any_case(load, alice, cast):
    bob = cast["bob"].upper()
    load(TASK | {"assigneeId": bob, "createdBy": "BOB@example.com", "updatedBy": bob})
    (task,) = alice.get("/tasks").get_json()["data"]
    assert {task["assigneeId"], task["createdBy"], task["updatedBy"]} == {cast["bob"]}
    error = rejection(load(TASK | {"user": "bob@example.com"}))
    assert "user: unknown field" in error
    assert "assigneeId" in error


def test_a_user_whom_load_adds_to_a_workspace_keeps_the_active_workspace(load, cast, connection):
    load({"type": "member", "workspace": "globex", "user": "alice@example.com"})
    alice = connection.execute("SELECT * FROM users WHERE id = %s", (cast["alice"],)).fetchone()
    assert str(alice["active_workspace_id"]) == cast["acme"]


def test_loaded_tasks_get_ids_in_the_order_of_their_creation(load, alice):
    times = ["2025-03-01T00:00:00Z", "1970-01-01T00:00:00Z", "2025-02-01T00:00:00.001Z"]
    load(*(TASK | {"title": time, "createdAt": time} for time in times), TASK, TASK)
    titles = [task["title"] for task in alice.get("/tasks").get_json()["data"]]
    assert titles == ["Write", "Write", *sorted(times, reverse=True)]


def test_subtasks_follow_their_parents_and_types_may_change_at_every_line(load, alice):
    result = load(TASK | {"id": ID}, MEETING, TASK | {"parentId": ID}, MAIL, TASK, MEETING)
    assert result.exit_code == 0, result.output
    assert result.stdout.endswith("\t6\n")
    assert len(alice.get(f"/tasks?parentId={ID}").get_json()["data"]) == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "must be a JSON object: Expecting property name enclosed in double quotes: column"),
        (
            b'[{"type": "task"}]',
            "must be a JSON object; a file of JSON Lines has one object on each",
        ),
        (
            b"[",
            "must be a JSON object: Expecting value: column 2; a file of JSON Lines has one object",
        ),
        (b'{"a":' + b"[" * 20_000, "must not be nested more than 100 levels deep"),
        (b'{"a": "' + b"x" * 2**23 + b'"}', "must have at most 8388608 bytes"),
        (b"{}", "type: must be one of: workspace, user, deleted_user, member, task, meeting"),
        ({"type": "taks"}, "type: must be one of: workspace, user, deleted_user, member, task"),
        ({"type": ["task"]}, "type: must be one of: workspace, user, deleted_user, member, task"),
        (TASK | {"priority": "hihg"}, "priority: must be one of: urgent, high, medium, low"),
        (TASK | {"asigneeId": ID}, "asigneeId: unknown field; did you mean assigneeId?"),
        (TASK | {"a\n\x1b[31m\ud800": 1}, "a \\x1b[31m?: unknown field; allowed: "),
        ({"type": "task", **ACME}, "title: is required"),
        ({"type": "task", "title": "x"}, "workspace: is required"),
        (TASK | {"title": "x" * 70_000}, "title: must have 1 to 500 characters, not 70000"),
        (TASK | {"id": "7"}, "id: must be a UUID, like 0190163d-8694-739b-aea5-966c26f8ad91"),
        (TASK | {"id": "ffffffff-ffff-ffff-ffff-ffffffffffff"}, "id: must be a UUID"),
        (TASK | {"id": ID}, "id: is taken"),
        (TASK | {"createdAt": "2199-01-01T00:00:00Z"}, "createdAt: must be between 1970 and now"),
        (TASK | {"createdAt": "1969-12-31T23:59:59Z"}, "createdAt: must be between 1970 and now"),
        (TASK | {"completedAt": "2025-01-01T00:00:00Z"}, "completedAt: needs status done"),
        (TASK | {"workspace": "acne"}, "workspace: there is no workspace 'acne'"),
        (TASK | {"assigneeId": "x@example.com"}, "assigneeId: there is no user 'x@example.com'"),
        (TASK | {"assigneeId": OTHER}, f"assigneeId: there is no user '{OTHER}'"),
        (
            TASK | {"assigneeId": "bob"},
            "assigneeId: must be the e-mail address or the id of a user",
        ),
        (TASK | {"assigneeId": "charlie@example.com"}, "assigneeId: must be the id of a member of"),
        (TASK | {"createdBy": OTHER}, f"createdBy: there is no user '{OTHER}'"),
        (TASK | {"parentId": OTHER}, "parentId: must be the id of a task of the workspace"),
        (TASK | {"parentId": "x"}, "parentId: must be an id, like 0190163d-8694-"),
        (MEETING | {"endTime": MEETING["startTime"]}, "endTime: must be after startTime"),
        (MEETING | {"summary": "S"}, "summary: needs status completed"),
        (MAIL | {"user": "charlie@example.com"}, "user: must be a member of the workspace"),
        (MAIL | {"to": ["xyz"]}, "to[0]: must be an e-mail address, like ada@example.com"),
        ({"type": "knowledge", **ACME, "title": "x", "tags": [""]}, "tags[0]: must have 1 to 120"),
        (HINT | {"taskId": OTHER}, "taskId: must be the id of a task of the workspace"),
        (NEW | {"slug": "acme"}, "slug: is taken by another workspace"),
        (NEW | {"slug": "A b"}, "slug: must have 1 to 128 of: a-z 0-9 -"),
        (NEW | {"plan": "Gold"}, "plan: must be the name of a plan"),
        (USER | {"email": "Alice@example.com"}, "email: is taken by another user"),
        (MEMBER | {"user": "bob@example.com"}, "user: is a member of the workspace already"),
        (MEMBER | {"id": ID}, "id: unknown field"),
    ],
)
def test_load_names_an_invalid_line_and_loads_nothing_of_its_file(load, connection, line, message):
    before = counts(connection)
    result = load(TASK | {"id": ID}, b"", MEETING, TASK, line, TASK, {"type": "?"})
    assert rejection(result).startswith(f"in.jsonl:5: {message}")
    assert counts(connection) == before


@pytest.mark.parametrize(
    ("line", "names"),
    [
        (TASK, {"workspace", "title"}),
        (MEETING, {"workspace", "title", "startTime", "endTime"}),
        (MAIL, {"workspace", "user", "from", "receivedAt"}),
        ({"type": "knowledge", **ACME, "title": "x"}, {"workspace", "title"}),
        (HINT, {"workspace", "kind", "title"}),
        (NEW, {"name", "slug"}),
        (USER, {"email", "name"}),
        (MEMBER, {"workspace", "user"}),
        ({"type": "deleted_user", "id": ID}, {"id"}),
    ],
    ids=lambda value: value.get("type") if isinstance(value, dict) else "",
)
def test_load_names_the_required_fields_that_a_line_lacks(load, connection, line, names):
    assert line.keys() - {"type"} == names
    for name in names:
        rest = {key: value for key, value in line.items() if key != name}
        assert rejection(load(rest)) == f"in.jsonl:1: {name}: is required"
    assert load(line).exit_code == 0
    columns = tables_with(connection, "version")
    if (table := TABLE_OF[line["type"]]) in columns:
        newest = connection.execute(f"SELECT version FROM {table} ORDER BY ctid DESC LIMIT 1")
        assert newest.fetchone()["version"] == 1


def test_a_line_may_have_eight_mebibytes_and_a_time_as_early_as_1970(load):
    line = json.dumps(TASK | {"createdAt": "1970-01-01T00:00:00Z"}).encode()
    # The last byte is the line end.
    result = load(line + b" " * (MAX_LINE - len(line) - 1))
    assert result.exit_code == 0, result.output


@pytest.mark.nodatabase
def test_one_statement_inserts_up_to_5000_lines_or_four_mebibytes_of_one_type():
    lines = [("task", {}, 800)] * 5001 + [("mail", {}, 2**22 - 1)] * 3 + [("task", {}, 2**22)] * 2
    taken = [(kind, len(rows)) for kind, rows in batches(lines)]
    assert taken == [
        ("task", 5000),
        ("task", 1),
        ("mail", 2),
        ("mail", 1),
        ("task", 1),
        ("task", 1),
    ]


def test_load_names_the_first_of_two_invalid_lines(load, monkeypatch):
    unknown = TASK | {"workspace": "acne"}
    rejected = TASK | {"parentId": OTHER}
    assert rejection(load(TASK, rejected, unknown)).startswith("in.jsonl:2: parentId: ")
    assert rejection(load(TASK, unknown, rejected)).startswith("in.jsonl:2: workspace: ")
    assert rejection(load(TASK, rejected, b"{")).startswith("in.jsonl:2: parentId: ")
    # Now the two invalid lines belong to two statements.
    monkeypatch.setattr("service.commands.load.MAX_ROWS", 10)
    many = [TASK] * 20
    many[7] = many[13] = rejected
    assert rejection(load(*many)).startswith("in.jsonl:8: parentId: ")


def test_of_two_files_loaded_at_the_same_time_only_one_gets_a_meeting_with_the_same_id(
    database_url, settings, connection, tmp_path
):
    """A locked row holds up the first file after its meeting, so the second file waits for it."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(written(MEETING | {"id": ID}, TASK | {"id": OTHER}))
    second.write_bytes(written(MEETING | {"id": ID.upper()}))
    with ThreadPoolExecutor(2) as threads, psycopg.connect(database_url) as holder:
        holder.execute(
            "INSERT INTO tasks (workspace_id, id, title, created_by)"
            " SELECT id, %s, 'Held', id FROM workspaces WHERE slug = 'acme'",
            (OTHER,),
        )
        runs = []
        for file in (first, second):
            runs.append(threads.submit(load_file, settings, file))
            wait_until(lambda: waiting(connection) == len(runs))
        holder.rollback()
        assert runs[0].result(20) == 2
        with pytest.raises(ClickException, match=f"^{second}:1: id: is taken$"):
            runs[1].result(20)
    assert counts(connection)["meetings"] == 1


@pytest.mark.parametrize(("line", "path"), [(TASK, "/tasks"), (MEETING, "/meetings")])
def test_an_object_may_have_the_id_of_an_object_in_another_workspace(
    load, alice, charlie, line, path
):
    ours = line | {"id": ID}
    assert load(ours, ours | {"workspace": "globex", "title": "Theirs"}).exit_code == 0
    assert rejection(load(line, ours)) == "in.jsonl:2: id: is taken"
    assert alice.patch(f"{path}/{ID}", {"title": "Changed"}).status_code == 200
    assert charlie.get(f"{path}/{ID}").get_json()["title"] == "Theirs"


def test_a_subtask_before_its_parent_or_below_a_subtask_is_rejected(load, connection):
    child = TASK | {"parentId": ID.upper()}
    assert rejection(load(child, TASK | {"id": ID})).startswith(
        "in.jsonl:1: parentId: must be the id"
    )
    assert counts(connection)["tasks"] == 0
    lines = TASK | {"id": ID}, TASK | {"id": OTHER, "parentId": ID}, TASK | {"parentId": OTHER}
    expected = "in.jsonl:3: parentId: must not be the id of a subtask"
    assert rejection(load(*lines)).startswith(expected)


OWNERLESS = {"workspace": "ownerless"}


def test_a_task_in_a_workspace_without_an_owner_needs_an_explicit_author(load):
    ownerless = {"type": "workspace", "name": "O", "slug": "ownerless"}
    lines = ownerless, TASK | OWNERLESS
    expected = "in.jsonl:2: createdBy: is required, as 'ownerless' has no owner"
    assert rejection(load(*lines)) == expected
    explicit = lines[1] | {"createdBy": "bob@example.com"}
    owner = {"type": "member", **OWNERLESS, "user": "bob@example.com", "role": "owner"}
    # An earlier line of the file has made the owner.
    assert load(ownerless, explicit, owner, lines[1]).exit_code == 0


def test_a_file_stays_loaded_when_the_next_one_fails(app, tmp_path, connection):
    good, bad, last = (tmp_path / name for name in ("good", "bad", "last"))
    good.write_bytes(written(TASK, TASK))
    bad.write_bytes(written(TASK, b"?"))
    last.write_bytes(written(TASK))
    result = CommandRunner(app).invoke(args=["load", str(good), str(bad), str(last)])
    assert result.exit_code == 1
    assert result.stdout == f"{good}\t2\n"
    assert result.stderr.startswith(f"Error: {bad}:2: must be a JSON object")
    assert counts(connection)["tasks"] == 2


def test_load_reads_standard_input_if_the_file_is_a_minus(app, connection):
    text = written(TASK, b"  \r", TASK).replace(b"\n", b"\r\n").rstrip()
    result = CommandRunner(app).invoke(args=["load", "-"], input=text)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "-\t2\n", "")
    assert counts(connection)["tasks"] == 2
    result = CommandRunner(app).invoke(args=["load", "-"], input=b"?")
    assert result.stderr.startswith("Error: -:1: must be a JSON object")


def test_for_an_unreadable_file_load_names_the_file_and_the_user_who_must_read_it(
    settings, tmp_path
):
    path, user = tmp_path / "lines", os.geteuid()
    path.touch(mode=0)
    for name, message in (("absent", "No such file or directory"), (".", "Is a directory")):
        with pytest.raises(ClickException, match=f"{name}: {message}$"):
            load_file(settings, tmp_path / name)
    # Root may read every file.
    os.seteuid(user or 65534)
    try:
        with pytest.raises(ClickException, match=r"denied: the user \S+ must .*; load - <FILE"):
            load_file(settings, path)
    finally:
        os.seteuid(user)


def test_the_demo_data_can_be_loaded(app, connection, alice):
    demo = str(DEMO)
    result = CommandRunner(app).invoke(args=["load", demo])
    assert result.exit_code == 0, result.output
    assert counts(connection)["tasks"] == 31
    token = CommandRunner(app).invoke(args=["token", "create", "ada@example.com"]).stdout
    ada = {"Authorization": f"Bearer {token.strip()}"}
    assert len(alice.get("/tasks", headers=ada).get_json()["data"]) == 29
    assert alice.get("/meetings?upcoming=true", headers=ada).get_json()["data"]
    assert alice.get("/mail", headers=ada).get_json()["data"]
    assert alice.get("/knowledge?q=backup", headers=ada).get_json()["data"]
    assert alice.get("/ai/suggestions", headers=ada).get_json()["data"]


@pytest.mark.slow
def test_twenty_thousand_tasks_pass_through_a_pipe_in_little_memory(database_url, connection):
    """The child process reports its peak memory without the memory of its imports."""
    program = (
        "import re, sys; from service.__main__ import main; import service.commands.load\n"
        # It reads VmHWM, because ru_maxrss includes the memory of the parent at the fork.
        "def peak():\n"
        "    return int(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])\n"
        "code, imported = 0, peak()\n"
        "try: main(['load', '-'])\n"
        "except SystemExit as stop: code = stop.code\n"
        "print((peak() - imported) // 1024)\n"
        "sys.exit(code)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=SQL.parent,
        env={"DATABASE_URL": database_url},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        for number in range(20_000):
            child.stdin.write(json.dumps(TASK | {"title": f"Task {number}"}) + "\n")
        child.stdin.close()
        printed, megabytes = child.stdout.read().splitlines()
    assert printed == "-\t20000"
    # One statement for all lines would take 35 MB.
    assert int(megabytes) < 22
    assert counts(connection)["tasks"] == 20_000
    # TRUNCATE is faster than the DELETE before the next test.
    connection.execute("TRUNCATE workspaces, users CASCADE")


@pytest.mark.parametrize(
    "line",
    [
        {"type": "webhook", "url": "https://example.com/"},
        {"type": "previous_secret", "webhookId": ID, "number": 1, "expiresAt": "2999-01-01T00:00Z"},
    ],
    ids=lambda line: line["type"],
)
def test_a_webhook_loaded_without_a_fingerprint_gets_a_secret_of_the_newest_key(
    load, webhooks_app, connection, cast, line, tmp_path
):
    webhook = {"type": "webhook", **ACME, "id": ID, "url": "https://example.com/"}
    given = {**ACME, **line}
    outcome = load({**webhook, "keyFingerprint": "0" * 16}, given)
    assert outcome.stderr.endswith(":2: keyFingerprint: is required without WEBHOOK_KEY\n")
    settings = replace(webhooks_app.config["SETTINGS"], webhook_key=f"{'n' * 32},{KEY}")
    (tmp_path / "in.jsonl").write_bytes(written(webhook, given))
    assert load_file(settings, tmp_path / "in.jsonl") == 2
    table = TABLE_OF[line["type"]]
    stored = connection.execute(f"SELECT DISTINCT key_fingerprint FROM {table}").fetchall()
    assert stored == [{"key_fingerprint": fingerprint("n" * 32)}]


# Every field


def stored(connection, kind, line, cast):
    """Return the row that was loaded from a line, with ids as text."""
    query = f"SELECT * FROM {TABLE_OF[kind]} WHERE id = %s", (line.get("id"),)
    if kind == "member":
        ids = cast["charlie"], cast["acme"]
        query = "SELECT * FROM members WHERE user_id = %s AND workspace_id = %s", ids
    if kind == "previous_secret":
        query = "SELECT * FROM previous_secrets WHERE webhook_id = %s", (line["webhookId"],)
    row = connection.execute(*query).fetchone()
    return {name: str(value) if isinstance(value, UUID) else value for name, value in row.items()}


def expected_row(kind, line, cast):
    """Return the columns that a line sets; names of workspaces and users are replaced by ids."""
    fields = TYPES[kind].load_fields
    loaded = TYPES[kind].load(line).items()
    row = {name: item for name, item in loaded if item is not None or key(fields[name]) in line}
    for name, field in fields.items():
        if name == "workspace_id":
            row[name] = cast[row[name]]
        elif isinstance(field, DayOrTimestamp) and row.get(name):
            row[name] = datetime.fromisoformat(row[name])
        elif isinstance(field, Day) and row.get(name):
            row[name] = date.fromisoformat(row[name])
        elif isinstance(field, UserRef) and row.get(name):
            row[name] = cast[row[name].partition("@")[0]]
    return row


@pytest.mark.parametrize("kind", TYPES)
def test_every_field_of_a_line_is_stored_in_its_column(load, connection, cast, insert_into, kind):
    """The fields come from the schemas, so a new field needs its column in sql/load."""
    line = full_line(kind, Values(references(connection, cast, insert_into)))
    nullable = connection.execute(
        "SELECT array_agg(column_name::text) AS names FROM information_schema.columns"
        " WHERE table_name = %s AND is_nullable = 'YES' AND column_name <> 'completed_at'",
        (TABLE_OF[kind],),
    ).fetchone()["names"]
    nulls = {
        key(field): None
        for name, field in TYPES[kind].load_fields.items()
        if name in (nullable or ())
    }
    for given in [line, *([{**line, "id": ID, **nulls}] if nulls and "id" in line else [])]:
        result = load({"type": kind, **given})
        assert result.exit_code == 0, result.output
        row = stored(connection, kind, given, cast)
        for name, expected in expected_row(kind, given, cast).items():
            assert row[name] == expected, f"{kind} {name}: does sql/load/{kind}.sql insert it?"
        if "id" in line:
            # Delete the row, so that the next line may have its address or its slug.
            connection.execute(f"DELETE FROM {TABLE_OF[kind]} WHERE id = %s", (line["id"],))


def test_load_fields_prints_the_fields_of_each_type(cli):
    lines = dict(line.split(": ") for line in cli("load", "--fields").stdout.splitlines())
    assert list(lines) == list(TYPES)
    assert lines["member"] == "user*, role, joinedAt, workspace*"


def test_each_of_two_workspaces_of_one_file_keeps_its_version(load, connection):
    """Their lines are in two batches, and each new member makes a version that does not count."""
    first, second = {**NEW, "version": 7}, {**NEW, "name": "B", "slug": "b", "version": 8}
    members = [{**MEMBER, "workspace": slug} for slug in ("a", "b")]
    assert load(first, USER, second, *members).exit_code == 0
    found = connection.execute("SELECT slug, version FROM workspaces WHERE length(slug) = 1")
    assert {row["slug"]: row["version"] for row in found} == {"a": 7, "b": 8}
