"""Reads the requests of one connection: bytes in, complete requests out; it knows no socket.

httptools (llhttp) parses header fields and chunks. This module parses the request line, limits all
sizes, and rejects what llhttp would accept: HTTP/0.9 and HTTP/2, other codings than chunked, heads,
trailers and chunk extensions without end.

Sources: RFC 9112 (HTTP/1.1), RFC 9110 section 10.1.1 (Expect), PEP 3333 (the environment).
"""

import re
from functools import lru_cache
from io import BytesIO
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from werkzeug.exceptions import (
    BadRequest,
    ExpectationFailed,
    RequestHeaderFieldsTooLarge,
    RequestURITooLarge,
)

from service.http.errors import http_error

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

# The maximum size of a head and of one line of it in bytes, and the maximum number of its fields.
HEAD, LINE, FIELDS = 2**15, 8190, 100
BLANK_LINE = b"\r\n\r\n"

# A method, an origin-form or absolute-form or "*", a query, and the version (RFC 9112 section 3).
REQUEST_LINE = re.compile(
    rb"([A-Z-]{1,20}) (?=[/*hH])"
    rb"(?:(?i:https?)://(?:[\w.~%-]+|\[[\w.:]+\])(?::\d*)?)?"
    rb'(/[!"$->@-~]*|\*|)(?:\?([!"$-~]*))? HTTP/(1\.[01])\r\n'
)
# The parsers get these lines in place of the client's: they need not know its method, and the
# parser of chunks gets no head of a client.
ANY_REQUEST = b"POST / HTTP/1.1\r\n"
CHUNKED_HEAD = ANY_REQUEST + b"Transfer-Encoding: chunked" + BLANK_LINE


class Head:
    """Collects header fields in an environment; the parser calls ``on_header``."""

    def __init__(self, environ: "WSGIEnvironment") -> None:
        self.environ = environ

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a field; fields of one name become one value, separated by commas."""
        key = environ_key(name)
        if key:
            text, environ = value.decode("latin-1").strip(" \t"), self.environ
            environ[key] = f"{environ[key]},{text}" if key in environ else text


class Chunks:
    """Collects a chunked body; the parser calls what begins with ``on``. Trailers are ignored."""

    def __init__(self, body: bytearray) -> None:
        self.on_body = body.extend
        self.complete = False

    def on_message_complete(self) -> None:
        """Note the end of the body."""
        self.complete = True


class RequestReader:
    """The requests of a connection, one after the other.

    ``base`` has the members of the environment that all its requests share. A body of more than
    ``max_body`` bytes is not kept: the request then counts as complete, with no body if its length
    was declared, and with one byte more than ``max_body`` if it is chunked.
    """

    def __init__(self, base: "WSGIEnvironment", max_body: int) -> None:
        self.base, self.max_body = base, max_body
        # The bytes that belong to the next head, to the rest of a body, or to the next request.
        self.received = b""
        # True if the connection can serve another request after this one.
        self.reuse = True
        self._forget()

    def _forget(self) -> None:
        """Free the memory of the request."""
        # Its environment, once the head is complete.
        self.environ: WSGIEnvironment | None = None
        self.for_health = False
        # True if the client waits for 100 Continue before it sends the body.
        self.expects = False
        self.body = bytearray()
        # The bytes of a body with Content-Length that are missing.
        self.missing = 0
        # For a chunked body: what was collected, the parser, the number of parsed bytes, and the
        # last three of them.
        self.chunks: Chunks | None = None
        self.parser: HttpRequestParser | None = None
        self.parsed, self.tail = 0, b""

    @property
    def size(self) -> int:
        """Return the memory of an unfinished request in bytes, without the environment of its head.

        The bytes of chunks count twice: as read, and as body.
        """
        return len(self.received) + len(self.body) + self.parsed

    def feed(self, data: bytes) -> bool:
        """Add bytes; return True if a request is complete.

        Raises BadRequest, ExpectationFailed, RequestHeaderFieldsTooLarge or RequestURITooLarge,
        after which the connection can serve no request.
        """
        self.received = received = self.received + data if self.received else data
        if self.environ is None:
            if not received:
                return False
            end = received.find(BLANK_LINE) + 4
            if end < 4:
                if received.count(b"\n") != received.count(b"\r\n"):
                    raise BadRequest("A line of the head does not end with CRLF")
                if len(received) > HEAD:
                    check_size(received)
                return False
            self.received = received[end:]
            self._begin(received[:end])
        if self.chunks and self.parser:
            return self._read_chunks(self.chunks, self.parser)
        if self.missing:
            part = self.received[: self.missing]
            self.received = self.received[self.missing :]
            self.body += part
            self.missing -= len(part)
        return not self.missing

    def take(self) -> "WSGIEnvironment":
        """Give up the environment of the complete request, and begin with the next one."""
        environ = self.environ
        assert environ is not None, "no request is complete"  # noqa: S101
        environ["wsgi.input"] = BytesIO(self.body)
        self._forget()
        return environ

    def discard(self) -> None:
        """Free all memory; the connection serves no more requests."""
        self.received = b""
        self._forget()

    def _begin(self, head: bytes) -> None:
        """Make the environment from a head, and find out how its body ends."""
        check_size(head)
        line = REQUEST_LINE.match(head)
        if line is None:
            raise BadRequest("The request line is malformed")
        method, path, query, version = line.groups(b"")
        environ = {
            **self.base,
            "REQUEST_METHOD": method.decode(),
            "PATH_INFO": unquote_to_bytes(path).decode("latin-1") or "/",
            "QUERY_STRING": query.decode(),
            "SERVER_PROTOCOL": f"HTTP/{version.decode()}",
        }
        try:
            HttpRequestParser(Head(environ)).feed_data(ANY_REQUEST + head[line.end() :])
        except HttpParserUpgrade:
            pass  # The service has no other protocol: the request is one as any other.
        except HttpParserError as error:
            raise BadRequest(f"The head is malformed: {error}") from None
        modern = version == b"1.1"
        options = environ.get("HTTP_CONNECTION", "").lower()
        self.reuse = "close" not in options if modern else "keep-alive" in options
        self.for_health = path == b"/healthz"
        self.expects = modern and "HTTP_EXPECT" in environ
        if environ.get("HTTP_EXPECT", "100-continue").lower() != "100-continue":
            raise ExpectationFailed("Expect must be 100-continue")
        if "HTTP_TRANSFER_ENCODING" in environ:
            if environ["HTTP_TRANSFER_ENCODING"].lower() != "chunked" or not modern:
                raise BadRequest("Transfer-Encoding must be chunked, in HTTP/1.1")
            self.chunks = Chunks(self.body)
            self.parser = HttpRequestParser(self.chunks)
            self.parser.feed_data(CHUNKED_HEAD)
        elif "CONTENT_LENGTH" in environ:
            self.missing = int(environ["CONTENT_LENGTH"])
            if self.missing > self.max_body:
                self.missing, self.reuse = 0, False
        self.environ = environ

    def _read_chunks(self, chunks: Chunks, parser: HttpRequestParser) -> bool:
        """Parse chunks; return True at the end of the body, or when it is too large."""
        # The parser cannot say where the body ended, so it gets no byte beyond a blank line: every
        # chunked body ends with one, which may begin in what was parsed before.
        received = self.tail + self.received
        start, view = len(self.tail), memoryview(received)
        while not chunks.complete and start < len(received):
            end = received.find(BLANK_LINE, max(0, start - 3)) + 4
            end = end if end >= 4 else len(received)
            try:
                parser.feed_data(view[start:end])
            except HttpParserError as error:
                raise http_error("unreadable_body", error=error) from None
            self.parsed += end - start
            start = end
        self.tail, self.received = received[max(0, start - 3) : start], received[start:]
        if len(self.body) > self.max_body:
            del self.body[self.max_body + 1 :]
            self.reuse = False
            return True
        # The framing of a chunk of one byte takes five; more is an endless extension or trailer.
        if self.parsed > 8 * len(self.body) + HEAD:
            raise http_error("unreadable_body", error="its chunks are too small")
        return chunks.complete


@lru_cache(maxsize=256)
def environ_key(name: bytes) -> str | None:
    """Return the key of a header field in the environment; None if the application ignores it.

    With underscores, X_A would have the key of X-A. werkzeug would look for a WebSocket route
    because of Upgrade; the service has none.
    """
    key = name.decode().upper().replace("-", "_")
    if b"_" in name or key == "UPGRADE":
        return None
    return key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}"


def check_size(head: bytes) -> None:
    """Raise 414 or 431 for a head that is too long, complete or not."""
    # The request line and the blank line are no fields.
    if len(head) <= LINE and head.count(b"\r\n") <= FIELDS + 2:
        return
    lines = head.split(b"\r\n")
    if len(lines[0]) > LINE:
        raise RequestURITooLarge(f"The request line has more than {LINE} bytes")
    if len(head) > HEAD or len(lines) > FIELDS + 3 or max(map(len, lines)) > LINE:
        raise RequestHeaderFieldsTooLarge(
            f"The head has more than {HEAD} bytes, {FIELDS} fields, or {LINE} bytes in a line"
        )
