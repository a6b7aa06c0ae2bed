"""The socket of one client: it never blocks, so neither the poller nor a thread waits for long."""

import select
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from service.http.errors import http_error

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

# Bytes that the kernel takes ahead of what it sends. With megabytes there, a client that reads
# slowly would look like one that reads nothing.
AHEAD = 2**18


class ClientSocket(socket.socket):
    """Never blocks: a read ends at ``deadline``; what a write cannot send waits in ``unsent``."""

    def __init__(self, accepted: socket.socket) -> None:
        super().__init__(accepted.family, accepted.type, accepted.proto, accepted.detach())
        super().setblocking(False)
        # A Unix socket has no such option, nor do all systems.
        with suppress(OSError, AttributeError):
            self.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, AHEAD)
        self.deadline = 0.0
        self.timed_out = False
        self.unsent: list[memoryview] = []
        # Bytes of memory: a part that is half sent is kept as a whole.
        self.held = 0

    def setblocking(self, flag: bool) -> None:
        """No-op: gunicorn switches this for each request, by a system call."""

    def settimeout(self, value: float | None) -> None:
        """No-op, for the same reason."""

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Read for a thread; the deadline is the request's, not that of each byte."""
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
        """Read what is there, for the poller; raises BlockingIOError if that is nothing."""
        return super().recv(size)

    def sendall(self, data: "Buffer", flags: int = 0) -> None:  # noqa: ARG002
        """Keep the data for ``flush``, so that head and body leave together."""
        part = memoryview(data)
        self.unsent.append(part)
        self.held += part.nbytes

    def send(self, data: "Buffer", flags: int = 0) -> int:  # noqa: ARG002
        """Send 100 Continue, for which the client waits."""
        self.sendall(data)
        self.flush()
        return memoryview(data).nbytes

    def flush(self) -> bool:
        """Send what the client takes now; returns whether that was all."""
        with suppress(BlockingIOError):
            while self.unsent:
                # The kernel takes 1024 parts at most (IOV_MAX).
                sent = self.sendmsg(self.unsent[:1024])
                while self.unsent and sent >= len(self.unsent[0]):
                    sent -= len(self.unsent.pop(0))
                if sent:
                    self.unsent[0] = self.unsent[0][sent:]
        if not self.unsent:
            self.held = 0
        return not self.unsent

    def discard(self) -> None:
        """Forget what is unsent."""
        self.unsent.clear()
        self.held = 0
