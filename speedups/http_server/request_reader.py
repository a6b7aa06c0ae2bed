"""A sans-I/O HTTP/1.1 request parser: bytes in, complete requests out.

httptools (llhttp) parses header fields and chunks. This module parses the request line and Host,
limits all sizes, and rejects some things that llhttp accepts: HTTP/0.9 and HTTP/2, transfer codings
other than chunked, and endless heads, trailers and chunk extensions.

| RFC | what a client sends | the response |
|---|---|---|
| 9112, 2.2 | a line that ends without CR, a blank line before the request line | 400 |
| 9112, 2.3 | another version than HTTP/1.0 and HTTP/1.1 | 400 |
| 9112, 3 | white space beside the two spaces, a method in lower case | 400 |
| 9112, 3 | a request line of more than 8190 bytes | 414 |
| 9112, 3.2 | a malformed target | 400 |
| 9112, 3.2 | no Host in HTTP/1.1; two Hosts, or one that is malformed | 400 |
| 9112, 3.2.2 | the absolute form | its host replaces that of Host |
| 9112, 3.2.3 | the authority form, with CONNECT | 405 |
| 9112, 3.2.4 | the asterisk form | the path ``*`` |
| 9112, 5 | a field without a colon, without a name, with white space before the colon | 400 |
| 9112, 5.2 | a folded line | 400 |
| 9110, 5.5 | NUL, CR or LF in a value | 400 |
| 9110, 5.3 | several fields of one name | one value, separated by commas |
| 9113, 8.2.3 | several fields Cookie | one value, separated by semicolons |
| 9110, 5.4 | a head of more than 32 KiB, 100 fields, or 8190 bytes in a line | 431 |
| 9112, 6.1 | Transfer-Encoding with Content-Length, in HTTP/1.0, or not chunked | 400 |
| 9112, 6.2 | Content-Length | a body of so many bytes |
| 9112, 6.3 | two values of Content-Length, or one that is not a number below 2**64 | 400 |
| 9112, 7.1 | malformed chunks, or more than 8 bytes of framing for each byte | 400 |
| 9112, 7.1.1 | chunk extensions | ignored |
| 9112, 7.1.2 | trailers | ignored |
| 9112, 8 | the end within a body | 400 |
| 9112, 9.3 | Connection: close, or HTTP/1.0 without keep-alive | the connection closes |
| 9112, 9.3 | requests without that, even sent together | they are read one after the other |
| 9110, 9.3.2 | HEAD | no body, even of an error |
| 9110, 10.1.1 | Expect: 100-continue, in HTTP/1.1 | 100 |
| 9110, 10.1.1 | another expectation | 417 |
| 9110, 7.8 | Upgrade | ignored |
| 9110, 15.5.14 | a body of more than ``max_body`` | the application's; the connection closes |

``tests/test_request_reader.py`` has a test for each row. PEP 3333 defines the environ.
"""

import re
from functools import lru_cache
from io import BytesIO
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from service.speedups.http_server.errors import RequestError

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

# The maximum of a head in bytes.
HEAD = 2**15
# The maximum of one line of a head in bytes.
LINE = 8190
# The maximum number of fields of a head.
FIELDS = 100
BLANK_LINE = b"\r\n\r\n"

# A host, which may be empty in the field Host, and a port (RFC 3986, section 3.2).
NAME = rb"[\w.~%!$&'()*+,;=-]"
ADDRESS = rb"\[[\w.:~%-]+\]"
PORT = rb"(?::\d*)?"
HOST = re.compile(rf"(?:{NAME.decode()}*|{ADDRESS.decode()}){PORT.decode()}", re.ASCII)
# A method, an origin-form or absolute-form or "*", a query, and the version (RFC 9112 section 3).
REQUEST_LINE = re.compile(
    rb"([A-Z-]{1,20}) (?=[/*hH])"
    rb"(?:(?i:https?)://((?:%b+|%b)%b))?"
    rb'(/[!"$->@-~]*|\*|)(?:\?([!"$-~]*))? HTTP/(1\.[01])\r\n' % (NAME, ADDRESS, PORT)
)
IN_URL = re.compile(rb"[!-~]*")
PERCENT_ENCODE = "the URL contains a space, or a character that is not ASCII; percent-encode it"
# CONNECT, whose authority-form names no resource of this server.
CONNECT_LINE = re.compile(rb"CONNECT (?:%b+|%b):\d+ HTTP/1\.[01]\r\n" % (NAME, ADDRESS))
# The parsers get these lines instead of the client's, because they need not know the client's
# method, and the parser of chunks must not see a client's head. `close` makes it reject bytes after
# the body.
ANY_REQUEST = b"POST / HTTP/1.1\r\n"
CHUNKED_HEAD = ANY_REQUEST + b"Connection: close\r\nTransfer-Encoding: chunked" + BLANK_LINE
# A blank line in a chunked body may be its end. After so many of them, searching for the next
# request costs more than a new connection.
BLANK_LINES = 1000


class Head:
    """Collects header fields in an environ; the parser calls ``on_header``."""

    def __init__(self, environ: "WSGIEnvironment") -> None:
        self.environ = environ

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a field. Fields with the same name become one value (RFC 9110, section 5.3)."""
        key = environ_key(name)
        if key:
            text, environ = value.decode("latin-1").strip(" \t"), self.environ
            if key in environ:
                # Two Host fields become "a, b", which HOST does not match.
                text = f"{environ[key]}{'; ' if key == 'HTTP_COOKIE' else ', '}{text}"
            environ[key] = text


class Chunks:
    """Collects a chunked body; the parser calls the methods ``on_…``. Trailers are ignored."""

    def __init__(self, body: bytearray) -> None:
        self.on_body = body.extend
        self.complete = False

    def on_message_complete(self) -> None:
        """Note the end of the body."""
        self.complete = True


class RequestReader:
    """The requests of a connection, one after the other.

    ``base`` has the members of the environ that all requests of the connection share. Requests for
    the path ``urgent_path`` are ``urgent``. A body of more than ``max_body`` bytes is not kept. The
    request then counts as complete: without a body if its length was declared, or with a body of
    ``max_body`` + 1 bytes if it is chunked.
    """

    def __init__(
        self, base: "WSGIEnvironment", max_body: int, urgent_path: bytes | None = None
    ) -> None:
        self.base, self.max_body, self.urgent_path = base, max_body, urgent_path
        # The bytes that belong to the next head, to the rest of a body, or to the next request.
        self.received = b""
        # True if the connection can serve another request after this one.
        self.reuse = True
        # True if the last request is HEAD, even if the rest of its head is malformed.
        self.for_head = False
        self._forget()

    def _forget(self) -> None:
        """Free the memory of the request."""
        # The environ of the request, once its head is complete.
        self.environ: WSGIEnvironment | None = None
        self.urgent = False
        # True if the client waits for 100 Continue before it sends the body.
        self.expects = False
        self.body = bytearray()
        # The bytes of a body with Content-Length that are missing.
        self.missing = 0
        # For a chunked body: the collected body, the parser, the number of parsed bytes, the last
        # three parsed bytes, and the number of blank lines.
        self.chunks: Chunks | None = None
        self.parser: HttpRequestParser | None = None
        self.parsed, self.tail, self.blank_lines = 0, b"", 0

    @property
    def size(self) -> int:
        """Return the memory of an unfinished request in bytes, without the environ of its head.

        The bytes of chunks count twice, because they are kept as read and as body.
        """
        return len(self.received) + len(self.body) + self.parsed

    def feed(self, data: bytes) -> bool:
        """Add bytes; return True if a request is complete.

        Raises only RequestError. After that, the connection can serve no request.
        """
        self.received = received = self.received + data if self.received else data
        if self.environ is None:
            if not received:
                return False
            self.for_head = received.startswith(b"HEAD ")
            end = received.find(BLANK_LINE) + 4
            if end < 4:
                if received.count(b"\n") != received.count(b"\r\n"):
                    raise RequestError(400, "A line of the head does not end with CRLF")
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
        """Return the environ of the complete request and start parsing the next one."""
        environ = self.environ
        assert environ is not None, "no request is complete"  # noqa: S101
        environ["wsgi.input"] = BytesIO(self.body)
        self._forget()
        return environ

    def discard(self) -> None:
        """Free all memory. The connection can serve no more requests."""
        self.received = b""
        self._forget()

    def _begin(self, head: bytes) -> None:
        """Make the environ from a head, and find out how the body ends."""
        check_size(head)
        line = REQUEST_LINE.match(head)
        if line is None:
            if CONNECT_LINE.match(head):
                raise RequestError(405, "Method not allowed; see the Allow header", Allow="")
            url = b" ".join(head.partition(b"\r\n")[0].split(b" ")[1:-1])
            hint = "" if IN_URL.fullmatch(url) else f": {PERCENT_ENCODE}"
            raise RequestError(400, f"The request line is malformed{hint}")
        method, host, path, query, version = line.groups(b"")
        decoded = unquote_to_bytes(path) if b"%" in path else path
        environ = {
            **self.base,
            "REQUEST_METHOD": method.decode(),
            "PATH_INFO": decoded.decode("latin-1") or "/",
            "QUERY_STRING": query.decode(),
            "SERVER_PROTOCOL": f"HTTP/{version.decode()}",
        }
        try:
            # A parser that has seen Proxy-Connection: close accepts no other head.
            HttpRequestParser(Head(environ)).feed_data(ANY_REQUEST + head[line.end() :])
        except HttpParserUpgrade:
            pass  # The worker speaks no other protocol, so this is a request like any other.
        except HttpParserError as error:
            raise RequestError(400, f"The head is malformed: {error}") from None
        modern = version == b"1.1"
        if not HOST.fullmatch(environ.get("HTTP_HOST", " " if modern else "")):
            raise RequestError(
                400, "The request must have one Host, of a name or an address and a port"
            )
        if host:
            environ["HTTP_HOST"] = host.decode()
        options = environ.get("HTTP_CONNECTION", "").lower()
        self.reuse = "close" not in options if modern else "keep-alive" in options
        self.urgent = path == self.urgent_path
        self.expects = modern and "HTTP_EXPECT" in environ
        if environ.get("HTTP_EXPECT", "100-continue").lower() != "100-continue":
            raise RequestError(417, "Expect must be 100-continue")
        if "HTTP_TRANSFER_ENCODING" in environ:
            if environ["HTTP_TRANSFER_ENCODING"].lower() != "chunked" or not modern:
                raise RequestError(400, "Transfer-Encoding must be chunked, in HTTP/1.1")
            self.chunks = Chunks(self.body)
            self.parser = HttpRequestParser(self.chunks)
            self.parser.feed_data(CHUNKED_HEAD)
        elif "CONTENT_LENGTH" in environ:
            # The parser has checked that the number is below 2**64, but not its leading zeros.
            environ["CONTENT_LENGTH"] = environ["CONTENT_LENGTH"].lstrip("0") or "0"
            self.missing = int(environ["CONTENT_LENGTH"])
            if self.missing > self.max_body:
                self.missing, self.reuse = 0, False
        self.environ = environ

    def _read_chunks(self, chunks: Chunks, parser: HttpRequestParser) -> bool:
        """Parse chunks; return True at the end of the body, or when it is too large."""
        # The parser cannot say where the body ended. Every chunked body ends with a blank line, so
        # the parser never gets a byte beyond the next blank line; that line may begin in the bytes
        # that were parsed before. After many blank lines the parser gets all bytes, and the next
        # request needs a new connection.
        received = self.tail + self.received
        start, view = len(self.tail), memoryview(received)
        while not chunks.complete and start < len(received):
            end = received.find(BLANK_LINE, max(0, start - 3)) + 4
            self.blank_lines += 1
            if end < 4 or self.blank_lines > BLANK_LINES:
                end = len(received)
                self.reuse = self.reuse and self.blank_lines <= BLANK_LINES
            try:
                parser.feed_data(view[start:end])
            except HttpParserError as error:
                if not chunks.complete:
                    raise unreadable(error) from None
            self.parsed += end - start
            start = end
        self.tail, self.received = received[max(0, start - 3) : start], received[start:]
        if len(self.body) > self.max_body:
            del self.body[self.max_body + 1 :]
            self.reuse = False
            return True
        # The framing of a chunk of one byte takes five bytes. Much more is an endless extension or
        # trailer.
        if self.parsed > 8 * len(self.body) + HEAD:
            raise unreadable("its chunks are too small")
        return chunks.complete


def unreadable(error: object) -> RequestError:
    """Return the error of a chunked body."""
    return RequestError(400, f"The body could not be read: {error}")


@lru_cache(maxsize=256)
def environ_key(name: bytes) -> str | None:
    """Return the environ key of a header field; None if the application must not see the field.

    A name with underscores is hidden, because X_A would have the key of X-A. Upgrade is hidden,
    because Werkzeug would look for a WebSocket route, and the worker serves none.
    """
    key = name.decode().upper().replace("-", "_")
    if b"_" in name or key == "UPGRADE":
        return None
    return key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}"


def check_size(head: bytes) -> None:
    """Raise 414 or 431 for a head that is too long, complete or not."""
    # The request line and the blank line are not fields.
    if len(head) <= LINE and head.count(b"\r\n") <= FIELDS + 2:
        return
    lines = head.split(b"\r\n")
    if len(lines[0]) > LINE:
        raise RequestError(414, f"The request line has more than {LINE} bytes")
    if len(head) > HEAD or len(lines) > FIELDS + 3 or max(map(len, lines)) > LINE:
        raise RequestError(
            431, f"The head has more than {HEAD} bytes, {FIELDS} fields, or {LINE} bytes in a line"
        )
