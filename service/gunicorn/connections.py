"""The connections of a worker: who may use one, which must end, and how much memory they take."""

import socket
import struct
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from select import EPOLLIN, EPOLLONESHOT, EPOLLOUT, epoll

from service.gunicorn.connection import Connection, State

# The bytes of responses that a worker keeps for slow readers, and those of requests that have not
# begun to run; both are maximums.
UNSENT, ARRIVING = 2**25, 2**26

# An unfinished request of less is not worth the count: 500 of them take less than ARRIVING.
SMALL = 2**16

# An event disarms its socket, so that one thread alone gets it.
READABLE, WRITABLE = EPOLLIN | EPOLLONESHOT, EPOLLOUT | EPOLLONESHOT


class Connections(dict[int, Connection]):
    """The connections by the number of their socket, and the poller that watches them.

    A thread goes on with a connection once it holds its lock, and gives it up by ``release`` or
    ``drop``. Before it takes the lock, another thread may have ended the connection.
    """

    def __init__(self, poller: epoll, *, waiting: Iterable[State], arriving: int) -> None:
        super().__init__()
        self.poller = poller
        # The states in which a connection waits for its client.
        self.waiting = tuple(waiting)
        self.arriving = max(ARRIVING, arriving)

    def add(self, conn: Connection) -> None:
        """Add a new connection, and watch it."""
        conn.since = time.monotonic()
        conn.deadline = conn.since + conn.state.seconds
        self[conn.number] = conn
        self.poller.register(conn.number, conn.state.events)

    def enter(self, conn: Connection, state: State) -> None:
        """Let the connection be in this state from now on; its time limit begins."""
        conn.state, conn.since = state, time.monotonic()
        conn.deadline = conn.since + state.seconds

    def release(self, conn: Connection) -> None:
        """Give the connection up until an event of its state."""
        events = conn.state.events
        conn.lock.release()
        # Another thread may end the connection from here on; it may even give its number to a new
        # connection, which an event more does not harm.
        with suppress(OSError):
            self.poller.modify(conn.number, events)

    def drop(self, conn: Connection) -> None:
        """Close the connection; its lock stays taken."""
        if self.pop(conn.number, None) is None:
            return
        conn.reader.discard()
        if conn.unsent:
            # Send RST, so that the client sees that the response is truncated, and so that the
            # kernel drops its buffered part of the response.
            with suppress(OSError):
                conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            conn.unsent.clear()
        conn.held = 0
        conn.sock.close()

    def claim(self, conn: Connection, state: State) -> bool:
        """Take the lock of a connection that is in this state; return False if it has gone on."""
        if not conn.lock.acquire(blocking=False):
            return False
        if conn.state is state:
            return True
        self.release(conn)
        return False

    def claim_overdue(self) -> list[Connection]:
        """Take and return the connections that have waited for their client for too long."""
        now = time.monotonic()
        return [
            conn
            for conn in list(self.values())
            if conn.deadline <= now and conn.state in self.waiting and self.claim(conn, conn.state)
        ]

    def shorten(self, *states: State, seconds: float) -> None:
        """Let no connection wait in these states for longer than ``seconds`` any more."""
        end = time.monotonic() + seconds
        for state in states:
            state.seconds = min(state.seconds, seconds)
        for conn in list(self.values()):
            if conn.state in states:
                conn.deadline = min(conn.deadline, end)

    def evict(self, spare: int) -> bool:
        """Drop the oldest connection of the most frequent state if more than ``spare`` have it.

        A flood of connections makes its own state the most frequent. Return True if a connection
        was dropped.
        """
        states = Counter(conn.state for conn in list(self.values()))
        state = max(self.waiting, key=states.__getitem__)
        return states[state] > spare and self.drop_oldest(state)

    def drop_oldest(self, state: State, address: str | None = None) -> bool:
        """Drop the connection that has been in this state for longest; return False without one.

        With an ``address``, only a connection of this client.
        """
        found = [
            conn
            for conn in list(self.values())
            if conn.state is state and address in (None, conn.address)
        ]
        for conn in sorted(found, key=lambda conn: conn.since):
            if self.claim(conn, state):
                self.drop(conn)
                return True
        return False

    def limit_requests(self, newest: Connection, reading: State) -> bool:
        """Drop slow uploads while requests that do not run yet take more than ``arriving`` bytes.

        The client that sends most loses its oldest upload first. Return False if the newest one
        finds no room.
        """
        while newest.reader.size > SMALL:
            sizes = Counter[str]()
            for conn in list(self.values()):
                sizes[conn.address] += conn.reader.size
            if sizes.total() <= self.arriving:
                break
            [(address, _)] = sizes.most_common(1)
            if not self.drop_oldest(reading, address):
                return False
        return True

    def limit_responses(self, newest: Connection, flushing: State) -> None:
        """Drop the slowest readers while the unsent responses take more than UNSENT bytes."""
        newest.held = newest.held or sum(map(len, newest.unsent))
        while sum(conn.held for conn in list(self.values())) > UNSENT and self.drop_oldest(
            flushing
        ):
            continue
