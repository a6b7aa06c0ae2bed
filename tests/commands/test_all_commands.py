"""All commands: values on stdout, errors in one line on stderr, a question before data are lost."""

import json
import os
import re
import subprocess
import sys

import psycopg
import pytest
from click.testing import CliRunner
from support.commands import UUID, assert_failed, lines, read_to_end, rows, value
from support.http import Client
from support.processes import wait_until
from support.project import environment
from support.rows import TOKENS

from service.__main__ import main
from service.version import build


def test_commands_take_an_operator_from_an_empty_service_to_a_first_request(app, cli):
    """An operator adds a customer. Each command prints what the next one needs as an argument."""
    workspace = value(cli("workspace", "create", "Initech Ltd.", "--plan", "Pro"))
    user = value(cli("user", "create", "peter@example.com", "Peter"))
    member = value(cli("member", "add", "initech-ltd", "peter@example.com", "--role", "owner"))
    assert re.fullmatch(UUID, workspace)
    assert member == user
    token = value(cli("token", "create", "peter@example.com"))
    cookie = value(cli("session", "create", "peter@example.com"))
    task = Client(app, token).post("/tasks", {"title": "TPS"}).get_json()
    assert (task["workspaceId"], task["createdBy"]) == (workspace, user)
    assert Client(app, cookie=cookie).get(f"/tasks/{task['id']}").get_json() == task
    (only,) = Client(app, token).get("/workspaces").get_json()
    assert (only["id"], only["slug"], only["plan"]) == (workspace, "initech-ltd", "Pro")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["workspace", "create", "   "], "name must have"),
        (["workspace", "create", "x" * 121], "name must have"),
        (["workspace", "create", "!!!"], "slug"),
        (["workspace", "create", "Acme"], "Error: slug is taken by another workspace\n"),
        (["workspace", "create", "New", "--slug", "acme"], "slug is taken"),
        (["workspace", "create", "New", "--slug", "A b"], "slug must"),
        (["workspace", "create", "New", "--slug", ""], "slug must"),
        (["user", "activate", "\udcff", "acme"], "an argument is not UTF-8"),
        (["user", "create", "ALICE@EXAMPLE.COM", "A"], "email is taken"),
        (["user", "create", "alice", "A"], "EMAIL: must be an e-mail address"),
        (["user", "create", "new@example.com", ""], "NAME"),
        (["user", "activate", "alice@example.com", "globex"], "not a member of globex"),
        (["user", "activate", "nobody@example.com", "acme"], "not a member of acme"),
        (["member", "add", "nowhere", "alice@example.com"], "no workspace nowhere"),
        (["member", "add", "acme", "nobody@example.com"], "no user nobody@example.com"),
        (["token", "create", "nobody@example.com"], "no user nobody@example.com"),
        (["token", "create", "alice@example.com", "--name", "x" * 121], "name must have"),
        (["session", "create", "nobody@example.com"], "no user nobody@example.com"),
        (["token", "list", "nobody@example.com"], "no user nobody@example.com"),
        (["token", "revoke", "x"], "no token x"),
        (["token", "revoke", "--all", "nobody@example.com"], "no user nobody@example.com"),
        (["workspace", "create", "New", "--plan", "gold"], "a plan: Starter, Pro, Team"),
        (["workspace", "plan", "acme", "Gold"], "plan must be the name of a plan: Starter, Pro"),
        (["workspace", "plan", "nowhere", "Pro"], "no workspace nowhere"),
        (["workspace", "delete", "nowhere", "--yes"], "no workspace nowhere"),
        (["workspace", "export", "nowhere"], "no workspace nowhere"),
        (["user", "show", "nobody@example.com"], "no user nobody@example.com"),
        (["user", "show", "00000000-0000-0000-0000-000000000000"], "no user 00000000"),
        (["user", "deactivate", "nobody@example.com"], "no user nobody@example.com"),
        (["user", "reactivate", "nobody@example.com"], "no user nobody@example.com"),
        (["user", "delete", "nobody@example.com", "--yes"], "no user nobody@example.com"),
        (["member", "list", "nowhere"], "no workspace nowhere"),
        (["member", "remove", "nowhere", "nobody@example.com", "--yes"], "no workspace nowhere"),
        (["plan", "set", "Gold", "--per-minute", "1"], "no plan Gold, only Starter, Pro, Team"),
        (["token", "revoke", "00000000-0000-7000-8000-000000000000"], "no token"),
    ],
)  # fmt: skip
def test_a_command_that_fails_prints_one_line_to_stderr_changes_nothing_and_exits_with_1(
    cli, connection, words, message
):
    counts = """
        SELECT (SELECT count(*) FROM users) AS users,
               (SELECT count(*) FROM tokens) AS tokens,
               (SELECT count(*) FROM workspaces) AS workspaces,
               (SELECT count(*) FROM members) AS members,
               (SELECT count(*) FROM plans) AS plans
    """
    before = rows(connection, counts)
    assert_failed(cli(*words), message)
    assert rows(connection, counts) == before


@pytest.mark.nodatabase
@pytest.mark.parametrize(
    ("command", "settings", "message"),
    [
        ("migrate", {}, "DATABASE_URL is not set: "),
        ("migrate", {"DATABASE_URL": "host=/nowhere"}, ": start PostgreSQL"),
        ("web", {}, "DATABASE_URL is not set: "),
        ("web", {"DATABASE_URL": "host=/nowhere", "PORT": "http"}, "PORT='http': must be an integ"),
    ],
)
def test_an_invalid_or_missing_setting_is_named_in_one_line(
    command, settings, message, monkeypatch
):
    # If web started, it would replace this process.
    monkeypatch.delattr(os, "execve")
    ended = CliRunner().invoke(main, [command], env={"DATABASE_URL": None, **settings})
    assert_failed(ended, message)


@pytest.mark.parametrize(
    "words",
    [
        ["token", "create", "alice@example.com", "--scope", "admin"],
        ["token", "create", "alice@example.com", "--expires-in", "0"],
        ["token", "create", "alice@example.com", "--expires-in", "never"],
        ["token", "create", "alice@example.com", "--expires-in", "99999999"],
        ["session", "create", "alice@example.com", "--expires-in", "-1"],
        ["member", "add", "acme", "alice@example.com", "--role", "king"], ["member", "add", "acme"],
        ["plan", "set", "Pro"], ["plan", "set", "Pro", "--per-day", "none"], ["status", "--csv"],
        ["status", "--json", "--metrics"],
        ["token", "create"], ["token", "steal"],
    ],
)  # fmt: skip
def test_an_invalid_argument_prints_the_usage_and_exits_with_2(cli, words):
    assert_failed(cli(*words), "Usage", code=2)


def test_without_a_terminal_a_command_that_deletes_or_revokes_needs_yes(app, cli):
    losses = [
        ["workspace", "delete", "acme"],
        ["user", "delete", "bob@example.com"],
        ["member", "remove", "acme", "bob@example.com"],
        ["token", "revoke", "--all", "alice@example.com"],
        ["session", "revoke", "--since", "2026-01-01T00:00:00Z"],
    ]
    alice, bob = Client(app, TOKENS["alice"]), Client(app, TOKENS["bob"])
    for words in losses:
        assert_failed(cli(*words), "confirm with --yes")
        assert alice.get("/tasks").status_code == bob.get("/tasks").status_code == 200
    for words in reversed(losses):
        assert cli(*words, "--yes").exit_code == 0
    assert alice.get("/tasks").status_code == bob.get("/tasks").status_code == 401


@pytest.mark.parametrize(("answer", "code", "left"), [("n\n", 1, 1), ("\n", 1, 1), ("y\n", 0, 0)])
def test_on_a_terminal_a_command_that_deletes_asks_first(
    answer, code, left, connection, settings, on_a_terminal, capsys
):
    with pytest.raises(SystemExit) as ended:
        on_a_terminal(main, ["workspace", "delete", "globex"], obj=settings, typed=answer)
    assert ended.value.code == code
    asked = "Delete globex with its 0 tasks and 0 meetings? It has 1 members. [y/N]"
    assert asked in capsys.readouterr().err
    (found,) = rows(connection, "SELECT count(*) FROM workspaces WHERE slug = 'globex'")
    assert found["count"] == left


@pytest.fixture
def printed(settings, on_a_terminal):
    # Without the standalone mode, a command returns or raises instead of ending the process.
    return lambda *words: on_a_terminal(main, words, obj=settings, standalone_mode=False)


def test_on_a_terminal_a_list_is_aligned_below_a_header(cli, cast, printed):
    cli("user", "create", "mei@example.com", "\u6885\u6885 Me\u0301i")
    head, *listed = printed("user", "list")
    assert re.split(" {2,}", head) == [
        *("ID", "EMAIL", "NAME", "ACTIVE WORKSPACE", "WORKSPACES", "CREATED AT", "LAST SEEN AT"),
        *("STATE", "DEACTIVATED AT", "DELETED AT"),
    ]
    assert [re.split(" {2,}", line) for line in listed] == lines(cli("user", "list"))
    # In the last name, two characters take two columns of the terminal each, and one takes none.
    gaps = [head.index("STATE") - line.index("active") for line in listed]
    assert gaps == [0, 0, 0, 1]
    assert printed("user", "show", cast["bob"])[0].startswith("ID  ")


LISTS = [
    ["plan", "list"], ["user", "list"], ["user", "show", "bob@example.com"],
    ["workspace", "list"], ["member", "list", "acme"], ["token", "list", "bob@example.com"],
]  # fmt: skip


@pytest.mark.parametrize("words", LISTS, ids=" ".join)
def test_json_has_the_columns_of_a_list_and_their_values(cli, printed, words):
    head, *_ = printed(*words)
    items = json.loads(cli(*words, "--json").stdout)
    for line, item in zip(lines(cli(*words)), items, strict=True):
        columns = [re.sub("([A-Z])", r" \1", name).upper() for name in item]
        assert columns == re.split(" {2,}", head)
        if "workspaces" in item:
            item["workspaces"] = [":".join(one.values()) for one in item["workspaces"]]
        values = [",".join(value) if isinstance(value, list) else value for value in item.values()]
        assert ["-" if value is None else str(value) for value in values] == line


def test_on_a_terminal_ids_and_json_have_no_header(printed):
    ids = printed("token", "revoke", "--all", "--yes", "alice@example.com")
    assert [re.fullmatch(UUID, line) is not None for line in ids] == [True]
    assert printed("plan", "list", "--json")[:2] == ["[", " {"]
    assert printed("webhook", "list", "acme") == []
    assert printed("token", "list", "bob@example.com")[0].startswith("ID  ")


@pytest.mark.slow
def test_a_long_command_shows_its_progress_on_a_terminal(database_url, empty, cli, tmp_path):
    def shown(url, *words):
        reader, stderr = os.openpty()
        command = [sys.executable, "-m", "service", *words]
        variables = environment(DATABASE_URL=url)
        subprocess.run(command, env=variables, stdout=subprocess.DEVNULL, stderr=stderr, check=True)
        os.close(stderr)
        with open(reader, "rb", buffering=0) as terminal:
            return read_to_end(terminal)

    path = tmp_path / "acme"
    path.write_text(cli("workspace", "export", "acme").stdout)
    value(cli("workspace", "delete", "acme", "--yes"))
    assert re.search(b"load .* 100%", shown(database_url, "load", str(path)))
    lines = shown(empty, "migrate")
    assert re.search(b"applying 0001-functions\r?\n.*applying 0002-accounts", lines, re.DOTALL)


def test_a_command_names_its_connection_after_itself(database_url, connection):
    """An operator finds the command that holds a lock in pg_stat_activity."""
    command = [sys.executable, "-m", "service", "plan", "list"]
    with psycopg.connect(database_url) as blocker:
        blocker.execute("LOCK TABLE plans")
        with subprocess.Popen(
            command, env=environment(DATABASE_URL=database_url), stdout=subprocess.DEVNULL
        ) as process:
            pid = blocker.info.backend_pid
            query = "SELECT application_name FROM pg_stat_activity WHERE %s = ANY"
            query += " (pg_blocking_pids(pid))"
            try:
                wait_until(lambda: rows(connection, query, pid), process)
                ((name,),) = [row.values() for row in rows(connection, query, pid)]
            finally:
                blocker.rollback()
            assert process.wait(60) == 0
    assert re.fullmatch(rf"task-service plan list {re.escape(build())} \S+:{process.pid}", name)
