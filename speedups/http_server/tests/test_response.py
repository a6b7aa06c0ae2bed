"""The bytes that the worker sends for a response of the application."""

import sys
import time

import pytest
from support.processes import Answer

from service.speedups.http_server.response import Response, base_environment, run


def written(status, headers, *parts, method="GET", reuse=True):
    response = Response()
    response.start(status, headers)
    response.parts += parts
    return b"".join(response.encode(method, reuse=reuse))


@pytest.mark.parametrize("header", [("X-A", "a\r\nX-B: b"), ("X-A\n", "a"), ("X-A", "a\0")])
def test_a_response_header_cannot_inject_another_header(header):
    with pytest.raises(ValueError, match="control character"):
        written("200 OK", [("Content-Type", "application/json"), header])


def test_content_length_must_be_the_length_of_the_body_and_is_added_if_it_is_missing():
    assert Answer(written("200 OK", [], b"ab", b"c")).headers["content-length"] == "3"
    assert Answer(written("200 OK", [])).headers["content-length"] == "0"
    declared = [("content-length", "3")]
    assert Answer(written("200 OK", declared, b"abc")).body == b"abc"
    for parts in ([b"ab"], [b"abc", b"d"], []):
        with pytest.raises(ValueError, match="Content-Length"):
            written("200 OK", declared, *parts)


def test_a_response_that_must_not_have_a_body_ends_with_its_head():
    for status in ("204 NO CONTENT", "304 NOT MODIFIED"):
        raw = written(status, [("ETag", '"1"')], b"abc")
        assert raw.endswith(b'ETag: "1"\r\n\r\n')
        assert b"Content-Length" not in raw
    head = written("200 OK", [("Content-Length", "3")], b"abc", method="HEAD")
    assert head.endswith(b"Content-Length: 3\r\n\r\n")


def test_an_application_can_replace_the_response_it_has_started_only_because_of_an_error():
    response = Response()
    response.start("200 OK", [])
    with pytest.raises(AssertionError):
        response.start("201 CREATED", [])
    try:
        raise ValueError("late")
    except ValueError:
        response.start("500 INTERNAL SERVER ERROR", [], sys.exc_info())
    assert response.encode("GET", reuse=False)[0].startswith(b"HTTP/1.1 500 ")


def test_a_response_has_the_headers_connection_server_and_date():
    answer = Answer(written("200 OK", [], reuse=False))
    assert (answer.headers["connection"], answer.headers["server"]) == ("close", "gunicorn")
    now = time.time()
    assert answer.headers["date"] in [
        time.strftime("%a, %d %b %Y %H:%M:%S gmt", time.gmtime(now - ago)).lower()
        for ago in range(9)
    ]


class Body:
    """The body of a response. It raises ``fault`` after its parts, and counts calls of close."""

    def __init__(self, *parts, fault=None):
        self.parts, self.fault, self.closed = parts, fault, 0

    def __iter__(self):
        yield from self.parts
        if self.fault:
            raise self.fault

    def close(self):
        self.closed += 1


def run_with(body):
    def application(environ, start_response):
        start_response(environ["status"], [("Content-Length", "4")])
        return body

    return run(application, {"status": "200 OK"})


def test_the_body_of_a_response_is_closed_after_it_was_read():
    for body in (Body(b"ab", b"cd"), [b"ab", b"cd"]):
        response = run_with(body)
        assert b"".join(response.encode("GET", reuse=True)).endswith(b"\r\n\r\nabcd")
        assert not response.broken
        assert getattr(body, "closed", 1) == 1


def test_a_body_that_fails_while_it_is_read_is_truncated_and_closed():
    body = Body(b"ab", fault=OSError())
    response = run_with(body)
    assert (response.broken, body.closed) == (True, 1)
    answer = Answer(b"".join(response.encode("GET", reuse=False)))
    assert (answer.body, answer.headers["content-length"]) == (b"ab", "4")
    for body in (Body(fault=OSError()), Body(b"ab", fault=ValueError())):
        with pytest.raises(type(body.fault)):
            run_with(body)
        assert body.closed == 1


SHARED = {
    "SCRIPT_NAME": "",
    "wsgi.version": (1, 0),
    "wsgi.url_scheme": "http",
    "wsgi.input_terminated": True,
    "wsgi.errors": sys.stderr,
    "wsgi.multithread": True,
    "wsgi.multiprocess": True,
    "wsgi.run_once": False,
}


@pytest.mark.parametrize(
    ("client", "server", "told"),
    [
        (("10.0.0.1", 1), ("10.0.0.2", 8000), ("10.0.0.1", "10.0.0.2", "8000")),
        (("::1", 1, 0, 0), ("::2", 80, 0, 0), ("::1", "::2", "80")),
        ("", "/run/web.sock", ("", "localhost", "")),
    ],
)
def test_the_environ_has_the_addresses_and_everything_that_pep_3333_requires(client, server, told):
    environ = base_environment(client, server)
    names = "REMOTE_ADDR", "SERVER_NAME", "SERVER_PORT"
    expected = {**SHARED, "wsgi.errors": sys.stderr, **dict(zip(names, told, strict=True))}
    assert environ == expected
