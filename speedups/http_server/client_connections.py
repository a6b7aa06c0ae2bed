"""The connections of a worker: what each waits for, which thread has it, and its memory."""

import socket
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from operator import itemgetter
from select import EPOLLIN, EPOLLONESHOT, EPOLLOUT, epoll
from threading import Lock

from service.speedups.http_server.request_reader import RequestReader
from service.speedups.http_server.response import Address

# An event disarms its socket, so that only one thread gets it.
READABLE, WRITABLE = EPOLLIN | EPOLLONESHOT, EPOLLOUT | EPOLLONESHOT

# The number of unsent bytes that the kernel buffers (TCP_NOTSENT_LOWAT). With megabytes in that
# buffer, a client that reads slowly would look like a client that reads nothing.
MAX_UNSENT_IN_KERNEL = 2**18


@dataclass(eq=False)
class State:
    """A state of a connection: it waits for these events of epoll, for at most so many seconds."""

    events: int
    seconds: float


# The connection is being closed. If the thread that closes it fails, the connection is overdue
# after a second.
CLOSED = State(0, 1)


class ClientConnection:
    """The connection of a client. Only the thread that holds ``lock`` sends, reads and closes.

    The thread that makes it holds the lock. No thread waits for it; other threads read the sizes
    and the state without it.
    """

    def __init__(
        self, sock: socket.socket, client: Address, reader: RequestReader, state: State
    ) -> None:
        sock.setblocking(False)
        # Unix sockets and some systems lack this option.
        with suppress(OSError, AttributeError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, MAX_UNSENT_IN_KERNEL)
        self.sock, self.number, self.reader = sock, sock.fileno(), reader
        self.address = client[0] if isinstance(client, tuple) else client
        self.lock = Lock()
        self.lock.acquire()
        self.enter(state)
        self.unsent: list[bytes | memoryview] = []
        # The bytes that the kernel did not accept; all of them count until the last one is sent.
        self.held = 0
        # True if the connection can serve another request after this response.
        self.reuse = False
        # The number of bytes that were read and dropped after the response.
        self.drained = 0

    def enter(self, state: State) -> None:
        """Enter this state now, by time.monotonic(); the time limit of the state starts."""
        self.state, self.since = state, time.monotonic()

    def flush(self) -> bool:
        """Send as much as the kernel accepts now; return True if nothing is left to send."""
        unsent = self.unsent
        while unsent:
            try:
                sent = self.sock.sendmsg(unsent)
            except BlockingIOError:
                return False
            while unsent and sent >= len(unsent[0]):
                sent -= len(unsent.pop(0))
            if sent:
                unsent[0] = memoryview(unsent[0])[sent:]
        return True


class ClientConnections(dict[int, ClientConnection]):
    """The connections by the number of their socket, and the poller that watches them.

    A thread works on a connection while it holds the connection's lock, and gives the lock up with
    ``release`` or ``drop``. Before a thread gets the lock, another thread may have closed the
    connection, and a new connection may have its number. An event of the old connection does not
    harm the new one.
    """

    def __init__(self, poller: epoll) -> None:
        super().__init__()
        self.poller = poller
        # Held by a thread while it uses the number of a socket. Otherwise another thread could
        # close the socket meanwhile, and the system could give its number to a new connection.
        self.lock = Lock()

    def add(self, conn: ClientConnection) -> None:
        """Add a new connection. The poller watches it after ``release``."""
        self.poller.register(conn.number, 0)
        with self.lock:
            self[conn.number] = conn

    def release(self, conn: ClientConnection) -> None:
        """Release the connection until an event of its state occurs."""
        conn.lock.release()
        # From here on another thread may work on the connection. It may already have closed it, or
        # have released it in another state.
        with self.lock:
            events = conn.state.events
            if events and self.get(conn.number) is conn:
                self.poller.modify(conn.number, events)

    def drop(self, conn: ClientConnection) -> None:
        """Close the connection and keep its lock. A second call does nothing."""
        conn.enter(CLOSED)
        conn.reader.discard()
        if conn.unsent:
            # Send RST, so that the client sees that the response is truncated, and so that the
            # kernel drops its buffered part of the response.
            with suppress(OSError):
                conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            conn.unsent.clear()
        with self.lock:
            conn.sock.close()
            # After a second call, a new connection may already have this number.
            if self.get(conn.number) is conn:
                self.pop(conn.number)

    def claim(self, conn: ClientConnection, state: State, since: float) -> bool:
        """Take the lock of a connection; return False if it has left this state since then.

        It may also have entered the same state again, for example because its client has read
        something. That counts as having left it.
        """
        if not conn.lock.acquire(blocking=False):
            return False
        if (conn.state, conn.since) != (state, since):
            try:
                self.release(conn)
            except BaseException:
                conn.state = CLOSED
                raise
            return False
        return True

    def claim_overdue(self) -> Iterator[ClientConnection]:
        """Take the connections that have waited for their client for too long, one by one."""
        now = time.monotonic()
        for conn in list(self.values()):
            state, since = conn.state, conn.since
            if since + state.seconds <= now and (state is CLOSED or self.claim(conn, state, since)):
                yield conn

    def evict(self, spare: int) -> bool:
        """If more than ``spare`` connections share the commonest state, drop the oldest of them.

        The commonest state is the state of a flood of connections, if there is one. Return True if
        a connection was dropped.
        """
        states = Counter(conn.state for conn in list(self.values()) if conn.state.events)
        return any(
            number > spare and self.drop_oldest(state) for state, number in states.most_common(1)
        )

    def drop_oldest(self, state: State, address: str | None = None) -> bool:
        """Drop the connection that has been in this state for longest; return False without one.

        If an ``address`` is given, drop only a connection of the client with this address.
        """
        found = [(conn.since, conn) for conn in list(self.values()) if conn.state is state]
        for since, conn in sorted(found, key=itemgetter(0)):
            if address in (None, conn.address) and self.claim(conn, state, since):
                conn.state = CLOSED
                self.drop(conn)
                return True
        return False

    def limit(self, size: Callable[[ClientConnection], int], maximum: int, state: State) -> bool:
        """Drop connections in this state while all together take more than ``maximum`` bytes.

        The client that uses most loses its oldest connection first, so that a flood does not push
        out other clients. Return False if that client has no connection in this state.
        """
        while True:
            sizes = Counter[str]()
            for conn in list(self.values()):
                sizes[conn.address] += size(conn)
            if sizes.total() <= maximum:
                return True
            if not self.drop_oldest(state, max(sizes, key=sizes.__getitem__)):
                return False
