"""The commands for API tokens and sessions."""

import re
from hashlib import sha256

import pytest
from support.commands import TIMESTAMP, UUID, assert_failed, lines, rows, value
from support.http import Client
from support.rows import TOKENS


@pytest.mark.parametrize("kind", ["token", "session"])
def test_a_credential_is_printed_once_and_only_its_hash_is_stored(cli, connection, kind):
    secret = value(cli(kind, "create", "alice@example.com"))
    assert re.fullmatch(r"tmw_(api|session)_[0-9a-f]{40}", secret)
    assert value(cli(kind, "create", "alice@example.com")) != secret
    hash = sha256(secret.encode()).digest()
    (row,) = rows(connection, "SELECT * FROM tokens WHERE hash = %s", hash)
    assert secret not in str(row)
    assert (row["expires_at"] is None) == (kind == "token")
    assert secret not in cli("token", "list", "alice@example.com").stdout


def test_token_create_sets_scope_expiry_and_name(app, cli, connection):
    words = "--scope", "read", "--expires-in", "7", "--name", "for the report"
    secret = value(cli("token", "create", "alice@example.com", *words))
    (row,) = rows(
        connection,
        "SELECT scope, name, expires_at - created_at = interval '7 days' AS week"
        " FROM tokens WHERE name <> ''",
    )
    assert row == {"scope": "read", "name": "for the report", "week": True}
    assert Client(app, secret).get("/tasks").status_code == 200
    assert Client(app, secret).post("/tasks", {"title": "x"}).status_code == 403


def test_token_list_prints_tab_separated_values(cli, app):
    secret = value(cli("token", "create", "bob@example.com", "--name", "x"))
    Client(app, secret).get("/tasks")
    first, second = cli("token", "list", "bob@example.com").stdout.splitlines()
    assert first.split("\t")[1:3] == ["api", "write"]
    id, kind, scope, created, used, expires, revoked, workspace, name = second.split("\t")
    assert re.fullmatch(UUID, id)
    assert (kind, scope, expires, revoked, name) == ("api", "write", "-", "-", "x")
    assert workspace == "-"
    for timestamp in (created, used):
        assert re.fullmatch(TIMESTAMP, timestamp)


@pytest.mark.parametrize("kind", ["token", "session"])
def test_a_revoked_credential_is_rejected_immediately_and_stays_revoked(app, cli, connection, kind):
    secret = value(cli(kind, "create", "alice@example.com"))
    alice = Client(app, secret) if kind == "token" else Client(app, cookie=secret)
    assert alice.get("/tasks").status_code == 200
    id = cli("token", "list", "alice@example.com").stdout.splitlines()[-1].split("\t")[0]
    assert value(cli("token", "revoke", id)) == id
    assert alice.get("/tasks").status_code == 401
    (first,) = rows(connection, "SELECT revoked_at FROM tokens WHERE revoked_at IS NOT NULL")
    assert value(cli("token", "revoke", id)) == id
    assert rows(connection, "SELECT revoked_at FROM tokens WHERE revoked_at IS NOT NULL") == [first]


def test_token_revoke_all_revokes_all_credentials_of_one_user(app, cli):
    cookie = value(cli("session", "create", "alice@example.com"))
    listed = {line[0] for line in lines(cli("token", "list", "alice@example.com"))}
    revoke = "token", "revoke", "--all", "ALICE@example.com", "--yes"
    assert {line for (line,) in lines(cli(*revoke))} == listed
    assert len(listed) == 2
    assert Client(app, TOKENS["alice"]).get("/tasks").status_code == 401
    assert Client(app, cookie=cookie).get("/tasks").status_code == 401
    assert Client(app, TOKENS["bob"]).get("/tasks").status_code == 200
    assert lines(cli(*revoke)) == []


def test_only_a_member_of_a_workspace_can_get_a_token_for_that_workspace(app, cli, connection):
    token = value(cli("token", "create", "alice@example.com", "--workspace", "acme"))
    connection.execute("UPDATE users SET active_workspace_id = NULL")
    assert Client(app, token).get("/me").get_json()["workspace"]["slug"] == "acme"
    assert "\tacme\t" in cli("token", "list", "alice@example.com").stdout
    for slug in ("globex", "absent"):
        words = ("token", "create", "alice@example.com", "--workspace", slug)
        assert_failed(cli(*words), f"alice@example.com is not a member of {slug}")


def test_session_list_and_revoke_with_since_concern_only_sessions_made_since_then(
    app, cli, connection
):
    early = value(cli("session", "create", "alice@example.com"))
    connection.execute("UPDATE tokens SET created_at = '2026-01-01' WHERE kind = 'session'")
    late = value(cli("session", "create", "bob@example.com"))
    (first, second) = lines(cli("session", "list"))
    assert (first[1], second[1]) == ("alice@example.com", "bob@example.com")
    assert late not in cli("session", "list", "--json").stdout
    since = "--since", "2026-01-01T00:00:00.001Z"
    assert lines(cli("session", "list", *since)) == [second]
    for revoked in ([[second[0]]], []):
        assert lines(cli("session", "revoke", *since, "--yes")) == revoked
    assert lines(cli("session", "list")) == [first]
    assert Client(app, cookie=late).get("/me").status_code == 401
    assert Client(app, cookie=early).get("/me").status_code == 200
    assert Client(app, TOKENS["bob"]).get("/me").status_code == 200
    assert_failed(cli("session", "list", "--since", "monday"), "--since: ")
