"""The non-blocking socket of one client: neither the poller nor a thread waits for it for long."""

import select
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from service.http.errors import http_error

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

# The number of unsent bytes that the kernel buffers (TCP_NOTSENT_LOWAT). With megabytes in that
# buffer, a client that reads slowly would look like a client that reads nothing.
AHEAD = 2**18


class ClientSocket(socket.socket):
    """A non-blocking socket: a read ends at ``deadline``, a write puts its data into ``unsent``."""

    def __init__(self, accepted: socket.socket) -> None:
        super().__init__(accepted.family, accepted.type, accepted.proto, accepted.detach())
        super().setblocking(False)
        # Unix sockets and some systems do not have this option.
        with suppress(OSError, AttributeError):
            self.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, AHEAD)
        self.deadline = 0.0
        self.timed_out = False
        self.unsent: list[memoryview] = []
        # The memory of the unsent parts in bytes; a part that is half sent still counts in full.
        self.held = 0

    def setblocking(self, flag: bool) -> None:
        """No-op: gunicorn calls this for each request, and each call would be a system call."""

    def settimeout(self, value: float | None) -> None:
        """No-op, like ``setblocking``."""

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Return bytes for a thread; raise 408 at the deadline, which is that of the request."""
        while (left := self.deadline - time.monotonic()) > 0:
            try:
                return super().recv(size, flags)
            except BlockingIOError:
                poll = select.poll()
                poll.register(self, select.POLLIN)
                poll.poll(left * 1000)
        self.timed_out = True
        raise http_error("request_timeout")

    def receive(self, size: int) -> bytes:
        """Return the bytes that have arrived, for the poller; raise BlockingIOError without any."""
        return super().recv(size)

    def sendall(self, data: "Buffer", flags: int = 0) -> None:  # noqa: ARG002
        """Keep the data for ``flush``, which sends head and body together."""
        part = memoryview(data)
        self.unsent.append(part)
        self.held += part.nbytes

    def send(self, data: "Buffer", flags: int = 0) -> int:  # noqa: ARG002
        """Send the data at once: gunicorn sends 100 Continue with this, and the client waits."""
        self.sendall(data)
        self.flush()
        return memoryview(data).nbytes

    def flush(self) -> bool:
        """Send as much as the kernel accepts now; return True if nothing is left to send."""
        with suppress(BlockingIOError):
            while self.unsent:
                # The kernel accepts at most 1024 parts in one call (IOV_MAX).
                sent = self.sendmsg(self.unsent[:1024])
                while self.unsent and sent >= len(self.unsent[0]):
                    sent -= len(self.unsent.pop(0))
                if sent:
                    self.unsent[0] = self.unsent[0][sent:]
        if not self.unsent:
            self.held = 0
        return not self.unsent

    def discard(self) -> None:
        """Drop the unsent data."""
        self.unsent.clear()
        self.held = 0
