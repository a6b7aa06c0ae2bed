"""Webhooks: signatures, events, and posting within a request."""

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import get_ident

import pytest
from standardwebhooks import WebhookVerificationError
from support.database import end_connections
from support.http import Client
from support.processes import wait_until
from support.receivers import (
    answer,
    attempts,
    deliveries,
    environment,
    gibberish,
    hang,
    is_genuine,
    reset,
    secret_of,
    subscribe,
    verified,
    webhook_row,
)
from support.rows import TOKENS, activate, insert_member

from service.settings import Settings
from service.webhooks import NoSlot, secrets
from service.webhooks.worker import Worker

SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
OLD_SECRET = "whsec_" + "b2xk" * 10 + "bw=="


@pytest.mark.nodatabase
def test_signatures_equal_the_published_test_vectors():
    headers = secrets.signatures(b'{"type":"task.created"}', "evt_1", 1700000000, [SECRET])
    assert headers == {
        "X-Service-Signature": "a804b81e07201ea403e341cf0e06e2e35c15156135f4372c5ba93bb679232caa",
        "webhook-id": "evt_1",
        "webhook-timestamp": "1700000000",
        "webhook-signature": "v1,RXewVcjEb3OgJc/LDa6jmqsVvKXgScr/H0FDA782s/4=",
    }


@pytest.mark.nodatabase
def test_the_documented_code_accepts_the_published_vector_and_nothing_else():
    body = b'{"type":"task.created"}'
    signature = "a804b81e07201ea403e341cf0e06e2e35c15156135f4372c5ba93bb679232caa"
    assert is_genuine(SECRET, body, signature)
    assert not is_genuine(SECRET, body + b" ", signature)
    assert not is_genuine(OLD_SECRET, body, signature)
    assert not is_genuine(SECRET, body, signature.upper())
    assert not is_genuine(SECRET, body, "")
    assert not is_genuine(SECRET, body, "\xe9")


@pytest.mark.nodatabase
def test_a_key_has_the_same_fingerprint_and_secrets_in_every_release():
    """Receivers have stored the secrets, and databases have stored the fingerprints."""
    key, webhook = "only for the tests and long enough", "0190163d-8694-739b-aea5-966c26f8ad91"
    assert secrets.fingerprint(key) == "a973a32ccbad8e75"
    secret = secrets.derive_secret(key, webhook, 1)
    assert secret == "whsec_alnq38qyJEqpy6OHHK17ul0fD9bbfbxtcu99ht/AMx0="


def test_without_migrations_the_log_says_that_webhook_key_was_not_compared_with_the_database(
    with_webhooks, empty, caplog
):
    app = with_webhooks(DATABASE_URL=empty)
    assert app.test_client().get("/healthz").status_code == 503
    line = "WEBHOOK_KEY was not compared with the database: UndefinedTable"
    # The keys are compared on the first connection of the pool. The request may have got the second
    # one and ended before that.
    wait_until(lambda: line in caplog.messages)
    app.extensions["pool"].close()
    assert caplog.messages.count(line) == 1


def test_an_event_can_be_verified_with_its_hex_signature_and_with_standard_webhooks(
    ada, receiver, webhook
):
    ada.post("/tasks", {"title": "Grüße, 世界 🌍"})
    received = receiver.take()
    secret = secret_of(webhook)
    assert is_genuine(secret, received.body, received.headers["X-Service-Signature"])
    event = verified(secret, received)
    assert event["data"]["title"] == "Grüße, 世界 🌍"
    assert event["id"] == received.headers["webhook-id"]
    with pytest.raises(WebhookVerificationError):
        verified(secret, received, received.body + b" ")
    with pytest.raises(WebhookVerificationError):
        verified(secret_of(webhook, 2), received)


def a_task(client):
    return client.post("/tasks", {"title": "Old"}).get_json()


def a_meeting(client):
    times = {"startTime": "2027-01-01T09:00:00Z", "endTime": "2027-01-01T10:00:00Z"}
    return client.post("/meetings", {"title": "Old", **times}).get_json()


def test_creating_a_task_posts_an_event(ada, cast, receiver, webhook):
    task = a_task(ada)
    received = receiver.take()
    message = json.loads(received.body)
    assert message == {
        "id": received.headers["webhook-id"],
        "type": "task.created",
        "timestamp": task["createdAt"],
        "workspaceId": cast["acme"],
        "actorId": cast["alice"],
        "changed": [],
        "data": task,
        "previous": {},
    }
    members = ["id", "type", "timestamp", "workspaceId", "actorId", "changed", "data", "previous"]
    assert [*message, *message["data"]] == [*members, *task]
    assert received.path == "/hook"
    assert received.headers["Content-Type"] == "application/json"


def test_each_enabled_webhook_that_subscribes_gets_one_delivery(ada, cast, connection, receiver):
    wanting = {
        subscribe(connection, cast["acme"], receiver.url),
        subscribe(connection, cast["acme"], receiver.url, "task.deleted", "task.created"),
    }
    subscribe(connection, cast["acme"], receiver.url, "task.updated")
    subscribe(connection, cast["acme"], receiver.url, disabled_at="2026-01-01T00:00:00Z")
    subscribe(connection, cast["globex"], receiver.url)
    a_task(ada)
    rows = deliveries(connection)
    assert sorted(str(row["webhook_id"]) for row in rows) == sorted(wanting)
    assert {row["state"] for row in rows} == {"delivered"}
    assert len({row["event_id"] for row in rows}) == 1
    first, second = receiver.take(), receiver.take()
    assert first.body == second.body
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.headers["X-Service-Signature"] != second.headers["X-Service-Signature"]
    assert receiver.connections == 2


def test_a_change_of_a_meeting_is_posted_even_if_its_workspace_is_not_the_active_one(
    ada, bob, cast, connection, receiver
):
    meeting = a_meeting(bob)
    insert_member(connection, cast["globex"], cast["alice"])
    activate(connection, cast["globex"], cast["alice"])
    assert a_meeting(ada)["workspaceId"] == cast["globex"]
    subscribe(connection, cast["acme"], receiver.url)
    subscribe(connection, cast["globex"], receiver.url)
    ada.patch(f"/meetings/{meeting['id']}", {"status": "completed"})
    assert json.loads(receiver.take().body)["workspaceId"] == cast["acme"]
    assert receiver.connections == 1


@pytest.fixture
def statements(monkeypatch, webhooks_app):
    """Return a list to which each statement that this thread runs is added.

    Statements of the threads of the pool are left out.
    """
    ran, here = [], get_ident()
    connections = webhooks_app.extensions["pool"].connections

    def note(method):
        def noted(connection, *arguments, **values):
            if get_ident() == here:
                ran.extend(name for name in arguments if isinstance(name, str))
            return method(connection, *arguments, **values)

        return noted

    for name in ("_rows", "run"):
        monkeypatch.setattr(connections, name, note(getattr(connections, name)))
    return ran


@pytest.mark.parametrize("events", [None, ["meeting.created"], []])
def test_one_statement_writes_a_change_and_the_event_of_a_subscribed_webhook(
    events, ada, with_webhooks, cast, connection, receiver, statements
):
    if events is not None:
        subscribe(connection, cast["acme"], receiver.url, *events)
        subscribe(connection, cast["globex"], receiver.url)
    # If the service had a key, further statements would claim and record the delivery.
    client = Client(with_webhooks(WEBHOOK_KEY=""), TOKENS["alice"]) if events == [] else ada
    client.get("/tasks")
    statements.clear()
    a_task(client)
    assert statements == ["gate/authenticate_and_count", "tasks/create"]
    written = [
        row["xmin"]
        for table in ("tasks", "events", "deliveries")
        for row in connection.execute(f"SELECT xmin::text FROM {table}").fetchall()
    ]
    assert (len(written), len({*written})) == (3 if events == [] else 1, 1)


def test_the_worker_posts_the_stored_body_of_an_event_byte_for_byte(
    ada, connection, receiver, webhook
):
    receiver.behaves(answer(202, b"gr\xc3\xbc\xc3\x9fe \0 \xff" + b"." * 500))
    a_task(ada)
    (row,) = deliveries(connection)
    assert receiver.take().body == row["body"].encode()
    assert (row["state"], row["attempts"]) == ("delivered", 1)
    assert row["finished_at"] is not None
    (attempt,) = attempts(connection)
    assert (attempt["number"], attempt["status"], attempt["error"]) == (1, 202, None)
    # The first 200 bytes of the answer are kept.
    assert attempt["answer"] == "grüße � �" + "." * 189


@pytest.mark.parametrize(
    ("behaviour", "status", "error"),
    [
        (answer(500), 500, None), (answer(404, b""), 404, None),
        (answer(301, Location="http://127.0.0.1:1/"), 301, None), (answer(304, b""), 304, None),
        (reset, None, "ConnectionResetError"), (gibberish, None, "BadStatusLine"),
        (None, None, "ConnectionRefusedError"),
    ],
)  # fmt: skip
def test_a_request_succeeds_and_logs_the_failure_if_the_receiver_fails(
    behaviour, status, error, ada, cast, connection, receiver, caplog
):
    if behaviour:
        receiver.behaves(behaviour)
    else:
        receiver.close()
    webhook = subscribe(connection, cast["acme"], receiver.url)
    assert ada.post("/tasks", {"title": "Written"}).status_code == 201
    assert connection.execute("SELECT count(*) FROM tasks").fetchone()["count"] == 1
    (row,) = deliveries(connection)
    assert (row["state"], row["attempts"], row["finished_at"]) == ("waiting", 1, None)
    (attempt,) = attempts(connection)
    assert (attempt["status"], attempt["error"]) == (status, error)
    assert webhook_row(connection, webhook)["failing_since"] is not None
    assert receiver.connections == bool(behaviour)
    assert f" to webhook {webhook} failed at attempt 1: {status or error}" in caplog.text


def test_requests_leave_a_failing_webhook_to_the_worker_and_post_to_the_others(
    ada, cast, connection, receiver, other_receiver, webhook
):
    receiver.behaves(answer(503))
    subscribe(connection, cast["acme"], other_receiver.url)
    for _ in range(5):
        a_task(ada)
    assert receiver.connections == 1
    assert other_receiver.connections == 5


def test_webhook_timeout_covers_all_posts_of_a_request(with_webhooks, cast, connection, receiver):
    receiver.behaves(hang)
    for _ in range(5):
        subscribe(connection, cast["acme"], receiver.url)
    # The deadline of the whole request is much later than WEBHOOK_TIMEOUT.
    client = Client(with_webhooks(WEBHOOK_TIMEOUT="1", STATEMENT_TIMEOUT="20"), TOKENS["alice"])
    assert client.post("/tasks", {"title": "Written"}).status_code == 201
    assert receiver.connections == 1
    (attempt,) = attempts(connection)
    assert (attempt["status"], attempt["error"]) == (None, "timeout")
    # The time also includes what the request does before its first post.
    assert 100 <= attempt["milliseconds"] <= 9000
    assert sorted(row["attempts"] for row in deliveries(connection)) == [0, 0, 0, 0, 1]
    assert {row["state"] for row in deliveries(connection)} == {"waiting"}


@pytest.mark.parametrize(("threads", "slots"), [(1, 1), (4, 1), (8, 2), (11, 2), (12, 3)])
def test_receivers_and_name_servers_together_hold_one_thread_in_four(with_webhooks, threads, slots):
    free = with_webhooks(WEB_THREADS=str(threads)).extensions["outbound_slots"]
    with ExitStack() as stack:
        for number in range(slots):
            enter = free.for_posts() if number % 2 else free.for_call(number, 0)
            assert stack.enter_context(enter) is not False
        assert stack.enter_context(free.for_posts()) is False
        with pytest.raises(NoSlot, match="busy"):
            stack.enter_context(free.for_call("another", 0))


def test_a_hanging_receiver_holds_no_connection_and_one_request_in_four_threads(
    with_webhooks, connection, receiver, webhook
):
    receiver.behaves(hang)
    app = with_webhooks(WEBHOOK_TIMEOUT="20", STATEMENT_TIMEOUT="20")
    client = Client(app, TOKENS["alice"])
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(client.post, "/tasks", {"title": "Hangs"})
        receiver.take()
        pool_of_app = app.extensions["pool"]
        with ExitStack() as stack:
            # The hanging request holds no connection, so the test can take all of them.
            for _ in range(pool_of_app.max_size):
                stack.enter_context(pool_of_app.connection(timeout=60))
        # With four threads, one request may wait for a receiver. This second one does not post.
        assert Client(app, TOKENS["bob"]).post("/tasks", {"title": "Goes on"}).status_code == 201
        assert not first.done()
        assert receiver.connections == 1
        receiver.released.set()
        assert first.result().status_code == 201
    assert [row["attempts"] for row in deliveries(connection)] == [1, 0]


def test_if_the_database_is_lost_while_posting_the_request_succeeds_and_the_event_is_retried(
    own_url, start, database_url, connection, receiver, caplog, webhook
):
    def lose_the_database(handler):
        end_connections(connection, own_url)
        answer(200)(handler)

    receiver.behaves(lose_the_database, answer(200))
    client = Client(start(Settings.read(environment(own_url))), TOKENS["alice"])
    assert client.post("/tasks", {"title": "Written"}).status_code == 201
    first = receiver.take()
    lost = {"OperationalError", "AdminShutdown"}
    assert {f"delivery left to the worker: {name}" for name in lost} & {*caplog.messages}
    (row,) = deliveries(connection)
    assert (row["state"], row["attempts"]) == ("waiting", 1)
    assert attempts(connection) == []
    # Let the lease end.
    connection.execute("UPDATE deliveries SET due_at = now()")
    assert Worker(Settings.read(environment(database_url))).run_once() == 1
    second = receiver.take()
    assert second.body == first.body
    assert second.headers["webhook-id"] == first.headers["webhook-id"]
    verified(secret_of(webhook), second)
    assert deliveries(connection)[0]["state"] == "delivered"
