"""The connection of a client, and the part of HTTP that says when a request is complete."""

import re
from typing import TYPE_CHECKING

from gunicorn.config import Config
from gunicorn.http.message import Request
from gunicorn.http.parser import RequestParser

from service.gunicorn.client_socket import ClientSocket

if TYPE_CHECKING:
    from service.gunicorn.queues import Queue

# A socket's address: IPv4 has two members, IPv6 has four; a Unix socket's is a path.
Address = tuple[str, int] | tuple[str, int, int, int] | str

# Bytes: of a head, and of a body that is read before a thread begins.
HEAD, SMALL_BODY = 2**15, 2**16

FRAMING = re.compile(
    rb"\r\n(content-length|transfer-encoding|expect)[ \t]*:([^\r]*)", re.IGNORECASE
)
HEALTH = re.compile(rb"(GET|HEAD) /healthz[ ?]")


class DirectRequest(Request):
    """A request whose headers cannot change its path, its scheme or the address of its sender."""

    def _peer_is_trusted_proxy(self) -> bool:
        return False


class DirectRequestParser(RequestParser):
    """gunicorn's parser; it would parse the address of the client for each request."""

    mesg_class = DirectRequest


class Connection:
    """A client, and the queue that it waits in: none while a thread has its request."""

    def __init__(self, cfg: Config, sock: ClientSocket, client: Address, server: Address) -> None:
        self.sock, self.client, self.server = sock, client, server
        self.parser = DirectRequestParser(cfg, sock, client)
        self.queue: Queue | None = None
        # When it began to wait in its queue, and until when it may (time.monotonic()).
        self.since = self.timeout = 0.0
        # Seconds that its request has waited for a thread.
        self.queued = 0.0
        # The bytes that a thread needs to begin, once they are known, and whether they ask for
        # /healthz.
        self.size: int | None = None
        self.health = False
        # True if another request may follow once the response is sent.
        self.reuse = False
        # Bytes that were read and thrown away since the response was sent.
        self.drained = 0

    @property
    def received(self) -> int:
        """The number of bytes that were read and belong to no request yet."""
        received: int = self.parser.unreader.buf.tell()
        return received

    def receive(self) -> bytes:
        """Read what is there: nothing at EOF; raises BlockingIOError if nothing is there yet."""
        try:
            return self.sock.receive(2**16)
        except BlockingIOError:
            raise
        except OSError:
            return b""

    def keep(self, received: bytes) -> None:
        """Keep the bytes for the parser."""
        buffer = self.parser.unreader.buf
        buffer.seek(0, 2)
        buffer.write(received)

    def measure(self) -> None:
        """Find out from what was received when the request is complete."""
        received = self.parser.unreader.buf.getvalue()
        self.size = request_size(received)
        self.health = HEALTH.match(received) is not None

    def close(self) -> None:
        """Close the socket and free what was read and what was not sent."""
        self.sock.discard()
        self.sock.close()


def request_size(received: bytes) -> int | None:
    """The bytes that a thread needs to begin: the head and a small body; None while unknown."""
    end = received.find(b"\r\n\r\n") + 4
    if not 4 <= end <= HEAD:
        # The parser rejects lines that end otherwise; it must not wait for a proper end first.
        return None if received.count(b"\n") == received.count(b"\r\n") else len(received)
    found = FRAMING.findall(received, 0, end)
    if len(found) != 1 or found[0][0].lower() != b"content-length":
        return end
    length = found[0][1].strip(b" \t")
    small = len(length) < 10 and length.isdigit() and int(length) <= SMALL_BODY
    return end + int(length) if small else end
