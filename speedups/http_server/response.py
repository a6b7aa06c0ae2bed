"""Runs the WSGI application for one request, and writes its response (PEP 3333, RFC 9112)."""

import sys
import time
from collections.abc import Callable, Iterable
from email.utils import formatdate
from functools import lru_cache
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

# The address of a socket: two members for IPv4, four for IPv6, a path for a Unix socket.
Address = tuple[str, int] | tuple[str, int, int, int] | str

# The characters that a head may have: Latin-1 without controls, no-break space and soft hyphen.
PRINTABLE = bytes(number for number in range(256) if chr(number).isprintable())

ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]


class Response:
    """Status, headers and parts of the body, which are written together."""

    def __init__(self) -> None:
        self.status = ""
        self.headers: list[tuple[str, str]] = []
        self.parts: list[bytes] = []
        # True if the application failed after a part of the body.
        self.broken = False

    def start(
        self, status: str, headers: list[tuple[str, str]], exc_info: ExcInfo | None = None
    ) -> Callable[[bytes], object]:
        """Store status and headers: the application calls this as ``start_response``.

        Nothing is written yet, so an error can still replace them (``exc_info``).
        """
        if self.status and exc_info is None:
            raise AssertionError("the application has called start_response twice")
        self.status, self.headers = status, headers
        return self.parts.append

    def encode(self, method: str, *, reuse: bool) -> list[bytes | memoryview]:
        """Return head and body; ``reuse`` tells the client that the connection stays open.

        Raises ValueError for a control character, which could start another header, and for a
        Content-Length that is not the length of the body, unless the response is broken.
        """
        body = self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)
        lines = [*first_lines(self.status, reuse, int(time.time())), *map(": ".join, self.headers)]
        declared = [value for name, value in self.headers if name.lower() == "content-length"]
        if method == "HEAD" or self.status[:3] in ("204", "304"):
            body = b""
        elif not declared:
            lines.append(f"Content-Length: {len(body)}")
        elif declared != [str(len(body))] and not self.broken:
            raise ValueError("the body does not have the length of Content-Length")
        head = "\r\n".join([*lines, "\r\n"]).encode("latin-1")
        if head.translate(None, PRINTABLE) != b"\r\n" * (len(lines) + 1):
            raise ValueError("a header contains a control character")
        return [head, body] if body else [head]


def run(application: Callable[..., Iterable[bytes]], environ: "WSGIEnvironment") -> Response:
    """Run the application for one request; raises its errors.

    If an OSError ends the body after some parts, the response consists of these parts, and is
    ``broken``.
    """
    response = Response()
    body = application(environ, response.start)
    try:
        response.parts += body
    except OSError:
        response.broken = True
        if not response.parts:
            raise
    finally:
        if hasattr(body, "close"):
            body.close()
    return response


def base_environment(client: Address, server: Address) -> "WSGIEnvironment":
    """Return the members of the environment that all requests of a connection share."""
    return {
        "SCRIPT_NAME": "",
        # A Unix socket has a path instead of host and port.
        "SERVER_NAME": server[0] if isinstance(server, tuple) else "localhost",
        "SERVER_PORT": str(server[1]) if isinstance(server, tuple) else "",
        "REMOTE_ADDR": client[0] if isinstance(client, tuple) else client,
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input_terminated": True,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }


@lru_cache(maxsize=16)
def first_lines(status: str, reuse: bool, second: int) -> tuple[str, str, str, str]:
    """Return the first lines that all responses within the same second (a Unix time) share."""
    return (
        f"HTTP/1.1 {status}",
        "Server: gunicorn",
        f"Date: {formatdate(second, usegmt=True)}",
        f"Connection: {'keep-alive' if reuse else 'close'}",
    )
