"""The reader of requests turns bytes, in pieces of any size, into complete requests."""

import gc
import re
import time
import weakref
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.speedups.http_server import request_reader
from service.speedups.http_server.errors import RequestError
from service.speedups.http_server.request_reader import (
    BLANK_LINES,
    FIELDS,
    HEAD,
    LINE,
    Chunks,
    RequestReader,
)

START = b"POST /a%20b?c=d HTTP/1.1\r\nHost: x\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
MAX_BODY = 10

# By name: the bytes that follow START, and the body that the application then reads.
COMPLETE = {
    "no body": (b"\r\n", b""),
    "body with a length": (b"Content-Length: 9\r\n\r\n123456789", b"123456789"),
    "length with a name in another case": (b"cOntent-lEngth:9 \r\n\r\n123456789", b"123456789"),
    "the largest body": (b"Content-Length: 10\r\n\r\n1234567890", b"1234567890"),
    "length with thousands of leading zeros": (
        b"Content-Length: " + b"0" * 5000 + b"3\r\n\r\nabc",
        b"abc",
    ),
    "length of zero": (b"Content-Length: 0\r\n\r\n", b""),
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
    # HTTP/1.1 does not count it as hop-by-hop, but the parser of heads stops after it.
    "Proxy-Connection": (b"Proxy-Connection: close\r\n\r\n", b""),
    "websocket": (b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", b""),
}


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("name", COMPLETE)
def test_a_request_is_complete_at_its_last_byte_even_if_several_arrive_together(name, size):
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
        assert environ.get("CONTENT_LENGTH", "0") == ("0" if b"hunked" in rest else str(len(body)))
        assert environ["REQUEST_METHOD"] == "POST"
        assert (environ["PATH_INFO"], environ["QUERY_STRING"]) == ("/a b", "c=d")
        assert environ["SERVER_PROTOCOL"] == "HTTP/1.1"
        assert environ["HTTP_HOST"] == "x"
        assert environ["wsgi.version"] == (1, 0)
        assert not {"HTTP_X_A", "HTTP_UPGRADE"} & environ.keys()
        assert reader.size == 0
    for data in (request * 3, b"", b""):
        assert reader.feed(data)
        assert reader.take()["wsgi.input"].read() == body
    assert not reader.feed(b"")


def test_fields_of_one_name_become_one_value_and_cookies_keep_their_own_separator():
    reader = RequestReader({}, MAX_BODY)
    lines = b"X-A: 1\r\nCookie: a=b\r\nx-a: 2\r\nCookie: c=d\r\n\r\n"
    assert reader.feed(b"GET / HTTP/1.1\r\nHost: x\r\n" + lines)
    environ = reader.take()
    assert (environ["HTTP_X_A"], environ["HTTP_COOKIE"]) == ("1, 2", "a=b; c=d")


@pytest.mark.parametrize("line", [b"GET /caf\xe9", b"GET /a?b=\xc3\xa9", b"GET /a b", b"GET /a/h2"])
def test_the_error_of_a_request_line_says_what_to_percent_encode_if_anything(line):
    version = b"2.0" if line.endswith(b"h2") else b"1.1"
    with pytest.raises(RequestError) as caught:
        RequestReader({}, MAX_BODY).feed(line + b" HTTP/" + version + b"\r\nHost: x\r\n\r\n")
    assert caught.value.status == 400
    assert ("percent-encode" in caught.value.message) == (version == b"1.1")


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
def test_a_request_target_can_have_each_form_that_rfc_9112_allows(line, path, query):
    reader = RequestReader({}, MAX_BODY)
    assert reader.feed(line + b"\r\nHost: y\r\n\r\n")
    environ = reader.take()
    assert (environ["PATH_INFO"], environ["QUERY_STRING"]) == (path, query)
    assert environ["REQUEST_METHOD"].encode() == line.split()[0]
    authority = re.search(rb"(?i)https?://([^/?]*)", line)
    assert environ["HTTP_HOST"].encode() == (authority[1].split()[0] if authority else b"y")


@pytest.mark.parametrize("host", ["", "x", "x:80", "x:", "1.2.3.4:80", "[::1]:80", "a_b", "%41,!"])
def test_host_can_be_a_name_or_an_address_with_or_without_a_port_or_empty(host):
    reader = RequestReader({}, MAX_BODY)
    assert reader.feed(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    assert reader.take()["HTTP_HOST"] == host
    assert reader.feed(b"GET / HTTP/1.0\r\n\r\n")


def test_header_fields_with_the_same_name_are_joined_and_names_with_underscores_are_dropped():
    reader = RequestReader({}, MAX_BODY)
    fields = b"X-A:  b \r\nx-a:\tc\t\r\nX_A: d\r\nCONTENT_LENGTH: 5\r\nContent-Type: e\r\n"
    assert reader.feed(START + fields + b"\r\n")
    environ = reader.take()
    assert environ["HTTP_X_A"] == "b, c"
    assert environ["CONTENT_TYPE"] == "e"
    assert "CONTENT_LENGTH" not in environ


CHUNKS = START + CHUNKED
# By row of the table in the docstring of the module: the status, and requests that get it.
REJECTED = {
    "9112, 2.2: a line that ends without CR, a blank line before the request line": (400, [
        b"GET / HTTP/1.1\n\n",
        b"GET / HTTP/1.1\r\nHost: x\n\r\n",
        b"\r\n" + START + b"\r\n",
    ]),
    "9112, 2.3: another version than HTTP/1.0 and HTTP/1.1": (400, [
        b"GET /\r\n\r\n",
        b"GET / HTTP/0.9\r\n\r\n",
        b"GET / HTTP/1.2\r\nHost: x\r\n\r\n",
        b"GET / HTTP/2.0\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\n",
        b"DESCRIBE / RTSP/1.0\r\n\r\n",
        b"SOURCE / ICE/1.0\r\n\r\n",
    ]),
    "9112, 3: white space beside the two spaces, a method in lower case": (400, [
        b"GET  / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /  HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1 \r\nHost: x\r\n\r\n",
        b"GET\t/ HTTP/1.1\r\nHost: x\r\n\r\n",
        b"get / HTTP/1.1\r\nHost: x\r\n\r\n",
    ]),
    "9112, 3: a request line of more than 8190 bytes": (414, [
        b"GET /" + b"a" * LINE + b" HTTP/1.1\r\n\r\n",
        b"GET /" + b"a" * HEAD,
    ]),
    "9112, 3.2: a malformed target": (400, [
        b"GET a HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET ?a HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /#a HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /\xe9 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /\0 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET http:///a HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET http://a@b/ HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET x:80 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"CONNECT x HTTP/1.1\r\nHost: x\r\n\r\n",
    ]),
    "9112, 3.2: no Host in HTTP/1.1; two Hosts, or one that is malformed": (400, [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET http://x/ HTTP/1.1\r\n\r\n",
        START + b"Host: x\r\n\r\n",
        START + b"hOST:\r\n\r\n",
        START.replace(b"1.1", b"1.0") + b"Host: x\r\n\r\n",
        *[
            b"GET / HTTP/1.%d\r\nHost: %b\r\n\r\n" % (minor, host)
            for host in (b"a b", b"a/b", b"a@b", b"a:b", b"a:1:2", b"[::1", b"\xe9", b"a, b")
            for minor in (0, 1)
        ],
    ]),
    "9112, 3.2.3: the authority form, with CONNECT": (405, [
        b"CONNECT x:80 HTTP/1.1\r\nHost: x:80\r\n\r\n",
        b"CONNECT [::1]:80 HTTP/1.0\r\n\r\n",
    ]),
    "9112, 5: a field without a colon, without a name, with white space before the colon": (400, [
        START + b"X-A\r\n\r\n",
        START + b": a\r\n\r\n",
        START + b"X-A : b\r\n\r\n",
        START + b"X A: b\r\n\r\n",
        START + b"X(A: b\r\n\r\n",
    ]),
    "9112, 5.2: a folded line": (400, [START + b"X-A: b\r\n c\r\n\r\n"]),
    "9110, 5.5: NUL, CR or LF in a value": (400, [
        START + b"X-A: \0\r\n\r\n",
        START + b"X-A: a\rb\r\n\r\n",
        START + b"X-A: a\nb\r\n\r\n",
    ]),
    "9110, 5.4: a head of more than 32 KiB, 100 fields, or 8190 bytes in a line": (431, [
        START + b"X-A: " + b"b" * LINE + b"\r\n\r\n",
        START + b"X-A: " + b"b" * HEAD,
        START + b"X-A: b\r\n" * FIELDS + b"\r\n",
        START + (b"X-A: " + b"b" * 8000 + b"\r\n") * 5,
    ]),
    "9112, 6.1: Transfer-Encoding with Content-Length, in HTTP/1.0, or not chunked": (400, [
        START + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        START + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
        START + b"Transfer-Encoding: chunked, chunked\r\n\r\n",
        START + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        START + b"Transfer-Encoding: identity\r\n\r\n",
        START.replace(b"1.1", b"1.0") + CHUNKED,
    ]),
    "9112, 6.3: two values of Content-Length, or one that is not a number below 2**64": (400, [
        START + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\n",
        START + b"Content-Length: 5, 5\r\n\r\n",
        START + b"Content-Length: +5\r\n\r\n",
        START + b"Content-Length: \r\n\r\n",
        START + b"Content-Length: 99999999999999999999\r\n\r\n",
    ]),
    "9112, 7.1: malformed chunks, or more than 8 bytes of framing for each byte": (400, [
        CHUNKS + b"z\r\n",
        CHUNKS + b"-1\r\n",
        CHUNKS + b"1\r\nab\r\n",
        CHUNKS + b"1\na\r\n",
        CHUNKS + b"0;" + b"a" * (HEAD + 100),
        CHUNKS + b"0\r\n" + b"X-A: b\r\n" * (HEAD // 4),
        CHUNKS + b"1;" + b"a" * 5000 + b"\r\n" + b"b\r\n1;" * 10_000,
    ]),
    "9110, 10.1.1: another expectation": (417, [START + b"Expect: the worst\r\n\r\n"]),
}  # fmt: skip


def test_the_table_in_the_docstring_of_the_module_has_every_row_that_these_tests_try():
    rows = [
        row.strip("| ").split(" | ")
        for row in request_reader.__doc__.splitlines()
        if row[:1] == "|"
    ]
    told = {f"{section}: {sent}": status for section, sent, status in rows[2:]}
    assert told.items() >= {(row, str(status)) for row, (status, _) in REJECTED.items()}


@pytest.mark.parametrize("row", REJECTED)
def test_a_malformed_request_is_rejected_whether_it_arrives_in_one_piece_or_in_many(row):
    status, requests = REJECTED[row]
    for request in requests:
        for size in (len(request), 1000, 1 + len(request) // 1000):
            reader = RequestReader({}, MAX_BODY)
            raised = None
            try:
                for start in range(0, len(request), size):
                    assert not reader.feed(request[start : start + size]), request[:100]
            except RequestError as error:
                raised = error.status
            assert raised == status, request[:100]


def mutations():
    """Requests in which bytes were replaced, removed or repeated, and arbitrary bytes."""
    requests = [START + rest for rest, _ in COMPLETE.values()]
    requests += [request for _, rejected in REJECTED.values() for request in rejected]
    pieces = st.sampled_from(
        [b"0" * 5000, b"\r\n", b"\0", b"\xff", b":", b" ", b"Content-Length: "]
    )

    def mutate(request, edits):
        for place, cut, piece, times in edits:
            start = place % (len(request) + 1)
            request = request[:start] + piece * times + request[start + cut :]
        return request

    edit = st.tuples(
        st.integers(0, 2**16), st.integers(0, 9), pieces | st.binary(max_size=4), st.integers(0, 3)
    )
    return st.builds(mutate, st.sampled_from(requests), st.lists(edit, max_size=4)) | st.binary()


@pytest.mark.slow
@settings(max_examples=300, deadline=None, database=None, derandomize=True)
@given(mutations(), st.integers(1, 20))
def test_any_bytes_are_a_request_or_raise_a_request_error(data, parts):
    reader, size = RequestReader({}, MAX_BODY), 1 + len(data) // parts
    with suppress(RequestError):
        for start in range(0, len(data), size):
            if reader.feed(data[start : start + size]):
                reader.take()
                while reader.feed(b""):
                    reader.take()


def test_the_end_of_a_chunked_body_may_arrive_in_two_pieces_the_second_with_the_next_request():
    body = CHUNKS + b"3\r\nabc\r\n0\r\n\r\n"
    for cut in range(len(CHUNKS), len(body)):
        reader = RequestReader({}, MAX_BODY)
        assert not reader.feed(body[:cut])
        assert reader.feed(body[cut:] + START + b"\r\n")
        assert reader.take()["wsgi.input"].read() == b"abc"
        assert reader.feed(b"")
        assert reader.take()["wsgi.input"].read() == b""


def test_a_chunk_of_very_many_blank_lines_is_read_quickly_and_ends_the_connection(monkeypatch):
    """Each blank line may be the end of the body, so the reader tries a limited number of them."""
    for lines in (BLANK_LINES // 2 - 1, 2**17):
        body = b"\r\n" * 2 * lines
        chunk = b"%x\r\n%b\r\n" % (len(body), body)
        reader = RequestReader({}, 2**21)
        parts = [CHUNKS + chunk[: len(chunk) // 2], chunk[len(chunk) // 2 :]]
        start = time.thread_time()
        assert not any(reader.feed(part) for part in parts)
        assert time.thread_time() - start < 0.1
        assert reader.feed(b"0\r\n\r\n" + START + b"\r\n")
        assert reader.reuse is (lines < BLANK_LINES)
        assert reader.take()["wsgi.input"].read() == body


def test_the_head_of_a_request_has_the_limits_that_apache_and_nginx_have():
    """A proxy in front forwards every head that it accepts; nginx accepts four lines of 8 KiB."""
    assert (HEAD, LINE, FIELDS) == (4 * 8192, 8190, 100)


def test_a_head_of_exactly_the_maximum_size_is_accepted_and_one_more_byte_is_rejected():
    head = START + (b"X-A: " + b"b" * 4000 + b"\r\n") * (HEAD // 4007)
    head += b"X-B: ".ljust(HEAD - len(head) - 4, b"b")
    assert RequestReader({}, MAX_BODY).feed(head + b"\r\n\r\n")
    with pytest.raises(RequestError):
        RequestReader({}, MAX_BODY).feed(head + b"b\r\n\r\n")


def test_the_framing_of_chunks_may_be_eight_times_their_data_plus_the_size_of_a_head():
    chunk = b"1\r\na\r\n"
    for number in (HEAD // 4, 0):
        reader = RequestReader({}, 2**20)
        assert not reader.feed(START + CHUNKED + chunk * number)
        extension = b"1;" + b"x" * (HEAD + 8 * (number + 1) - len(chunk) * (number + 1) - 1)
        assert not reader.feed(extension + b"\r\na\r\n")
        assert reader.parsed == HEAD + 8 * len(reader.body)
        with pytest.raises(RequestError):
            reader.feed(b"0;" + b"x" * 2000)


def test_heads_with_the_longest_line_or_the_most_fields_are_accepted():
    line = b"GET /" + b"a" * (LINE - 14) + b" HTTP/1.1\r\n"
    line += b"Host: x\r\n"
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
def test_after_a_body_that_is_too_large_the_reader_stops_and_the_connection_is_not_reused(
    rest, kept
):
    reader = RequestReader({}, MAX_BODY)
    assert reader.feed(START + rest)
    assert not reader.reuse
    assert len(reader.take()["wsgi.input"].read()) == kept


@pytest.mark.parametrize(
    ("head", "reuse"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n", True),
        (b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Close\r\n", False),
        (b"GET / HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, close\r\n", False),
        (b"GET / HTTP/1.0\r\n", False),
        (b"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n", True),
    ],
)
def test_a_connection_stays_open_if_the_client_asks_for_that(head, reuse):
    reader = RequestReader({}, MAX_BODY)
    assert reader.feed(head + b"\r\n")
    assert reader.reuse is reuse


def test_only_an_http_1_1_client_waits_for_100_continue():
    for version, expects in (b"1.1", True), (b"1.0", False):
        reader = RequestReader({}, MAX_BODY)
        start = START.replace(b"1.1", version)
        assert not reader.feed(start + b"Expect: 100-Continue\r\nContent-Length: 3\r\n\r\n")
        assert reader.expects is expects


def test_an_unfinished_request_reports_its_memory_and_frees_it_without_the_garbage_collector():
    """The garbage collector would free the memory only long after a flood of requests."""
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
