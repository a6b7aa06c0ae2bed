"""API tokens and the session, which only a session can manage; a token is shown once."""

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from hashlib import sha256

import psycopg
import pytest
from support.derived import by_name, views
from support.http import Client, error_message, invalid_field, location, names
from support.rows import TOKENS, UNKNOWN, activate, insert_member, insert_token
from support.statements import run, until_waiting

from service.api.tokens import NewToken, Token

JSON = {"Content-Type": "application/json"}
KEY = {"Idempotency-Key": "once"}


@pytest.fixture
def alice(browser):
    return browser


@pytest.fixture
def charlie(app, cast, connection):
    insert_token(connection, cast["charlie"], "tmw_session_charlie", kind="session")
    return Client(app, cookie="tmw_session_charlie")


def rows(connection, user_id):
    found = connection.execute("SELECT * FROM tokens WHERE user_id = %s ORDER BY id", (user_id,))
    return [{**row, "id": str(row["id"])} for row in found]


def test_a_new_token_works_and_is_shown_once(app, alice, cast, connection):
    response = alice.post("/tokens", {"name": " Nightly export "})
    assert response.status_code == 201
    token = response.get_json()
    assert list(token) == names(NewToken)
    assert re.fullmatch("tmw_api_[0-9a-f]{40}", token["token"])
    assert (token["name"], token["scope"]) == ("Nightly export", "write")
    assert (token["expiresAt"], token["lastUsedAt"]) == (None, None)
    assert location(response) == f"/tokens/{token['id']}"
    client = Client(app, token["token"])
    assert client.post("/tasks", {"title": "Exported"}).status_code == 201
    assert client.get("/me").get_json()["user"]["id"] == cast["alice"]
    (row,) = [row for row in rows(connection, cast["alice"]) if row["id"] == token["id"]]
    assert row["hash"] == sha256(token["token"].encode()).digest()
    assert token["token"] not in alice.get("/tokens").text
    assert token["token"] not in str(row)


def test_a_new_token_has_the_scope_and_the_expiry_that_the_request_asks_for(app, alice, connection):
    soon = datetime.now(UTC) + timedelta(hours=1)
    body = {"name": "Report", "scope": "read", "expiresAt": soon.isoformat()}
    token = alice.post("/tokens", body).get_json()
    assert token["scope"] == "read"
    assert token["expiresAt"] == soon.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    client = Client(app, token["token"])
    assert client.get("/tasks").status_code == 200
    error_message(client.post("/tasks", {"title": "x"}), 403)
    connection.execute("UPDATE tokens SET expires_at = now() WHERE id = %s", (token["id"],))
    error_message(client.get("/tasks"), 401)


def test_the_expiry_of_a_new_token_must_be_in_the_future(alice, connection):
    stored = "SELECT count(*) FROM tokens"
    before = connection.execute(stored).fetchone()
    past = alice.post("/tokens", {"name": "x", "expiresAt": "2020-01-01T00:00:00Z"})
    assert invalid_field(past, "expiresAt") == "must be in the future"
    assert connection.execute(stored).fetchone() == before


def test_creating_the_101st_live_token_gets_409_even_if_several_requests_run_at_the_same_time(
    alice, cast, connection
):
    # The cast has given Alice one token.
    connection.execute(
        "INSERT INTO tokens (user_id, kind, hash)"
        " SELECT %s, 'api', sha256(number::text::bytea) FROM generate_series(1, 96) AS number",
        (cast["alice"],),
    )
    with ThreadPoolExecutor(8) as threads:
        responses = list(threads.map(lambda _: alice.post("/tokens", {"name": "x"}), range(8)))
    assert sorted(response.status_code for response in responses) == [201] * 3 + [409] * 5
    assert "100 API tokens" in error_message(alice.post("/tokens", {"name": "x"}), 409)
    assert len(alice.get("/tokens").get_json()) == 100
    # Sessions, expired and revoked tokens do not count.
    last = alice.get("/tokens").get_json()[-1]["id"]
    assert alice.delete(f"/tokens/{last}").status_code == 204
    error_message(alice.delete(f"/tokens/{last}"), 404)
    assert alice.post("/tokens", {"name": "Again the 100th"}).status_code == 201


def test_a_repeated_request_creates_one_token_and_no_table_stores_its_text(alice, cast, connection):
    first = alice.post("/tokens", {"name": "Once"}, headers=KEY)
    repeat = alice.post("/tokens", {"name": "Once"}, headers=KEY)
    assert (first.status_code, repeat.status_code) == (201, 201)
    assert repeat.headers["Idempotent-Replayed"] == "true"
    assert repeat.get_json() == {**first.get_json(), "token": None}
    assert repeat.headers["Location"] == first.headers["Location"]
    secret = first.get_json()["token"]
    for table in ("idempotency_keys", "tokens", "events"):
        sql = f"SELECT count(*) FROM {table} AS t WHERE t::text LIKE %s"
        assert connection.execute(sql, (f"%{secret}%",)).fetchone()["count"] == 0
    assert [row["name"] for row in rows(connection, cast["alice"])].count("Once") == 1


# The statements that end a session of Alice.
ENDS = "tokens/revoke_all", "tokens/revoke", "tokens/revoke_own", "users/deactivate", "users/delete"


@pytest.mark.parametrize("end", ENDS)
def test_a_session_that_ends_during_the_request_creates_no_token(
    alice, cast, connection, database_url, end
):
    insert_member(connection, cast["acme"], cast["charlie"], "owner")
    assert alice.get("/tokens").status_code == 200
    (session,) = (row["id"] for row in rows(connection, cast["alice"]) if row["kind"] == "session")
    of_alice = {"email": "alice@example.com", "user_id": cast["alice"]}
    with psycopg.connect(database_url) as other, ThreadPoolExecutor(1) as threads:
        run(other, end, id=session, kind="session", **of_alice)
        posted = threads.submit(alice.post, "/tokens", {"name": "Late"}, headers=KEY)
        try:
            until_waiting(connection, posted)
        finally:
            other.commit()
        error_message(posted.result(20), 401)
    assert [row["name"] for row in rows(connection, cast["alice"]) if row["name"] == "Late"] == []


def test_revoking_all_tokens_includes_a_token_that_is_being_created(
    alice, cast, connection, database_url
):
    (session,) = (row["id"] for row in rows(connection, cast["alice"]) if row["kind"] == "session")
    token = {
        "name": "Early",
        "scope": "write",
        "expires_at": None,
        "workspace_id": None,
        "hash": b"x" * 32,
    }
    with (
        psycopg.connect(database_url) as other,
        psycopg.connect(database_url) as late,
        ThreadPoolExecutor(1) as threads,
    ):
        run(other, "tokens/create_own", user_id=cast["alice"], session_id=session, **token)
        revoked = threads.submit(run, late, "tokens/revoke_all", email="alice@example.com")
        try:
            until_waiting(connection, revoked)
        finally:
            other.commit()
        assert len(revoked.result(20)) == 3
    assert all(row["revoked_at"] for row in rows(connection, cast["alice"]))


def test_a_repeat_in_another_active_workspace_still_creates_one_token_only(alice, cast, initech):
    requests = [
        ("POST", "/tokens", {"name": "Once"}),
        ("PATCH", "/me", {"workspaceId": initech}),
        ("POST", "/tokens", {"name": "Once"}),
        ("PATCH", "/me", {"workspaceId": initech}),
    ]
    first, change, *repeats = (
        alice.send(method, path, json=body, headers={"Idempotency-Key": method})
        for method, path, body in requests
    )
    assert alice.get("/me").get_json()["workspace"]["id"] == initech
    assert all(repeat.headers["Idempotent-Replayed"] == "true" for repeat in repeats)
    assert repeats[0].get_json() == {**first.get_json(), "token": None}
    assert repeats[1].data == change.data
    revoke = f"/tokens/{first.get_json()['id']}"
    assert alice.delete(revoke, headers=KEY).status_code == 204
    alice.patch("/me", {"workspaceId": cast["acme"]})
    assert alice.delete(revoke, headers=KEY).status_code == 204


@pytest.fixture
def worker(app, alice, cast):
    token = alice.post("/tokens", {"name": "Worker", "workspaceId": cast["acme"]}).get_json()
    assert token["workspaceId"] == cast["acme"]
    return Client(app, token["token"])


def test_a_token_for_one_workspace_stays_there_when_its_user_chooses_another_workspace(
    app, worker, alice, cast, connection, initech
):
    insert_token(connection, cast["alice"], "tmw_api_follows")
    first = worker.post("/tasks", {"title": "Once"}, headers=KEY)
    before = worker.get("/tasks")
    assert alice.patch("/me", {"workspaceId": initech}).status_code == 200
    assert Client(app, "tmw_api_follows").get("/me").get_json()["workspace"]["slug"] == "initech"
    assert worker.get("/me").get_json()["workspace"]["slug"] == "acme"
    repeat = worker.post("/tasks", {"title": "Once"}, headers=KEY)
    assert (repeat.get_json(), repeat.headers["Idempotent-Replayed"]) == (first.get_json(), "true")
    after = worker.get("/tasks")
    assert after.get_json() == before.get_json()
    # The token keeps the limits of its workspace, in which the choice itself was counted.
    connection.execute("UPDATE workspaces SET plan = 'Starter' WHERE id = %s", (initech,))
    assert worker.get("/me").headers["X-RateLimit-Limit"] == "1000"
    remaining = [int(page.headers["X-RateLimit-Remaining"]) for page in (before, after)]
    assert remaining[0] - remaining[1] == 4
    (listed,) = [token for token in alice.get("/tokens").get_json() if token["name"] == "Worker"]
    assert listed["workspaceId"] == cast["acme"]


def test_a_token_for_one_workspace_works_without_an_active_workspace_and_cannot_choose_one(
    worker, cast, connection, initech
):
    for chosen in (None, initech):
        activate(connection, chosen, cast["alice"])
        assert worker.get("/dashboard/stats").get_json()["workspaceId"] == cast["acme"]
    for id in (initech, cast["acme"], cast["globex"]):
        message = error_message(worker.patch("/me", {"workspaceId": id}), 409)
        assert message.startswith("This token works in one workspace only")
    assert worker.patch("/me", {}).status_code == 200
    (row,) = connection.execute(
        "SELECT active_workspace_id FROM users WHERE id = %s", (cast["alice"],)
    ).fetchall()
    assert str(row["active_workspace_id"]) == initech


@pytest.mark.parametrize(
    "end",
    ["DELETE FROM members WHERE user_id = %(alice)s", "DELETE FROM workspaces WHERE id = %(acme)s"],
    ids=["the membership ends", "the workspace is deleted"],
)
def test_the_end_of_the_membership_revokes_the_token_for_that_workspace(
    worker, alice, cast, connection, initech, end
):
    earlier = {"revoked": "2020-01-01T00:00:00Z", "workspace_id": cast["acme"]}
    insert_token(connection, cast["alice"], "earlier", **earlier)
    connection.execute(end, cast)
    error_message(worker.get("/me"), 401)
    if end.startswith("DELETE FROM members"):
        # A token that was revoked before keeps its time.
        found = rows(connection, cast["alice"])
        assert min(row["revoked_at"] for row in found if row["revoked_at"]).year == 2020
        insert_member(connection, cast["acme"], cast["alice"])
        error_message(worker.get("/me"), 401)
        insert_member(connection, initech, cast["alice"])
    assert [token for token in alice.get("/tokens").get_json() if token["workspaceId"]] == []
    # The session, and tokens that are not for one workspace, stay valid.
    assert alice.get("/me").status_code == 200


def test_a_membership_that_ends_during_the_request_leaves_no_token_for_the_workspace(
    alice, cast, connection, database_url
):
    with psycopg.connect(database_url) as leaving, ThreadPoolExecutor(1) as threads:
        leaving.execute("DELETE FROM members WHERE user_id = %s", (cast["alice"],))
        making = threads.submit(alice.post, "/tokens", {"name": "x", "workspaceId": cast["acme"]})
        until_waiting(connection, making)
        leaving.commit()
        assert making.result().status_code in (400, 409)
    assert [row for row in rows(connection, cast["alice"]) if row["workspace_id"]] == []


def test_the_list_of_tokens_has_the_live_ones_of_the_caller_newest_first(
    app, alice, charlie, cast, connection
):
    older = alice.post("/tokens", {"name": "Older"}).get_json()
    newer = alice.post("/tokens", {"name": "Newer", "scope": "read"}).get_json()
    insert_token(connection, cast["alice"], "expired", expires="2020-01-01T00:00:00Z")
    insert_token(connection, cast["alice"], "revoked", revoked="2020-01-01T00:00:00Z")
    charlie.post("/tokens", {"name": "Charlie's"})
    Client(app, older["token"]).get("/tasks")
    listed = alice.get("/tokens").get_json()
    assert [token["name"] for token in listed] == ["Newer", "Older", ""]
    assert all(list(token) == names(Token) for token in listed)
    assert listed[0] == {name: newer[name] for name in names(Token)}
    assert listed[1]["lastUsedAt"] >= listed[1]["createdAt"]


def test_only_api_tokens_of_the_caller_can_be_revoked(alice, charlie, cast, connection):
    theirs = charlie.post("/tokens", {"name": "Charlie's"}).get_json()["id"]
    (session,) = (row["id"] for row in rows(connection, cast["alice"]) if row["kind"] == "session")
    for id in (theirs, session, UNKNOWN, "nothing"):
        assert error_message(alice.delete(f"/tokens/{id}"), 404) == "Token not found"
    assert all(row["revoked_at"] is None for row in rows(connection, cast["alice"]))
    assert theirs in charlie.get("/tokens").text


@by_name([view for view in views() if view.operation.session_only])
def test_an_api_token_gets_403_with_the_reason_from_an_operation_for_sessions_only(
    app, cast, connection, view
):
    method, path, body = view.method, view.path(*[UNKNOWN] * len(view.variables)), {}
    before = rows(connection, cast["alice"])
    message = error_message(Client(app, TOKENS["alice"]).send(method, path, json=body), 403)
    assert "only a session" in message.lower()
    # The header decides, even if the request also has a session.
    insert_token(connection, cast["bob"], "tmw_session_bob", kind="session")
    both = Client(app, TOKENS["alice"], cookie="tmw_session_bob")
    error_message(both.send(method, path, json=body), 403)
    after = rows(connection, cast["alice"])
    assert [(row["id"], row["revoked_at"]) for row in after] == [
        (row["id"], row["revoked_at"]) for row in before
    ]


def test_ending_a_session_clears_the_cookie_and_leaves_other_credentials_alive(
    app, alice, cast, connection
):
    insert_token(connection, cast["alice"], "tmw_session_other", kind="session")
    response = alice.delete("/session")
    assert (response.status_code, response.data) == (204, b"")
    cookie = response.headers["Set-Cookie"]
    assert cookie == "session=; Path=/api; Max-Age=0; HttpOnly; Secure; SameSite=Lax"
    error_message(alice.get("/tasks"), 401)
    error_message(alice.delete("/session"), 401)
    assert Client(app, cookie="tmw_session_other").get("/tasks").status_code == 200
    assert Client(app, TOKENS["alice"]).get("/tasks").status_code == 200


def test_managing_tokens_needs_no_active_workspace(alice, cast, connection):
    connection.execute("DELETE FROM members WHERE user_id = %s", (cast["alice"],))
    assert alice.post("/tokens", {"name": "x"}).status_code == 201
    assert len(alice.get("/tokens").get_json()) == 2
