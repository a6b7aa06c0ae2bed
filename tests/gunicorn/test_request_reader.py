"""The reader of requests: bytes in, complete requests out, whatever pieces they come in."""

import gc
import weakref

import pytest
from werkzeug.exceptions import (
    BadRequest,
    ExpectationFailed,
    HTTPException,
    RequestHeaderFieldsTooLarge,
    RequestURITooLarge,
)

from service.gunicorn.request_reader import FIELDS, HEAD, LINE, Chunks, RequestReader

pytestmark = pytest.mark.nodatabase

START = b"POST /a%20b?c=d HTTP/1.1\r\nHost: x\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
MAX_BODY = 10

# The rest of a head and a body, and the body that the application reads.
COMPLETE = {
    "no body": (b"\r\n", b""),
    "length": (b"Content-Length: 9\r\n\r\n123456789", b"123456789"),
    "length in other case": (b"cOntent-lEngth:9 \r\n\r\n123456789", b"123456789"),
    "the largest body": (b"Content-Length: 10\r\n\r\n1234567890", b"1234567890"),
    "no length": (b"Content-Length: 0\r\n\r\n", b""),
    "chunks": (CHUNKED + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", b"abcde"),
    "chunks with extension and trailer": (
        b"Transfer-Encoding: Chunked\r\n\r\n3;a=b\r\nabc\r\n0;c\r\nX-A: b\r\nHost: y\r\n\r\n",
        b"abc",
    ),
    "chunks that contain blank lines": (
        CHUNKED + b"4\r\n\r\n\r\n\r\n5\r\n0\r\n\r\n\r\n0\r\n\r\n",
        b"\r\n\r\n0\r\n\r\n",
    ),
    "chunks that end with a blank line": (CHUNKED + b"3\r\na\r\n\r\n0\r\n\r\n", b"a\r\n"),
    "h2c": (
        b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nContent-Length: 3\r\n\r\nabc",
        b"abc",
    ),
    "h2c and chunks": (
        b"Connection: Upgrade\r\nUpgrade: h2c\r\n" + CHUNKED + b"3\r\nabc\r\n0\r\n\r\n",
        b"abc",
    ),
    "websocket": (b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", b""),
}


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("name", COMPLETE)
def test_requests_one_after_the_other_are_complete_at_their_last_byte(name, size):
    rest, body = COMPLETE[name]
    request = START + rest
    reader = RequestReader({"wsgi.version": (1, 0)}, MAX_BODY)
    for _ in range(2):
        parts = [request[start : start + size] for start in range(0, len(request), size)]
        assert not any(reader.feed(part) for part in parts[:-1])
        assert reader.feed(parts[-1])
        assert reader.reuse
        environ = reader.take()
        assert environ["wsgi.input"].read() == body
        assert environ["REQUEST_METHOD"] == "POST"
        assert (environ["PATH_INFO"], environ["QUERY_STRING"]) == ("/a b", "c=d")
        assert environ["SERVER_PROTOCOL"] == "HTTP/1.1"
        assert environ["HTTP_HOST"] == "x"
        assert environ["wsgi.version"] == (1, 0)
        assert not {"HTTP_X_A", "HTTP_UPGRADE"} & environ.keys()
        assert reader.size == 0


@pytest.mark.parametrize("name", COMPLETE)
def test_requests_that_come_together_are_taken_one_by_one(name):
    rest, body = COMPLETE[name]
    reader = RequestReader({}, MAX_BODY)
    data = (START + rest) * 3
    for _ in range(3):
        assert reader.feed(data)
        assert reader.take()["wsgi.input"].read() == body
        data = b""
    assert not reader.feed(b"")


@pytest.mark.parametrize(
    ("line", "path", "query"),
    [
        (b"GET http://x.example:80/a?b HTTP/1.1", "/a", "b"),
        (b"GET HTTPS://[::1] HTTP/1.1", "/", ""),
        (b"GET http://x?/b?c HTTP/1.0", "/", "/b?c"),
        (b"OPTIONS * HTTP/1.1", "*", ""),
        (b"GET //a/%E2%82%AC%00 HTTP/1.1", "//a/\xe2\x82\xac\0", ""),
        (b"BREW /pot HTTP/1.1", "/pot", ""),
    ],
)
def test_a_request_target_has_one_of_the_forms_of_rfc_9112(line, path, query):
    reader = RequestReader({}, MAX_BODY)
    assert reader.feed(line + b"\r\n\r\n")
    environ = reader.take()
    assert (environ["PATH_INFO"], environ["QUERY_STRING"]) == (path, query)
    assert environ["REQUEST_METHOD"].encode() == line.split()[0]


def test_fields_of_one_name_are_one_value_and_names_with_underscores_are_dropped():
    reader = RequestReader({}, MAX_BODY)
    fields = b"X-A:  b \r\nx-a:\tc\t\r\nX_A: d\r\nCONTENT_LENGTH: 5\r\nContent-Type: e\r\n"
    assert reader.feed(START + fields + b"\r\n")
    environ = reader.take()
    assert environ["HTTP_X_A"] == "b,c"
    assert environ["CONTENT_TYPE"] == "e"
    assert "CONTENT_LENGTH" not in environ


REJECTED = {
    BadRequest: [
        b"\r\n" + START + b"\r\n",
        b"GET  / HTTP/1.1\r\n\r\n",
        b"GET /  HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1 \r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET / HTTP/0.9\r\n\r\n",
        b"GET / HTTP/2.0\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\n",
        b"DESCRIBE / RTSP/1.0\r\n\r\n",
        b"SOURCE / ICE/1.0\r\n\r\n",
        b"GET a HTTP/1.1\r\n\r\n",
        b"GET ?a HTTP/1.1\r\n\r\n",
        b"GET /#a HTTP/1.1\r\n\r\n",
        b"GET /\xe9 HTTP/1.1\r\n\r\n",
        b"get / HTTP/1.1\r\n\r\n",
        b"CONNECT x:80 HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\n\n",
        b"GET / HTTP/1.1\r\nHost: x\n\r\n",
        START + b"X-A : b\r\n\r\n",
        START + b"X-A: b\r\n c\r\n\r\n",
        START + b"X-A: \0\r\n\r\n",
        START + b"X A: b\r\n\r\n",
        START + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\n",
        START + b"Content-Length: +5\r\n\r\n",
        START + b"Content-Length: 99999999999999999999\r\n\r\n",
        START + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        START + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
        START + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        START + b"Transfer-Encoding: identity\r\n\r\n",
        START.replace(b"1.1", b"1.0") + CHUNKED,
        START + CHUNKED + b"z\r\n",
        START + CHUNKED + b"-1\r\n",
        START + CHUNKED + b"1\r\nab\r\n",
        START + CHUNKED + b"1\na\r\n",
        START + CHUNKED + b"0;" + b"a" * (HEAD + 100),
        START + CHUNKED + b"0\r\n" + b"X-A: b\r\n" * (HEAD // 4),
        START + CHUNKED + b"1;" + b"a" * 5000 + b"\r\n" + b"b\r\n1;" * 10_000,
    ],
    ExpectationFailed: [START + b"Expect: the worst\r\n\r\n"],
    RequestURITooLarge: [
        b"GET /" + b"a" * LINE + b" HTTP/1.1\r\n\r\n",
        b"GET /" + b"a" * HEAD,
    ],
    RequestHeaderFieldsTooLarge: [
        START + b"X-A: " + b"b" * LINE + b"\r\n\r\n",
        START + b"X-A: " + b"b" * HEAD,
        START + b"X-A: b\r\n" * FIELDS + b"\r\n",
        START + (b"X-A: " + b"b" * 8000 + b"\r\n") * 5,
    ],
}


@pytest.mark.parametrize("kind", REJECTED)
def test_a_malformed_request_is_rejected_in_one_piece_and_in_many(kind):
    for request in REJECTED[kind]:
        for size in (len(request), 1000, 1 + len(request) // 1000):
            reader = RequestReader({}, MAX_BODY)
            raised: type | None = None
            try:
                for start in range(0, len(request), size):
                    assert not reader.feed(request[start : start + size]), request[:100]
            except HTTPException as error:
                raised = type(error)
            assert raised is kind, request[:100]


def test_the_limits_of_heads_are_those_of_apache_and_nginx():
    """Proxies in front pass heads on that they accept: nginx four lines of 8 KiB."""
    assert (HEAD, LINE, FIELDS) == (4 * 8192, 8190, 100)


def test_a_head_has_at_most_its_size():
    for more, complete in ((0, True), (1, False)):
        reader = RequestReader({}, MAX_BODY)
        line = b"X-A: " + b"b" * 4000 + b"\r\n"
        head = START + line * (HEAD // len(line))
        rest = HEAD + more - len(head) - len(b"X-B: \r\n\r\n")
        head += b"X-B: " + b"b" * rest + b"\r\n\r\n"
        assert len(head) == HEAD + more
        if complete:
            assert reader.feed(head)
        else:
            with pytest.raises(RequestHeaderFieldsTooLarge):
                reader.feed(head)


def test_chunks_may_have_framing_of_eight_times_their_size_and_a_head_beyond_that():
    chunk = b"1\r\na\r\n"
    for number in (HEAD // 4, 0):
        reader = RequestReader({}, 2**20)
        assert not reader.feed(START + CHUNKED + chunk * number)
        extension = b"1;" + b"x" * (HEAD + 8 * (number + 1) - len(chunk) * (number + 1) - 1)
        assert not reader.feed(extension + b"\r\na\r\n")
        assert reader.parsed == HEAD + 8 * len(reader.body)
        with pytest.raises(BadRequest):
            reader.feed(b"0;" + b"x" * 2000)


def test_the_largest_heads_are_accepted():
    line = b"GET /" + b"a" * (LINE - 14) + b" HTTP/1.1\r\n"
    for head in (line, START + b"X-A: b\r\n" * (FIELDS - 1), START + b"X-A: " + b"b" * (LINE - 5)):
        reader = RequestReader({}, MAX_BODY)
        assert reader.feed(head.removesuffix(b"\r\n") + b"\r\n\r\n")


@pytest.mark.parametrize(
    ("rest", "kept"),
    [
        (b"Content-Length: 11\r\n\r\n", 0),
        (CHUNKED + b"b\r\n12345678901", MAX_BODY + 1),
        (CHUNKED + b"6\r\n123456\r\n600\r\n" + b"7" * 1000, MAX_BODY + 1),
    ],
)
def test_a_body_that_is_too_large_ends_the_request_and_the_connection(rest, kept):
    reader = RequestReader({}, MAX_BODY)
    assert reader.feed(START + rest)
    assert not reader.reuse
    assert len(reader.take()["wsgi.input"].read()) == kept


@pytest.mark.parametrize(
    ("head", "reuse"),
    [
        (b"GET / HTTP/1.1\r\n", True),
        (b"GET / HTTP/1.1\r\nConnection: Close\r\n", False),
        (b"GET / HTTP/1.1\r\nConnection: keep-alive, close\r\n", False),
        (b"GET / HTTP/1.0\r\n", False),
        (b"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n", True),
    ],
)
def test_a_connection_stays_open_as_its_client_asks(head, reuse):
    reader = RequestReader({}, MAX_BODY)
    assert reader.feed(head + b"\r\n")
    assert reader.reuse is reuse


def test_only_http_1_1_waits_for_100_continue():
    for version, expects in (b"1.1", True), (b"1.0", False):
        reader = RequestReader({}, MAX_BODY)
        start = START.replace(b"1.1", version)
        assert not reader.feed(start + b"Expect: 100-Continue\r\nContent-Length: 3\r\n\r\n")
        assert reader.expects is expects


def test_an_unfinished_request_tells_its_memory_and_leaves_none_behind():
    """Without the collector of reference cycles: it would run long after a flood."""
    reader = RequestReader({}, 2**20)
    for part in (START[:20], START[20:] + CHUNKED + b"ffff\r\n", b"a" * 50_000):
        before = reader.size
        assert not reader.feed(part)
        assert reader.size != before
    assert reader.size >= 50_000
    assert isinstance(reader.chunks, Chunks)
    chunks, left = weakref.ref(reader.chunks), weakref.ref(reader)
    gc.disable()
    try:
        reader.discard()
        assert reader.size == 0
        assert chunks() is None
        del reader
        assert left() is None
    finally:
        gc.enable()
