"""The response of the application, and its bytes (PEP 3333, RFC 9112)."""

import time
from collections.abc import Callable
from email.utils import formatdate
from functools import lru_cache
from types import TracebackType

ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]


class Response:
    """Status, headers and parts of the body, which are written together."""

    def __init__(self) -> None:
        self.status = ""
        self.headers: list[tuple[str, str]] = []
        self.parts: list[bytes] = []
        # True if the application could not make the rest of the body.
        self.broken = False

    def start(
        self,
        status: str,
        headers: list[tuple[str, str]],
        exc_info: ExcInfo | None = None,
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

        Raises ValueError for a control character, which could begin another header, and
        for a Content-Length that is not the length of the body. A broken response is shorter.
        """
        body = self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)
        declared = [value for name, value in self.headers if name.lower() == "content-length"]
        lines = [
            f"HTTP/1.1 {self.status}",
            "Server: gunicorn",
            f"Date: {http_date(int(time.time()))}",
            f"Connection: {'keep-alive' if reuse else 'close'}",
            *[f"{name}: {value}" for name, value in self.headers],
        ]
        if method == "HEAD" or self.status[:3] in ("204", "304"):
            body = b""
        elif not declared:
            lines.append(f"Content-Length: {len(body)}")
        elif declared != [str(len(body))] and not self.broken:
            raise ValueError("the body does not have the length of Content-Length")
        if not "".join(lines).isprintable():
            raise ValueError("a header contains a control character")
        head = "\r\n".join([*lines, "\r\n"]).encode("latin-1")
        return [head, body] if body else [head]


@lru_cache(maxsize=1)
def http_date(second: int) -> str:
    """Return a Unix time in the form of the header Date (RFC 9110 section 5.6.7)."""
    return formatdate(second, usegmt=True)
