"""The connections of a worker: what each waits for, which thread has it, how much it takes."""

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

from speedups.http_server.request_reader import RequestReader
from speedups.http_server.response import Address

# An event disarms its socket, so that one thread alone gets it.
READABLE, WRITABLE = EPOLLIN | EPOLLONESHOT, EPOLLOUT | EPOLLONESHOT

# The number of unsent bytes that the kernel buffers (TCP_NOTSENT_LOWAT). With megabytes in that
# buffer, a client that reads slowly would look like a client that reads nothing.
MAX_UNSENT_IN_KERNEL = 2**18


@dataclass(eq=False)
class State:
    """A state of a connection: it waits for these events of epoll, for at most so many seconds."""

    events: int
    seconds: float


# The connection ends. If the thread that ends it fails, the connection is overdue after a second.
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
        # Unix sockets and some systems do not have this option.
        with suppress(OSError, AttributeError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, MAX_UNSENT_IN_KERNEL)
        self.sock, self.number, self.reader = sock, sock.fileno(), reader
        self.address = client[0] if isinstance(client, tuple) else client
        self.lock = Lock()
        self.lock.acquire()
        self.enter(state)
        self.unsent: list[bytes | memoryview] = []
        # The bytes that the kernel did not take at once; they count until the last one is sent.
        self.held = 0
        # True if the connection can serve another request after this response.
        self.reuse = False
        # The number of bytes that were read and dropped after the response.
        self.drained = 0

    def enter(self, state: State) -> None:
        """Be in this state from now on, by time.monotonic(); its time limit begins."""
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

    A thread goes on with a connection once it holds its lock, and gives it up by ``release`` or
    ``drop``. Before it takes the lock, another thread may have ended the connection.
    """

    def __init__(self, poller: epoll) -> None:
        super().__init__()
        self.poller = poller

    def add(self, conn: ClientConnection) -> None:
        """Add a new connection; it is watched once it is released."""
        self.poller.register(conn.number, 0)
        self[conn.number] = conn

    def release(self, conn: ClientConnection) -> None:
        """Give the connection up until an event of its state."""
        events = conn.state.events
        conn.lock.release()
        # Another thread may end the connection from here on; it may even give its number to a new
        # connection, which an event more does not harm.
        try:
            self.poller.modify(conn.number, events)
        except OSError:
            if self.get(conn.number) is conn:
                raise

    def drop(self, conn: ClientConnection) -> None:
        """Close the connection; its lock stays taken. A second time it does nothing."""
        conn.enter(CLOSED)
        conn.reader.discard()
        if conn.unsent:
            # Send RST, so that the client sees that the response is truncated, and so that the
            # kernel drops its buffered part of the response.
            with suppress(OSError):
                conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            conn.unsent.clear()
        conn.sock.close()
        # A new connection may have the number already.
        if self.get(conn.number) is conn:
            self.pop(conn.number, None)

    def claim(self, conn: ClientConnection, state: State, since: float) -> bool:
        """Take the lock of a connection; return False if it has gone on from this state since then.

        It can also be in the same state anew, for example after its client has read something.
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

        A flood of connections makes its own state the commonest. Return True if a connection was
        dropped.
        """
        states = Counter(conn.state for conn in list(self.values()) if conn.state.events)
        return any(
            number > spare and self.drop_oldest(state) for state, number in states.most_common(1)
        )

    def drop_oldest(self, state: State, address: str | None = None) -> bool:
        """Drop the connection that has been in this state for longest; return False without one.

        With an ``address``, only a connection of this client.
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

        The client that takes most loses its oldest connection first, so that a flood does not push
        out the others. Return False if it has none in this state.
        """
        while True:
            sizes = Counter[str]()
            for conn in list(self.values()):
                sizes[conn.address] += size(conn)
            if sizes.total() <= maximum:
                return True
            if not self.drop_oldest(state, max(sizes, key=sizes.__getitem__)):
                return False
