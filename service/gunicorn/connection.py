"""The connection of a client, and the rule that decides when a request is complete."""

import re
from typing import TYPE_CHECKING

from gunicorn.config import Config
from gunicorn.http.message import Request
from gunicorn.http.parser import RequestParser

from service.gunicorn.client_socket import ClientSocket

if TYPE_CHECKING:
    from service.gunicorn.queues import Queue

# The address of a socket: two members for IPv4, four for IPv6, a path for a Unix socket.
Address = tuple[str, int] | tuple[str, int, int, int] | str

# The maximum size of a head, and of a body that the poller reads before a thread begins, in bytes.
HEAD, SMALL_BODY = 2**15, 2**16

FRAMING = re.compile(
    rb"\r\n(content-length|transfer-encoding|expect)[ \t]*:([^\r]*)", re.IGNORECASE
)
HEALTH = re.compile(rb"(GET|HEAD) /healthz[ ?]")


class DirectRequest(Request):
    """A request whose headers cannot change its path, its scheme or the address of the client."""

    def _peer_is_trusted_proxy(self) -> bool:
        return False


class DirectRequestParser(RequestParser):
    """gunicorn's parser, without the check of the client's address for each request."""

    mesg_class = DirectRequest


class Connection:
    """The connection of a client; ``queue`` is None while a thread handles its request."""

    def __init__(self, cfg: Config, sock: ClientSocket, client: Address, server: Address) -> None:
        self.sock, self.client, self.server = sock, client, server
        self.parser = DirectRequestParser(cfg, sock, client)
        self.queue: Queue | None = None
        # The times, by time.monotonic(), when the connection entered its queue and when its time
        # there ends.
        self.since = self.timeout = 0.0
        # Seconds that the request has waited for a thread.
        self.queued = 0.0
        # The number of bytes that a thread needs to begin, or None while it is unknown; ``health``
        # is True for a request to /healthz.
        self.size: int | None = None
        self.health = False
        # True if the connection can serve another request after this response.
        self.reuse = False
        # The number of bytes that were read and dropped after the response.
        self.drained = 0

    @property
    def received(self) -> int:
        """Return the number of bytes that were read but not parsed yet."""
        received: int = self.parser.unreader.buf.tell()
        return received

    def receive(self) -> bytes:
        """Return the bytes that have arrived, b"" at EOF; raises BlockingIOError without either."""
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
        """Set ``size`` and ``health`` from the received bytes."""
        received = self.parser.unreader.buf.getvalue()
        self.size = request_size(received)
        self.health = HEALTH.match(received) is not None

    def close(self) -> None:
        """Drop the unsent data and close the socket."""
        self.sock.discard()
        self.sock.close()


def request_size(received: bytes) -> int | None:
    """Return the number of bytes that a thread needs to begin, or None while it is unknown.

    A thread needs the head, and also the body if that is small.
    """
    end = received.find(b"\r\n\r\n") + 4
    if not 4 <= end <= HEAD:
        # The parser rejects a line that does not end with CRLF. A thread begins at once then, and
        # does not wait for the end of the head.
        return None if received.count(b"\n") == received.count(b"\r\n") else len(received)
    found = FRAMING.findall(received, 0, end)
    if len(found) != 1 or found[0][0].lower() != b"content-length":
        return end
    length = found[0][1].strip(b" \t")
    small = len(length) < 10 and length.isdigit() and int(length) <= SMALL_BODY
    return end + int(length) if small else end
