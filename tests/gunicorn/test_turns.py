"""The turns of requests: who runs next, and who has waited for too long."""

import socket

import pytest

from service.gunicorn.connections import ClientConnection, State
from service.gunicorn.request_reader import RequestReader
from service.gunicorn.turns import Turns

pytestmark = pytest.mark.nodatabase


@pytest.fixture
def arrive():
    """Return a function that makes a connection with a complete request."""
    pairs = []

    def arrive(path="/api/tasks", age=0):
        pairs.append(socket.socketpair())
        reader = RequestReader({}, 1000)
        assert reader.feed(b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % path.encode())
        conn = ClientConnection(pairs[-1][0], "", reader, State(0, 1))
        conn.since -= age
        return conn

    yield arrive
    for pair in pairs:
        for sock in pair:
            sock.close()


def test_as_many_requests_run_as_there_are_places_and_the_others_follow_in_order(arrive):
    turns = Turns(2)
    assert turns.begin(arrive())
    assert turns.begin(arrive())
    waiting = [arrive() for _ in range(3)]
    assert not any(turns.begin(conn) for conn in waiting)
    assert [turns.end(None) for _ in range(5)] == [*waiting, None, None]
    assert [turns.begin(arrive()) for _ in range(3)] == [True, True, False]


def test_a_connection_with_another_request_waits_behind_those_that_were_there(arrive):
    turns = Turns(1)
    running, waiting = arrive(), arrive()
    assert turns.begin(running)
    assert turns.end(running) is running
    assert not turns.begin(waiting)
    assert turns.end(running) is waiting
    assert turns.end(None) is running
    assert turns.end(None) is None


def test_health_overtakes_but_not_two_in_succession_while_others_wait(arrive):
    turns = Turns(1)
    assert turns.begin(arrive())
    others = [arrive() for _ in range(3)]
    health = [arrive("/healthz") for _ in range(4)]
    assert not any(turns.begin(conn) for conn in (*others, *health))
    run = [turns.end(None) for _ in range(8)]
    assert run == [
        health[0], others[0], health[1], others[1], health[2], others[2], health[3], None
    ]  # fmt: skip


def test_those_that_have_waited_for_too_long_are_taken_and_the_others_stay(arrive):
    turns = Turns(0)
    old, older, young = arrive(age=4.5), arrive(age=9), arrive(age=3.5)
    old_health, young_health = arrive("/healthz", age=2), arrive("/healthz", age=1)
    for conn in (older, old, young, old_health, young_health):
        assert not turns.begin(conn)
    assert turns.take_overdue(4, 1.5) == [older, old, old_health]
    assert turns.take_overdue(4, 1.5) == []
    assert turns.end(None) is young_health
    assert turns.end(None) is young
    assert turns.take_overdue(0, 0) == []
