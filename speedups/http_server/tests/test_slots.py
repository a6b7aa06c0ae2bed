"""The slots of requests: which request runs next, and which has waited too long."""

import socket

import pytest

from service.speedups.http_server.client_connections import ClientConnection, State
from service.speedups.http_server.request_reader import RequestReader
from service.speedups.http_server.slots import Slots


@pytest.fixture
def arrive():
    pairs = []

    def arrive(path="/api/tasks", age=0):
        pairs.append(socket.socketpair())
        reader = RequestReader({}, 1000, b"/healthz")
        assert reader.feed(b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % path.encode())
        conn = ClientConnection(pairs[-1][0], "", reader, State(0, 1))
        conn.since -= age
        return conn

    yield arrive
    for pair in pairs:
        for sock in pair:
            sock.close()


class Line(Slots):
    """Slots of which one thread frees one, and takes the next request."""

    def free_one(self):
        self.free += 1
        return self.take()


def test_as_many_requests_run_as_there_are_slots_and_the_others_run_in_the_order_of_arrival(arrive):
    slots = Line(2)
    assert slots.take() is None
    conns = [arrive() for _ in range(5)]
    for conn in conns:
        slots.put(conn)
    assert [slots.take() for _ in range(3)] == [conns[0], conns[1], None]
    assert [slots.free_one() for _ in range(5)] == [*conns[2:], None, None]
    assert slots.free == 2


def test_health_checks_overtake_other_requests_but_never_two_in_a_row_while_others_wait(arrive):
    slots = Line(0)
    others = [arrive() for _ in range(3)]
    health = [arrive("/healthz") for _ in range(4)]
    for conn in (*others, *health):
        slots.put(conn)
    assert [slots.free_one() for _ in range(8)] == [
        health[0], others[0], health[1], others[1], health[2], others[2], health[3], None
    ]  # fmt: skip


def test_requests_that_have_waited_too_long_are_removed_and_the_others_stay(arrive):
    slots = Line(0)
    old, older, young = arrive(age=450), arrive(age=900), arrive(age=300)
    old_health, young_health = arrive("/healthz", age=200), arrive("/healthz", age=100)
    for conn in (older, old, young, old_health, young_health):
        slots.put(conn)
    assert [slots.pop_overdue(400, 150) for _ in range(4)] == [older, old, old_health, None]
    assert [slots.free_one(), slots.free_one()] == [young_health, young]
    assert slots.pop_overdue(0, 0) is None
