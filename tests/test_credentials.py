"""Credentials and workspaces: every operation by each credential in each workspace.

Alice has two workspaces, of which Acme is active; Globex is not hers. ``pytest -s`` prints a table.
"""

import re
from itertools import product

import pytest
from support.derived import Values, body_of, by_name, references, session, views
from support.http import Client, error_message, invalid_field
from support.receivers import announce, deliveries, subscribe
from support.resources import TABLES, WORD
from support.rows import TOKENS, UNKNOWN, count, insert, insert_member, insert_token
from support.world import World

# Nothing listens there, so a ping or a delivery reaches nobody.
HOOK = "http://127.0.0.1:1/"
CREDENTIALS = "session", "session in B", "token", "token of A"
TASK = {"title": "Write the report"}


@pytest.fixture
def elsewhere(initech, acme, connection, cast):
    """Alice's other workspace, with a row in every table."""
    world = World(connection, initech, cast["alice"])
    world.fill("elsewhere")
    return world


@pytest.fixture
def clients(silent_app, elsewhere):
    in_b = session(silent_app, "alice")
    in_b.headers["Workspace-Id"] = elsewhere.workspace_id
    token, token_of_a = TOKENS["alice"], f"tmw_api_alice_{WORD}"
    all = session(silent_app, "alice"), in_b, Client(silent_app, token)
    return dict(zip(CREDENTIALS, (*all, Client(silent_app, token_of_a)), strict=True))


def ids_of_new_row(view, connection, world):
    """Insert a row for the path of a view; return the ids in the path."""
    names = re.findall(r"(\w+)/<id:", view.rule)
    if names[-1] in ("tasks", "meetings"):
        known = {"user": world.user_id}
        return [TABLES[names[-1]].insert(connection, world.workspace_id, known)]
    if names[-1] == "tokens":
        return [insert_token(connection, world.user_id, f"{count(connection, 'tokens')}")]
    if names == ["workspaces"]:
        return [world.workspace_id]
    if names[-1] == "members":
        email = f"{count(connection, 'users')}@example.com"
        id = insert(connection, "users", email=email, name="New")
        insert_member(connection, world.workspace_id, id)
        return [world.workspace_id, id]
    assert names[0] == "webhooks", f"{view.rule}: insert a row for it here"
    webhook = subscribe(connection, world.workspace_id, HOOK)
    announce(connection, world.workspace_id)
    (delivery, *_) = (row for row in deliveries(connection) if str(row["webhook_id"]) == webhook)
    return [webhook, str(delivery["id"])][: len(names)]


@pytest.mark.slow
@by_name(views())
def test_a_credential_reaches_only_its_workspaces_and_the_header_chooses_one_of_them(
    clients, acme, elsewhere, globex, connection, cast, insert_into, unlimited, view
):
    worlds = {"A": acme, "B": elsewhere, "foreign": globex}
    marks = {
        name: {
            str(row["id"])
            for table, rows in world.everything().items()
            for row in rows
            if "id" in row and not table.endswith("of the user")
        }
        for name, world in worlds.items()
    }
    body = body_of(view, Values(references(connection, cast, insert_into)))

    def cell(client, name):
        """The status; if the path has no id, whether rows of this workspace show or change."""
        # Delete the user whom POST …/members creates, so that it can create the user again.
        connection.execute("DELETE FROM users WHERE email = 'email1@example.com'")
        if view.variables:
            path = view.path(*ids_of_new_row(view, connection, worlds[name]))
            return client.send(view.method, path, json=body).status_code
        before = worlds[name].everything()
        shown = client.send(view.method, view.path(), json=body).text
        seen = view.method == "GET" and any(id in shown for id in marks[name])
        return "rows" if seen or worlds[name].everything() != before else "-"

    table = {
        who: [cell(client, name) for name in worlds]
        for who, client in clients.items()
        # This operation would end the session that the other requests need.
        if view.name != "DELETE /api/session"
    }
    print(f"{view.name:62}", *("/".join(map(str, row)) for row in table.values()), sep=" | ")
    if not table:
        return
    (a, b, foreign), in_b = table["session"], table["session in B"]
    if view.rule == "/api/meetings/<id:id>" and view.method != "GET":
        # Without the header, a meeting is found in every workspace; with it, in the named one.
        assert (a, in_b) == (b, [404, b, foreign])
    else:
        ignored = view.operation.ignores_workspace_header
        assert in_b == ([a, b, foreign] if ignored else [b, a, foreign])
    assert foreign in ("-", 404), "a foreign workspace"
    if not view.operation.session_only:
        assert table["token"] == [a, b, foreign]
        assert table["token of A"] == [a, foreign, foreign]


# The header

KEY = {"Idempotency-Key": "once"}


@pytest.fixture
def in_initech(initech):
    return {"Workspace-Id": initech}


MALFORMED = (
    "", "x", "initech", f"{UNKNOWN}x", f"{UNKNOWN}, {UNKNOWN}", f" {UNKNOWN}", "\N{BULLET}",
)  # fmt: skip


def test_a_malformed_workspace_id_gets_400_and_counts_in_the_active_workspace(
    alice, connection, cast
):
    sent = [*product(MALFORMED, ("/tasks", "/mail", "/nothing"))]
    for number, (named, path) in enumerate(sent, 1):
        header = {"Workspace-Id": named.encode().decode("latin-1")}
        response = alice.get(path, headers=header)
        message = invalid_field(response, "Workspace-Id")
        assert message == "must be an id, like 0190163d-8694-739b-aea5-966c26f8ad91", named
        assert response.headers["X-RateLimit-Remaining"] == str(1000 - number)
    (row,) = connection.execute("SELECT workspace_id, minute_count FROM usage").fetchall()
    assert (str(row["workspace_id"]), row["minute_count"]) == (cast["acme"], len(sent))


def test_naming_a_workspace_out_of_reach_gets_404_and_counts_in_the_active_workspace(
    app, alice, connection, cast, initech
):
    insert_token(connection, cast["alice"], "of-acme", workspace_id=cast["acme"])
    insert_token(connection, cast["alice"], "reader", scope="read")
    token, reader = Client(app, "of-acme"), Client(app, "reader")
    tried = [(who, id) for who in (alice, token) for id in (cast["globex"], UNKNOWN)]
    for who, id in [*tried, (token, initech), (reader, cast["globex"])]:
        before = count(connection, "tasks")
        for response in (who.get("/tasks", headers={"Workspace-Id": id}),
                         who.post("/tasks", TASK, headers={"Workspace-Id": id})):  # fmt: skip
            message = error_message(response, 404)
            assert message.startswith("Workspace-Id: must be the id of a workspace")
            assert [fault["field"] for fault in response.get_json()["errors"]] == ["Workspace-Id"]
        assert count(connection, "tasks") == before
    (row,) = connection.execute("SELECT workspace_id, minute_count FROM usage").fetchall()
    assert (str(row["workspace_id"]), row["minute_count"]) == (cast["acme"], 12)
    for who in (alice, token):
        assert who.get("/tasks", headers={"Workspace-Id": cast["acme"].upper()}).status_code == 200
    connection.execute("DELETE FROM members WHERE workspace_id = %s", (initech,))
    error_message(alice.get("/tasks", headers={"Workspace-Id": initech}), 404)
    wrong = alice.send("PUT", "/tasks", headers={"Workspace-Id": initech})
    assert error_message(wrong, 405).startswith("Method not allowed")


def test_without_a_valid_credential_every_workspace_id_gets_401(stranger, cast):
    for id in (cast["acme"], UNKNOWN, "x"):
        error_message(stranger.get("/tasks", headers={"Workspace-Id": id}), 401)


def test_a_request_counts_in_the_workspace_that_it_names_with_the_limits_of_its_plan(
    alice, connection, initech, in_initech, lines
):
    connection.execute("UPDATE workspaces SET plan = 'Starter' WHERE id = %s", (initech,))
    connection.execute("UPDATE plans SET per_minute = 2 WHERE name = 'Starter'")
    left = [alice.get("/dashboard/stats", headers=in_initech) for _ in range(3)]
    assert [response.status_code for response in left] == [200, 200, 429]
    assert left[0].get_json()["workspaceId"] == initech
    assert left[0].headers["X-RateLimit-Limit"] == "2"
    assert alice.get("/me").headers["X-RateLimit-Remaining"] == "999"
    assert initech in lines()[0]


def test_the_same_idempotency_key_in_another_workspace_is_another_request(
    alice, cast, connection, in_initech
):
    first, there, again = (
        alice.post("/tasks", TASK, headers={**KEY, **header}) for header in ({}, in_initech, {})
    )
    assert [response.status_code for response in (first, there, again)] == [201] * 3
    assert there.get_json()["workspaceId"] == in_initech["Workspace-Id"]
    assert "Idempotent-Replayed" not in there.headers
    assert again.get_json() == first.get_json()
    assert count(connection, "tasks") == 2


def test_a_user_without_an_active_workspace_can_name_one_in_the_header(
    alice, connection, cast, in_initech
):
    connection.execute("UPDATE users SET active_workspace_id = NULL")
    error_message(alice.post("/tasks", TASK), 409)
    assert alice.post("/tasks", TASK, headers=in_initech).status_code == 201


def test_the_header_does_not_change_the_stored_active_workspace(alice, insert_into, in_initech):
    there = insert_into("tasks", in_initech["Workspace-Id"])
    assert [task["id"] for task in alice.get("/tasks", headers=in_initech).get_json()["data"]] == [
        there
    ]
    assert alice.get("/me").get_json()["workspace"]["slug"] == "acme"


# The operations that do not read the header


def test_only_the_listed_operations_ignore_the_header_workspace_id():
    assert {view.name for view in views() if view.operation.ignores_workspace_header} == {
        "GET /api/me",
        "PATCH /api/me",
        "GET /api/workspaces",
        "GET /api/tokens",
        "DELETE /api/tokens/<id:id>",
        "DELETE /api/session",
    }


@by_name([view for view in views() if view.operation.ignores_workspace_header])
def test_operations_that_ignore_the_header_work_for_a_user_who_has_left_the_named_workspace(
    app, connection, cast, initech, insert_into, view
):
    def sent(named, name):
        insert_token(connection, cast["alice"], name, kind="session")
        alice = Client(app, cookie=name)
        alice.headers |= {"Content-Type": "application/json"}
        alice.headers |= {"Workspace-Id": named} if named is not None else {}
        ids = [insert_token(connection, cast["alice"], f"of {name}")] if view.variables else []
        connection.execute("DELETE FROM usage")
        response = alice.send(view.method, view.path(*ids), json=body)
        (counted,) = connection.execute("SELECT workspace_id::text FROM usage").fetchall()
        assert counted["workspace_id"] == cast["acme"]
        tokens = "DELETE FROM tokens WHERE hash <> sha256('tmw_api_alice') AND user_id = %s"
        connection.execute(tokens, (cast["alice"],))
        return response

    body = body_of(view, Values(references(connection, cast, insert_into)))
    expected = sent(None, "none")
    assert expected.status_code in (200, 204)
    connection.execute("DELETE FROM members WHERE workspace_id = %s", (initech,))
    for number, named in enumerate((initech, cast["globex"], UNKNOWN, "", "initech")):
        response = sent(named, str(number))
        assert response.status_code == expected.status_code, named
        assert response.headers.get("Set-Cookie") == expected.headers.get("Set-Cookie")
        shown, usual = response.get_json(silent=True), expected.get_json(silent=True)
        if view.name.endswith("/api/workspaces"):
            # The membership in Initech has ended, so the list lacks it.
            usual = [workspace for workspace in usual if workspace["id"] != initech]
        ignored = ("id", "createdAt", "limits", "name")
        assert plain(shown, ignored) == plain(usual, ignored)


def plain(value, ignored):
    if isinstance(value, dict):
        return {name: plain(each, ignored) for name, each in value.items() if name not in ignored}
    return [plain(each, ignored) for each in value] if isinstance(value, list) else value


def test_a_removed_member_can_sign_out_in_a_tab_that_still_names_the_workspace(
    app, alice, connection, cast
):
    insert_token(connection, cast["bob"], "tmw_session_bob", kind="session")
    bob = Client(app, cookie="tmw_session_bob")
    bob.headers |= {"Workspace-Id": cast["acme"], "Content-Type": "application/json"}
    assert alice.delete(f"/workspaces/{cast['acme']}/members/{cast['bob']}").status_code == 204
    error_message(bob.get("/tasks"), 404)
    assert bob.get("/me").get_json()["workspace"] is None
    assert bob.get("/workspaces").get_json() == []
    gone = bob.delete("/session")
    assert gone.status_code == 204
    assert gone.headers["Set-Cookie"].startswith("session=; Path=/api; Max-Age=0")
    error_message(bob.get("/me"), 401)


def test_a_token_for_one_workspace_gets_no_response_that_was_stored_for_another_workspace(
    app, alice, connection, cast, initech
):
    """A key can belong to the active workspace, to the user, or to the workspace in the path."""
    insert_token(connection, cast["alice"], "of-acme", workspace_id=cast["acme"])
    token = Client(app, "of-acme")
    member = {"email": "mia@example.com"}
    for method, path, body, status in (
        ("PATCH", f"/workspaces/{initech}", {"name": "Secret"}, 422),
        ("PATCH", "/me", {"workspaceId": initech}, 409),
        ("POST", f"/workspaces/{initech}/members", member, 404),
    ):
        key = {"Idempotency-Key": method + path}
        assert alice.send(method, path, json=body, headers=key).status_code in (200, 201)
        alice.patch("/me", {"workspaceId": cast["acme"]})
        response = token.send(method, path, json=body, headers=key)
        assert "initech" not in error_message(response, status)
    # Keys that the token itself has used work for the token, and for no other credential.
    path = f"/workspaces/{cast['acme']}/members"
    first, again = (token.post(path, {"email": "x@example.com"}, headers=KEY) for _ in range(2))
    assert (first.status_code, again.headers["Idempotent-Replayed"]) == (201, "true")
    assert first.get_json() == again.get_json()
    error_message(alice.post(path, {"email": "x@example.com"}, headers=KEY), 422)
