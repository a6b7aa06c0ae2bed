"""The connection of a client: its socket, what it waits for, and what it has to send."""

import socket
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock

from service.gunicorn.application import Address
from service.gunicorn.request_reader import RequestReader

# The number of unsent bytes that the kernel buffers (TCP_NOTSENT_LOWAT). With megabytes in that
# buffer, a client that reads slowly would look like a client that reads nothing.
AHEAD = 2**18


@dataclass(eq=False)
class State:
    """What a connection waits for: these events of epoll, for at most so many seconds."""

    events: int
    seconds: float


class Connection:
    """The connection of a client. Only the thread that holds ``lock`` uses it; no thread waits."""

    def __init__(
        self, sock: socket.socket, client: Address, reader: RequestReader, state: State
    ) -> None:
        sock.setblocking(False)
        # Unix sockets and some systems do not have this option.
        with suppress(OSError, AttributeError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, AHEAD)
        self.sock, self.reader, self.state = sock, reader, state
        self.address = client[0] if isinstance(client, tuple) else client
        self.number = sock.fileno()
        self.lock = Lock()
        # The times, by time.monotonic(), when the state began and when its time ends.
        self.since = self.deadline = 0.0
        self.unsent: list[bytes | memoryview] = []
        # The memory of the response in bytes; a part that is half sent still counts in full.
        self.held = 0
        # True if the connection can serve another request after this response.
        self.reuse = False
        # The number of bytes that were read and dropped after the response.
        self.drained = 0

    def receive(self) -> bytes:
        """Return the bytes that have arrived, b"" at EOF; raises BlockingIOError without either."""
        try:
            return self.sock.recv(2**16)
        except BlockingIOError:
            raise
        except OSError:
            return b""

    def flush(self) -> bool:
        """Send as much as the kernel accepts now; return True if nothing is left to send."""
        unsent = self.unsent
        with suppress(BlockingIOError):
            while unsent:
                sent = self.sock.sendmsg(unsent)
                while unsent and sent >= len(unsent[0]):
                    sent -= len(unsent.pop(0))
                if sent:
                    unsent[0] = memoryview(unsent[0])[sent:]
        return not unsent
