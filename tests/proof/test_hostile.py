"""Hostile requests: they never hang or get a 5xx; responses are JSON with the rate limit headers.

speedups/http_server/tests has malformed requests, and test_strict_json.py has hostile JSON.
"""

import json
import re
from urllib.parse import unquote_to_bytes

import pytest
from support.processes import ALICE, RATE, send, serving
from support.rows import insert

pytestmark = [pytest.mark.proof, pytest.mark.usefixtures("unlimited")]

METHODS = (
    *("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"),
    *("PROPFIND", "QUERY", "MOVE", "PURGE", "BREW", "TASK", "M-SEARCH", "X" * 20),
)
OPEN = "/", "/healthz", "/openapi.json"

# These are bytes, because client libraries refuse to send some of these requests.
ODD = [
    *b"%00 a%00b %ff %c3%28 %ed%a0%80 %f4%90%80%80 %c0%af % %2 %zz %u0041".split(),
    *rb"%0a \ %5c %2f %2F.. .. ../.. %2e%2e . / // ;a=b * ~ ' <a> {id} -1 | ^".split(),
    *b"%0d%0aX-Evil:%201 null undefined %F0%9F%92%A9 e%CC%81".split(),
    *(b'"', b"\xff\xfe", b"0" * 32, b"9" * 400),
]
HEADERS = [
    *b"""\
Authorization: Bearer \xff
Authorization: Basic YTpi
Authorization: Bearer
Cookie: =
Cookie: session=\xff\x80; session=b
Cookie: session=%00
If-Match: \xff
If-Match: W/
If-None-Match: ,,,
Idempotency-Key: \xc3\xa9
X-Request-Id: \xff
Content-Type: \xff
Content-Type: application/json; charset=utf-7
Content-Type: ;;;
Content-Type: multipart/form-data
Content-Encoding: gzip
Accept: \xff
Accept: text/html
Range: bytes=0-1
Date: never
Expect: \xff
Upgrade: websocket
X-Forwarded-For: \xff
X-Forwarded-For: 1.1.1.1, ::1%25
Forwarded: \xff
Te: trailers
X-HTTP-Method-Override: DELETE
Origin: null
Sec-Fetch-Site: \xff
Host: \xff""".splitlines(),
    *(b"Cookie: " + b"a=b; " * 1000, b"Idempotency-Key: ", b"Idempotency-Key: " + b"k" * 256),
    *(b'If-Match: "' + b"9" * 400 + b'"', b"If-None-Match: " + b'"1",' * 900),
    b"X-Request-Id: " + b"a" * 5000,
]


@pytest.fixture(scope="module")
def port(database_url):
    with serving(database_url) as server:
        yield server.port


@pytest.fixture
def paths(app, connection, cast):
    """Return all paths: each with the id of a task, with the id of a workspace, and with no id."""
    task = insert(
        connection, "tasks", title="x", workspace_id=cast["acme"], created_by=cast["alice"]
    )
    found = {rule.rule for rule in app.url_map.iter_rules()}
    assert len(found) > 10
    return sorted(re.sub("<.*?>", id, path) for path in found for id in (task, cast["acme"], "x"))


def request(method, path, *headers, body=b""):
    lines = [method.encode() + b" " + path + b" HTTP/1.1", ALICE.encode().rstrip(), *headers]
    length = b"Content-Length: %d" % len(body)
    return b"\r\n".join([*lines, length, b"Connection: close", b"", body])


def hold(answer, sent, *, bodiless=False, open_to_all=False):
    """Check what every response promises, whether gunicorn or the service made it."""
    assert answer.status, sent
    assert answer.status < 500, sent
    assert "x-request-id" in answer.headers, sent
    assert open_to_all or all(answer.headers[name].isdigit() for name in RATE), sent
    if bodiless or answer.status in (204, 304):
        assert answer.body == b"", sent
        return
    assert answer.headers["content-type"] == "application/json", sent
    body = json.loads(answer.body)
    if answer.status >= 400:
        assert body["status"] == answer.status, sent
        assert body["requestId"] == answer.headers["x-request-id"], sent


@pytest.mark.parametrize("body", [b"", b"{}", b"\xff" * 100], ids=["empty", "object", "bytes"])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_on_every_path_is_answered_in_json(port, paths, method, body):
    for path in paths:
        sent = request(method, path.encode(), body=body)
        answer = send(port, sent, timeout=5)
        hold(answer, sent, bodiless=method == "HEAD", open_to_all=path in OPEN)
        if answer.status == 405:
            assert method not in re.split(", *", answer.headers["allow"].upper()), sent


@pytest.mark.parametrize(
    "form",
    b"/%s /api/%s /api/tasks/%s /api/tasks%s /api/%s/tasks /%s/api/tasks /api/workspaces/%s/members"
    b" /api/tasks?%s /api/tasks?%s=%s /api/tasks?status=%s /api/tasks?cursor=%s"
    b" /api/tasks?parentId=%s&projectId=%s /api/knowledge?q=%s /api/mail?limit=%s /api/tasks/x?%s"
    b" /api/tasks#%s /api/meetings?cursor=%s".split(),
)
def test_an_odd_path_or_query_is_answered_in_json(port, form):
    for odd in ODD:
        for method in ("GET", "DELETE"):
            path = form.replace(b"%s", odd)
            sent = request(method, path)
            # A path of slashes only is the root, which needs no credential.
            root = not unquote_to_bytes(path).strip(b"/")
            hold(send(port, sent, timeout=5), sent, open_to_all=root)


@pytest.mark.parametrize("header", HEADERS, ids=lambda header: header[:40].decode("latin-1"))
def test_an_odd_header_is_answered_in_json(port, header):
    for method, body in (("GET", b""), ("POST", b'{"title": "x"}'), ("POST", b"\x1f\x8b")):
        sent = request(method, b"/api/tasks", header, body=body)
        hold(send(port, sent, timeout=5), sent)
