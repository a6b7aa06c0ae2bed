"""The web server as the Procfile starts it, with the speedups and without.

The clients use raw sockets.
"""

import json
import os
import subprocess

import pytest
from support.processes import ALICE, CHUNKED, TASK, get, post, send, serving
from support.project import PROJECT
from support.rows import SESSION, TOKENS, UNKNOWN

pytestmark = pytest.mark.slow

# Each test runs on the HTTP server of the speedups, and on gunicorn's gthread.
BOTH = [pytest.param("on", marks=pytest.mark.speedups), "off"]


@pytest.fixture(scope="module", params=BOTH)
def server(request, database_url):
    settings = {"WEB_CONCURRENCY": "2", "WEB_THREADS": "4", "MAX_BODY": "1500000"}
    with serving(database_url, SPEEDUPS=request.param, **settings) as server:
        yield server


def serves(server, connection):
    """Check that the server creates a task, lists it, and creates one from a chunked body."""
    created = send(server.port, post(TASK, f"Content-Length: {len(TASK)}\r\n"))
    assert created.status == 201
    assert json.loads(get(server.port).body)["data"] == [json.loads(created.body)]
    chunks = b"1d\r\n" + TASK + b"\r\n0\r\n\r\n"
    assert send(server.port, post(chunks, CHUNKED)).status == 201
    assert connection.execute("SELECT count(*) FROM tasks").fetchone()["count"] == 2


def test_both_servers_create_and_list_tasks_and_reject_a_body_that_is_too_large(server, connection):
    serves(server, connection)
    # To reject a body that is too large, the server needs only the head.
    for size, body, status in (1_400_000, TASK.ljust(1_400_000), 201), (1_600_000, b"", 413):
        request = post(body, f"Content-Length: {size}\r\n")
        response = send(server.port, request)
        assert response.status == status
    assert "at most 1500000 bytes" in json.loads(response.body)["message"]


# By name: a body that does not match its head, a line of the head, and how the message begins.
CUT_OFF = {
    "bad chunk size": (
        b"zz\r\n" + TASK + b"\r\n0\r\n\r\n",
        CHUNKED,
        "The body could not be read: ",
    ),
    "no last chunk": (b"1d\r\n" + TASK + b"\r\n", CHUNKED, "The body "),
    "shorter than announced": (
        TASK,
        f"Content-Length: {len(TASK) + 50}\r\n",
        "The body is incomplete",
    ),
}


@pytest.mark.parametrize("name", CUT_OFF)
def test_a_body_that_does_not_arrive_whole_gets_400_and_creates_nothing(server, connection, name):
    body, header, message = CUT_OFF[name]
    answer = send(server.port, post(body, header), finish=True)
    assert answer.status == 400
    assert json.loads(answer.body)["message"].startswith(message)
    assert connection.execute("SELECT count(*) FROM tasks").fetchone()["count"] == 0


TRUST = [
    ("SCRIPT_NAME: /x",),
    ("SCRIPT_NAME: /api",),
    ("Script-Name: /api",),
    ("PATH_INFO: /api/meetings",),
    ("REMOTE_USER: alice", "REMOTE_ADDR: 10.0.0.1"),
    ("X-Forwarded-Proto: https", "X-Forwarded-Ssl: off"),
    ("X-Forwarded-Protocol: ssl",),
    ("X-Forwarded-For: 10.0.0.1", "X_Forwarded_For: 10.0.0.2"),
    ("Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAMAAABk"),
]


@pytest.mark.parametrize("lines", TRUST, ids=", ".join)
def test_the_path_and_method_alone_choose_the_view_of_a_request_whatever_its_headers_say(
    server, lines
):
    headers = "".join(f"{line}\r\n" for line in lines)
    for path in ("/api/tasks", "/healthz", "/api/nothing", "/x/api/tasks"):
        plain = get(server.port, path)
        answer = send(server.port, f"GET {path} HTTP/1.1\r\n{ALICE}{headers}\r\n".encode())
        assert answer.status == plain.status
        if plain.status == 200:
            assert answer.body == plain.body


BEARER = f"Authorization: Bearer {TOKENS['alice']}"
JSON = "Content-Type: application/json"
# By field: the lines, the status, and what the response contains. gunicorn itself rejects two lines
# of Content-Type or Content-Length.
TWICE = {
    "Authorization": (["Authorization: Bearer x"], 401, "send an API token as 'Authorization"),
    "Idempotency-Key": (["Idempotency-Key: a"] * 2, 400, "Idempotency-Key: must have"),
    "Content-Type": ([JSON] * 2, 400, "content-type"),
    "Content-Type with a parameter": ([f"{JSON}; charset=utf-8"] * 2, 400, "content-type"),
    "two Content-Types": ([JSON, "Content-Type: text/plain"], 400, "content-type"),
    "Workspace-Id": ([f"Workspace-Id: {UNKNOWN}"] * 2, 400, "Workspace-Id: must be an id"),
    "Content-Length": ([f"Content-Length: {len(TASK)}"], 400, ""),
    "Content-Encoding": (["Content-Encoding: identity", "Content-Encoding: gzip"], 415, "gzip"),
    "X-Request-Id": (["X-Request-Id: a", "X-Request-Id: b"], 201, ""),
    "X-Forwarded-For": (["X-Forwarded-For: 10.0.0.1", "X-Forwarded-For: 10.0.0.2"], 201, ""),
    "Origin": (["Origin: http://x", "Origin: http://x"], 201, ""),
    "If-None-Match": (["If-None-Match: *", 'If-None-Match: "1"'], 201, ""),
}


@pytest.mark.parametrize("field", TWICE)
def test_a_field_that_is_no_list_gets_a_clear_error_if_it_occurs_twice(server, connection, field):
    lines, status, told = TWICE[field]
    lines = [BEARER, *lines, f"Content-Length: {len(TASK)}"]
    answer = send(server.port, request_of("POST", "/api/tasks", *lines) + TASK)
    assert answer.status == status
    assert told.lower() in answer.body.decode().lower()
    assert ", " not in answer.headers.get("x-request-id", "")
    created = connection.execute("SELECT count(*) FROM tasks").fetchone()["count"]
    assert created == (status == 201)


def request_of(method, path, *lines):
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", *lines, "", ""]).encode()


def test_a_field_that_is_a_list_may_have_several_lines(server, connection):
    created = send(server.port, post(TASK, f"Content-Length: {len(TASK)}\r\n"))
    path = f"/api/tasks/{json.loads(created.body)['id']}"
    for name, values, status in (
        ("If-None-Match", ['"7"', '"1"'], 304),
        ("If-None-Match", ['"7"', '"8"'], 200),
        ("If-Match", ['"7"', '"1"'], 200),
        ("If-Match", ['"7"', '"8"'], 412),
    ):
        lines = [f"{name}: {value}" for value in values]
        answer = send(server.port, request_of("GET", path, BEARER, "Connection: close", *lines))
        assert answer.status == status, lines


@pytest.mark.usefixtures("browser")
def test_two_lines_of_cookies_are_one_list_and_two_origins_are_a_foreign_origin(server):
    session = f"Cookie: session={SESSION}"
    for lines in (["Cookie: a=b", session], [session, "Cookie: a=b"]):
        assert send(server.port, request_of("GET", "/api/me", *lines)).status == 200
    origins, length = ["Origin: http://x"] * 2, f"Content-Length: {len(TASK)}"
    for given, status in ((origins, 403), (origins[:1], 201)):
        lines = [session, *given, JSON, length]
        assert send(server.port, request_of("POST", "/api/tasks", *lines) + TASK).status == status


def test_a_url_that_is_not_percent_encoded_gets_400_that_says_so(server):
    """gunicorn's own error shows the malformed line."""
    for query in (b"q=caf\xe9", b"q=caf\xc3\xa9", b"q=caf%E9"):
        request = request_of("GET", "/api/tasks?Q", BEARER).replace(b"Q", query)
        answer = send(server.port, request)
        assert answer.status == 400
        assert b"percent-encode" in answer.body or b"Invalid Request Line" in answer.body


SECRET = "tmw_api_hush0123456789"
LEAKY = {
    "header name": f"GET / HTTP/1.1\r\nAuthorization Bearer {SECRET}: x\r\n\r\n",
    "header line": f"GET / HTTP/1.1\r\nAuthorization{SECRET}\r\n\r\n",
    "header value": f"GET / HTTP/1.1\r\nAuthorization: {SECRET}\0\r\n\r\n",
    "folded header": f"GET / HTTP/1.1\r\n{SECRET}: x\r\n y\r\n\r\n",
    "query": f"GET /api/tasks?token={SECRET} HTTP/7.0\r\n\r\n",
    "query of three words": f"GET /api/tasks?token= {SECRET} HTTP/1.1\r\n\r\n",
    "query in a stray encoding": f"GET /api/tasks?token={SECRET}\xe9 HTTP/1.1\r\n\r\n",
    "version": f"GET / {SECRET}\r\n\r\n",
    "method": f"{SECRET} / HTTP/1.1\r\n\r\n",
    "expectation": f"GET / HTTP/1.1\r\nExpect: {SECRET}\r\n\r\n",
    "transfer coding": f"POST / HTTP/1.1\r\nTransfer-Encoding: {SECRET}\r\n\r\n",
    "script name": f"GET /api/tasks?token={SECRET} HTTP/1.1\r\nSCRIPT_NAME: /x\r\n\r\n",
    "chunk size": f"POST /api/tasks HTTP/1.1\r\n{ALICE}{CHUNKED}\r\n{SECRET}\r\n\r\n",
    "chunk after the answer": f"GET /api/tasks HTTP/1.1\r\n{ALICE}{CHUNKED}\r\n{SECRET}\r\n\r\n",
    "half a chunk": f"POST /api/tasks HTTP/1.1\r\n{ALICE}{CHUNKED}\r\nff\r\n{SECRET}",
    "half a head": f"GET /api/tasks?token={SECRET} HTTP/1.1\r\nAuthorization: {SECRET}",
    "long line": f"GET /api/tasks?token={SECRET}{'x' * 9000} HTTP/1.1\r\n\r\n",
    "long head": f"GET / HTTP/1.1\r\nAuthorization: {SECRET}{'x' * 70_000}",
}


@pytest.mark.parametrize("speedups", BOTH)
def test_the_log_shows_no_part_of_a_malformed_request(database_url, tmp_path, speedups):
    log = tmp_path / "stderr"
    with (
        log.open("wb") as stderr,
        serving(database_url, stderr=stderr, WEB_CONCURRENCY="1", SPEEDUPS=speedups) as server,
    ):
        for request in LEAKY.values():
            send(server.port, request.encode("latin-1"), finish=True)
        server.terminate()
        assert server.wait(60) == 0
    shown = log.read_text()
    assert SECRET.lower() not in shown.lower()
    assert "hush" not in shown
    # gunicorn logs its own lines in the format of the service.
    messages = [json.loads(line).get("message") or "" for line in shown.splitlines()]
    assert len([text for text in messages if "request from ip=127.0.0.1" in text]) > 10
    assert any(message.startswith("Listening at") for message in messages)
    # This server was started with PORT and without HOST.
    assert any("to serve others, set HOST=0.0.0.0" in message for message in messages)
    for event in ("starts", "stops"):
        lines = [message for message in messages if f" {event}: process " in message]
        assert len(lines) == 1, event
    assert "Traceback" not in shown


def test_on_a_platform_without_epoll_gunicorn_s_gthread_serves(database_url, connection, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import select\ndel select.epoll\n")
    paths = os.pathsep.join([str(tmp_path), str(PROJECT)])
    with serving(
        database_url, PYTHONPATH=paths, WEB_CONCURRENCY="1", stderr=subprocess.PIPE
    ) as server:
        started = [server.stderr.readline() for _ in range(3)]
        assert any(b"gthread" in line for line in started), started
        serves(server, connection)
