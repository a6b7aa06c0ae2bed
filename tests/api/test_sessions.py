"""POST /api/session: a login page with the operator's key can create a session of any user."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from support.http import Client, error_message, invalid_field, location
from support.rows import TOKENS, count, insert_token, row_of
from support.statements import trigger, until_waiting

from service.app import create_app, openapi
from service.settings import InvalidSetting, Settings

OLD, NEW = "old-" * 8, "new+/=._~" * 4
EMAIL = {"email": "Alice@example.com"}


@pytest.fixture
def service(build):
    return build(login_key=f"{NEW},{OLD}", trusted_proxies=1)


@pytest.fixture
def page(service):
    """Return the client of a login page."""
    return Client(service, NEW)


def test_a_login_page_creates_a_session_whose_token_works_as_the_cookie(
    service, page, cast, connection
):
    response = page.post("/session", EMAIL)
    assert response.status_code == 201
    assert location(response) == "/session"
    assert location(page.post("/session/", EMAIL)) == "/session/"
    session = response.get_json()
    assert session["user"] == {"id": cast["alice"], "name": "Alice", "email": "alice@example.com"}
    assert session["token"].startswith("tmw_session_")
    left = datetime.fromisoformat(session["expiresAt"]) - datetime.now(UTC)
    assert timedelta(days=29, hours=23) < left <= timedelta(days=30)
    alice = Client(service, cookie=session["token"])
    me = alice.get("/me").get_json()
    assert (me["user"], me["credential"]) == (session["user"], "session")
    assert me["expiresAt"] == session["expiresAt"]
    assert alice.delete("/session").status_code == 204
    assert error_message(alice.get("/me"), 401)
    assert error_message(Client(service, session["token"]).get("/me"), 401)


def test_only_a_login_key_can_create_sessions_and_it_can_do_nothing_else(service, connection, cast):
    insert_token(connection, cast["alice"], "tmw_session_alice", kind="session")
    before = count(connection, "tokens")
    for client in (
        Client(service),
        Client(service, NEW[:-1]),
        Client(service, f"{NEW},{OLD}"),
        Client(service, TOKENS["alice"]),
        Client(service, cookie="tmw_session_alice"),
        Client(service, cookie=NEW),
    ):
        assert "LOGIN_KEY" in error_message(client.post("/session", EMAIL), 401)
        assert "LOGIN_KEY" in error_message(client.post("/session/", {"nonsense": 1}), 401)
    for method, path in (("GET", "/me"), ("GET", "/tasks"), ("DELETE", "/session")):
        assert error_message(Client(service, NEW).send(method, path), 401)
    assert count(connection, "tokens") == before


def test_a_session_for_an_unknown_and_for_a_deactivated_user_is_the_same_404(page, connection):
    connection.execute("UPDATE users SET deactivated_at = now() WHERE name = 'Bob'")
    messages = {
        error_message(page.post("/session", {"email": f"{name}@example.com"}), 404)
        for name in ("bob", "nobody")
    }
    assert messages == {"User not found"}
    assert connection.execute("SELECT FROM tokens WHERE kind = 'session'").fetchall() == []


def test_a_login_writes_the_name_of_the_user_only_if_it_changes(page, cast, connection):
    written = "SELECT xmin::text FROM users WHERE id = %s"
    before = connection.execute(written, [cast["alice"]]).fetchone()
    for name, unchanged in (("Alice", True), ("Alice A.", False)):
        assert page.post("/session", {**EMAIL, "name": name}).status_code == 201
        after = connection.execute(written, [cast["alice"]]).fetchone()
        assert (after == before) == unchanged, name


def test_a_login_page_can_make_a_session_end_earlier_but_not_in_the_past(page, connection):
    soon = "2098-01-01T00:00:00.000Z"
    made = page.post("/session", {**EMAIL, "expiresAt": soon})
    assert made.get_json()["expiresAt"] == soon
    past = page.post("/session", {**EMAIL, "expiresAt": "2020-01-01T00:00:00Z"})
    assert invalid_field(past, "expiresAt") == "must be in the future"
    assert invalid_field(page.post("/session", {}), "email") == "is required"
    assert count(connection, "tokens") == len(TOKENS) + 1


def test_a_repeat_with_the_older_login_key_creates_no_session_and_shows_no_token(
    service, page, connection
):
    for email in ("alice@example.com", "bob@example.com"):
        body, headers = {"email": email}, {"Idempotency-Key": "login-1"}
        first = page.post("/session", body, headers=headers)
        again = Client(service, OLD).post("/session", body, headers=headers)
        assert again.headers["Idempotent-Replayed"] == "true"
        assert again.get_json() == {**first.get_json(), "token": None}
        assert first.get_json()["token"]
        other = page.post("/session", {**body, "expiresAt": None, "more": 1}, headers=headers)
        assert invalid_field(other, "more")
    assert count(connection, "tokens") == len(TOKENS) + 2
    stored = json.dumps(connection.execute("SELECT body FROM idempotency_keys").fetchall())
    assert "tmw_session" not in stored


def test_login_requests_count_by_client_address_like_requests_without_a_credential(service):
    def attempts(address, client):
        headers = {"X-Forwarded-For": address}
        return [client.post("/session", EMAIL, headers=headers).status_code for _ in range(31)]

    # A request with an API token instead of the key also counts for the address.
    clients = Client(service, TOKENS["alice"]), Client(service, NEW)
    statuses = [status for client in clients for status in attempts("192.0.2.1", client)]
    assert statuses == [401] * 31 + [201] * 29 + [429] * 2
    assert set(attempts("192.0.2.2", Client(service, NEW))) == {201}


def test_without_login_key_neither_the_routes_nor_the_document_have_the_login_operation(build):
    app = build(login_key=None)
    for client in (Client(app), Client(app, TOKENS["alice"]), Client(app, NEW)):
        response = client.client.post("/api/session", json=EMAIL, headers=client.headers)
        assert error_message(response, 404)
    with create_app(Settings.read({})).app_context():
        document = json.loads(openapi.document())
    assert "post" not in document["paths"]["/api/session"]
    assert "loginKey" not in document["components"]["securitySchemes"]


@pytest.mark.nodatabase
@pytest.mark.parametrize("keys", ["x" * 31, f"{NEW},", f"{NEW},{'x' * 31}", "with a space " * 4])
def test_a_short_or_malformed_login_key_stops_the_start_and_the_message_does_not_show_it(keys):
    with pytest.raises(
        InvalidSetting, match="LOGIN_KEY: must be keys of 32 to 200 characters"
    ) as error:
        Settings.read({"LOGIN_KEY": keys})
    assert keys not in str(error.value)


def test_two_logins_of_one_person_at_the_same_time_both_succeed(
    page, cast, connection, database_url
):
    """Both change the name. With a weaker lock first, each would wait for the other."""
    names = ["Alice A.", "Alice B."]
    # Each login that has locked its user waits here.
    body = "BEGIN PERFORM pg_advisory_xact_lock_shared(7); RETURN NEW; END;"
    with (
        trigger(connection, "BEFORE INSERT ON tokens", body),
        psycopg.connect(database_url) as holder,
        ThreadPoolExecutor(2) as threads,
    ):
        holder.execute("SELECT pg_advisory_xact_lock(7)")
        logins = []
        try:
            for name in names:
                logins.append(threads.submit(page.post, "/session", {**EMAIL, "name": name}))
                until_waiting(connection, logins[-1], len(logins))
        finally:
            holder.rollback()
        assert [login.result().status_code for login in logins] == [201, 201]
    assert row_of(connection, "users", cast["alice"])["name"] in names
