"""The socket of one client: it never blocks, so neither the poller nor a thread waits for long."""

import select
import socket
import time
from contextlib import suppress
from typing import Any

from service.http.errors import http_error


class ClientSocket(socket.socket):
    """Never blocks: a read ends at ``deadline``; what a write cannot send waits in ``unsent``."""

    def __init__(self, accepted: socket.socket) -> None:
        super().__init__(accepted.family, accepted.type, accepted.proto, accepted.detach())
        super().setblocking(False)
        self.deadline = 0.0
        self.unsent = bytearray()
        self.parser: Any = None

    def setblocking(self, flag: bool) -> None:
        """Nothing: gunicorn switches this twice a request, a system call each time."""

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Read on for a thread; the deadline is the request's, not that of each byte."""
        while (left := self.deadline - time.monotonic()) > 0:
            try:
                return super().recv(size, flags)
            except BlockingIOError:
                poll = select.poll()
                poll.register(self, select.POLLIN)
                poll.poll(left * 1000)
        self.parser.mesg.force_close()
        raise http_error("request_timeout")

    def sendall(self, data: Any, flags: int = 0) -> None:  # noqa: ARG002
        """Keep it for ``flush``, so that head and body leave together."""
        self.unsent += data

    def send(self, data: Any, flags: int = 0) -> int:  # noqa: ARG002
        """Send 100 Continue, for which the client waits."""
        self.sendall(data)
        self.flush()
        return len(data)

    def flush(self) -> bool:
        """Send what the client takes now; whether that was all."""
        with suppress(BlockingIOError):
            while self.unsent:
                del self.unsent[: super().send(self.unsent)]
        return not self.unsent
