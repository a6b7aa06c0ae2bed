"""Accounts by commands: plain values on stdout, errors in one line on stderr."""

import re
from hashlib import sha256

import pytest
from client import Client, commands

UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"


@pytest.fixture
def flask(app):
    """Runs a command and returns its outcome."""
    runner = app.test_cli_runner()
    return lambda *words: runner.invoke(args=words)


def value(outcome):
    """The one line that a command printed."""
    assert (outcome.exit_code, outcome.stderr) == (0, "")
    assert outcome.stdout.endswith("\n")
    (line,) = outcome.stdout.splitlines()
    return line


def assert_failed(outcome, message, code=1):
    assert (outcome.exit_code, outcome.stdout) == (code, "")
    assert "Traceback" not in outcome.stderr
    assert message in outcome.stderr
    if code == 1:
        (line,) = outcome.stderr.splitlines()
        assert line.startswith("Error: ")


def rows(connection, sql, *values):
    return connection.execute(sql, values).fetchall()


def test_from_nothing_to_a_first_request(app, flask):
    """What an operator types for a new customer; each command prints what the next one needs."""
    workspace = value(flask("workspace", "create", "Initech Ltd", "--plan", "Pro"))
    user = value(flask("user", "create", "peter@example.com", "Peter"))
    member = value(flask("member", "add", "initech-ltd", "peter@example.com", "--role", "owner"))
    assert re.fullmatch(UUID, workspace)
    assert member == user
    token = value(flask("token", "create", "peter@example.com"))
    cookie = value(flask("session", "create", "peter@example.com"))
    task = Client(app, token).post("/tasks", {"title": "TPS"}).get_json()
    assert (task["workspaceId"], task["createdBy"]) == (workspace, user)
    assert Client(app, cookie=cookie).get(f"/tasks/{task['id']}").get_json() == task
    (only,) = Client(app, token).get("/workspaces").get_json()
    assert (only["id"], only["slug"], only["plan"]) == (workspace, "initech-ltd", "Pro")


def test_the_first_workspace_becomes_the_active_one_and_later_ones_do_not(flask, connection, cast):
    value(flask("user", "create", "dora@example.com", "Dora"))
    active = "SELECT active_workspace_id::text AS id FROM users WHERE name = 'Dora'"
    assert rows(connection, active) == [{"id": None}]
    value(flask("member", "add", "globex", "dora@example.com"))
    assert rows(connection, active) == [{"id": cast["globex"]}]
    value(flask("member", "add", "acme", "dora@example.com"))
    assert rows(connection, active) == [{"id": cast["globex"]}]
    assert value(flask("user", "activate", "DORA@example.com", "acme")) == cast["acme"]
    assert rows(connection, active) == [{"id": cast["acme"]}]


def test_adding_a_member_again_changes_the_role(flask, connection, cast):
    for role in ("admin", "owner", "member"):
        assert (
            value(flask("member", "add", "acme", "bob@example.com", "--role", role)) == cast["bob"]
        )
        query = "SELECT role FROM members WHERE user_id = %s"
        assert rows(connection, query, cast["bob"]) == [{"role": role}]


@pytest.mark.parametrize("kind", ["token", "session"])
def test_a_credential_is_printed_once_and_only_its_hash_is_stored(flask, connection, kind):
    secret = value(flask(kind, "create", "alice@example.com"))
    assert re.fullmatch(r"tmw_(api|session)_[0-9a-f]{40}", secret)
    assert value(flask(kind, "create", "alice@example.com")) != secret
    hash = sha256(secret.encode()).digest()
    (row,) = rows(connection, "SELECT * FROM tokens WHERE hash = %s", hash)
    assert secret not in str(row)
    assert (row["expires_at"] is None) == (kind == "token")
    assert secret not in flask("token", "list", "alice@example.com").stdout


def test_a_token_has_a_scope_an_expiry_and_a_name(app, flask, connection):
    words = "--scope", "read", "--expires-in", "7", "--name", "for the report"
    secret = value(flask("token", "create", "alice@example.com", *words))
    (row,) = rows(
        connection,
        "SELECT scope, name, expires_at - created_at = interval '7 days' AS week"
        " FROM tokens WHERE name <> ''",
    )
    assert row == {"scope": "read", "name": "for the report", "week": True}
    assert Client(app, secret).get("/tasks").status_code == 200
    assert Client(app, secret).post("/tasks", {"title": "x"}).status_code == 403


def test_a_list_of_tokens_is_tab_separated(flask, app):
    secret = value(flask("token", "create", "bob@example.com", "--name", "x"))
    Client(app, secret).get("/tasks")
    first, second = flask("token", "list", "bob@example.com").stdout.splitlines()
    assert first.split("\t")[1:3] == ["api", "write"]
    id, kind, scope, created, used, expires, revoked, name = second.split("\t")
    assert re.fullmatch(UUID, id)
    assert (kind, scope, expires, revoked, name) == ("api", "write", "-", "-", "x")
    for timestamp in (created, used):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", timestamp)


@pytest.mark.parametrize("kind", ["token", "session"])
def test_a_revoked_credential_is_rejected_at_once_and_stays_revoked(app, flask, connection, kind):
    secret = value(flask(kind, "create", "alice@example.com"))
    alice = Client(app, secret) if kind == "token" else Client(app, cookie=secret)
    assert alice.get("/tasks").status_code == 200
    id = flask("token", "list", "alice@example.com").stdout.splitlines()[-1].split("\t")[0]
    assert value(flask("token", "revoke", id)) == id
    assert alice.get("/tasks").status_code == 401
    (first,) = rows(connection, "SELECT revoked_at FROM tokens WHERE revoked_at IS NOT NULL")
    assert value(flask("token", "revoke", id)) == id
    assert rows(connection, "SELECT revoked_at FROM tokens WHERE revoked_at IS NOT NULL") == [first]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["workspace", "create", ""], "NAME"),
        (["workspace", "create", "   "], "NAME"),
        (["workspace", "create", "x" * 121], "NAME"),
        (["workspace", "create", "!!!"], "slug"),
        (["workspace", "create", "Acme"], "slug is taken"),
        (["workspace", "create", "New", "--slug", "acme"], "slug is taken"),
        (["workspace", "create", "New", "--slug", "A b"], "slug must"),
        (["workspace", "create", "New", "--slug", ""], "slug must"),
        (["workspace", "create", "New", "--slug", "\udcff"], "an argument is not UTF-8"),
        (["user", "activate", "\udcff", "acme"], "an argument is not UTF-8"),
        (["workspace", "create", "New", "--plan", "Gold"], "plan must be the name of a plan"),
        (["user", "create", "alice@example.com", "A"], "email is taken"),
        (["user", "create", "ALICE@EXAMPLE.COM", "A"], "email is taken"),
        (["user", "create", "alice", "A"], "EMAIL: must be an e-mail address"),
        (["user", "create", "new@example.com", ""], "NAME"),
        (["user", "activate", "alice@example.com", "globex"], "not a member of globex"),
        (["user", "activate", "nobody@example.com", "acme"], "not a member of acme"),
        (["member", "add", "nowhere", "alice@example.com"], "no workspace nowhere"),
        (["member", "add", "acme", "nobody@example.com"], "no user nobody@example.com"),
        (["token", "create", "nobody@example.com"], "no user nobody@example.com"),
        (["token", "create", "alice@example.com", "--name", "x" * 121], "--name"),
        (["session", "create", "nobody@example.com"], "no user nobody@example.com"),
        (["token", "list", "nobody@example.com"], "no user nobody@example.com"),
        (["token", "revoke", "x"], "no token x"),
        (["token", "revoke", "00000000-0000-7000-8000-000000000000"], "no token"),
    ],
)  # fmt: skip
def test_an_error_is_one_line_on_stderr_and_exit_1(flask, connection, words, message):
    counts = """
        SELECT (SELECT count(*) FROM users) AS users,
               (SELECT count(*) FROM tokens) AS tokens,
               (SELECT count(*) FROM workspaces) AS workspaces
    """
    before = rows(connection, counts)
    assert_failed(flask(*words), message)
    assert rows(connection, counts) == before


@pytest.mark.parametrize(
    "words",
    [
        ["token", "create", "alice@example.com", "--scope", "admin"],
        ["token", "create", "alice@example.com", "--expires-in", "0"],
        ["token", "create", "alice@example.com", "--expires-in", "never"],
        ["token", "create", "alice@example.com", "--expires-in", "99999999"],
        ["session", "create", "alice@example.com", "--expires-in", "-1"],
        ["member", "add", "acme", "alice@example.com", "--role", "king"],
        ["member", "add", "acme"],
        ["token", "create"],
        ["token", "steal"],
    ],
)
def test_an_invalid_argument_shows_the_usage_and_is_exit_2(flask, words):
    assert_failed(flask(*words), "Usage", code=2)


def test_help_says_what_each_command_does_and_needs(app, flask):
    all_commands = dict(commands(app.cli))
    assert {"migrate", "token", "token create", "workspace create"} <= set(all_commands)
    for words, command in all_commands.items():
        outcome = flask(*words.split(), "--help")
        assert outcome.exit_code == 0
        assert re.match(r"[A-Z].*[.:]", command.help, re.DOTALL), words
        assert command.help.split(".")[0].split("\n")[0] in " ".join(outcome.stdout.split())
        for parameter in command.params:
            if parameter.param_type_name == "argument":
                assert parameter.human_readable_name.strip("[]") in outcome.stdout
