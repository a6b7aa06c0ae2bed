"""One deadline for a request: 5 s from its arrival, wherever PostgreSQL freezes or locks."""

import socket
from time import monotonic, sleep

import psycopg
import pytest
from support.http import Client
from support.proxy import Proxy
from support.receivers import deliveries, environment, subscribe
from support.rows import TOKENS, count

from service.settings import Settings
from service.web.access_log import ARRIVED

# Seconds since the arrival: the service promises 5, and a busy machine may add some. If a deadline
# began again, a response would take 8. If an attempt had a deadline of its own, it would take more
# than 10.
TOLERATED = 7
# Seconds since the arrival of a request that has waited for a thread.
WAITED = 3.2


class Freezing(Proxy):
    """A proxy that freezes for the rest of the test once a client sends bytes with ``mark``.

    It still forwards these bytes to PostgreSQL if ``forwards_it`` is true.
    """

    mark, forwards_it = b"\0no statement\0", False

    def forwarded(self, content):
        if self.mark in content:
            self.freeze()
            if not self.forwards_it:
                self.flowing.wait()
        return content


@pytest.fixture
def proxy(database_url):
    proxy = Freezing(database_url)
    yield proxy
    proxy.close()


@pytest.fixture
def app(start, proxy):
    """Return a service behind the proxy.

    Without prepared statements, the proxy sees the text of each statement.
    """
    app = start(Settings.read(environment(proxy.url, DATABASE_PREPARE="off", WEBHOOK_TIMEOUT="10")))
    assert Client(app, TOKENS["alice"]).get("/tasks").status_code == 200
    return app


def send(app, method, path, body=None, waited=WAITED, **headers):
    """Send a request as if it had arrived ``waited`` seconds ago; return its status.

    Fail the test if the response comes too late.
    """
    arrived = monotonic() - waited
    response = Client(app, TOKENS["alice"]).send(
        method, path, json=body, headers=headers, environ_overrides={ARRIVED: arrived}
    )
    assert monotonic() - arrived <= TOLERATED
    return response.status_code


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mark", "forwards_it", "status"),
    [
        (b"count_request", False, 503),
        (b"INSERT INTO tasks", False, 503),
        (b"INSERT INTO tasks", True, 503),
        (b"COMMIT", False, 503),
        (b"COMMIT", True, 503),
        (b"claim_delivery", False, 201),
        (b"INSERT INTO attempts", False, 201),
        (b"INSERT INTO attempts", True, 201),
    ],
)
def test_a_request_during_which_postgresql_freezes_is_answered_in_time(
    app, proxy, cast, connection, receiver, mark, forwards_it, status
):
    subscribe(connection, cast["acme"], receiver.url)
    key = {"Idempotency-Key": "1"} if mark == b"COMMIT" else {}
    proxy.mark, proxy.forwards_it = mark, forwards_it
    assert send(app, "POST", "/tasks", {"title": "x"}, **key) == status
    assert not proxy.flowing.is_set()
    # If the response was 201, the task is stored, and its event waits for the worker.
    assert count(connection, "tasks") == len(deliveries(connection)) >= (status == 201)


@pytest.mark.slow
def test_a_request_is_answered_in_time_if_postgresql_freezes_while_a_receiver_hangs(
    app, proxy, cast, connection, receiver
):
    def freeze(handler):
        proxy.freeze()
        handler.server.released.wait(30)

    receiver.behaves(freeze)
    subscribe(connection, cast["acme"], receiver.url)
    assert send(app, "POST", "/tasks", {"title": "x"}) == 201
    assert receiver.connections == 1


@pytest.mark.slow
def test_posting_to_a_receiver_and_recording_its_answer_share_the_time_that_is_left(
    app, cast, connection, receiver
):
    receiver.behaves(lambda handler: handler.server.released.wait(30))
    subscribe(connection, cast["acme"], receiver.url)
    assert send(app, "POST", "/tasks", {"title": "x"}) == 201
    assert [row["attempts"] for row in deliveries(connection)] == [1]
    (attempt,) = connection.execute("SELECT error, milliseconds FROM attempts").fetchall()
    assert attempt["error"] == "timeout"
    assert attempt["milliseconds"] < (TOLERATED - WAITED) * 1000


def test_a_request_without_enough_time_left_to_post_leaves_the_delivery_to_the_worker(
    app, cast, connection, receiver
):
    subscribe(connection, cast["acme"], receiver.url)
    assert send(app, "POST", "/tasks", {"title": "x"}, waited=4.3) == 201
    assert receiver.connections == 0
    assert [row["attempts"] for row in deliveries(connection)] == [0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lock", "path", "body", "status"),
    [
        ("LOCK TABLE tasks", "/tasks", {"title": "x"}, 503),
        # Only the claim of the event reads this table.
        ("LOCK TABLE previous_secrets", "/tasks", {"title": "x"}, 201),
        ("SELECT FROM workspaces FOR UPDATE", "/webhooks", {"url": "{receiver}"}, 503),
    ],
)
def test_a_request_waits_for_a_lock_only_as_long_as_its_earlier_waits_have_left_time(
    app, database_url, cast, connection, receiver, lock, path, body, status
):
    subscribe(connection, cast["acme"], receiver.url)
    body = {name: value.format(receiver=receiver.url) for name, value in body.items()}
    with psycopg.connect(database_url) as holder:
        holder.execute(lock)
        assert send(app, "POST", path, body) == status


@pytest.mark.slow
def test_the_time_of_a_look_up_is_not_taken_from_the_time_for_the_database(
    app, connection, receiver, monkeypatch
):
    look_up = socket.getaddrinfo

    def be_slow(host, *arguments, **options):
        if host == "slow.example.com" and not options.get("flags"):
            sleep(1)
            host = "127.0.0.1"
        return look_up(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", be_slow)
    url = f"http://slow.example.com:{receiver.port}/"
    assert send(app, "POST", "/webhooks", {"url": url}, waited=4) == 201
