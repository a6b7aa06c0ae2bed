"""The web server as the Procfile starts it, talked to by raw sockets."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from server import (
    ALICE,
    CHUNKED,
    PROJECT,
    RATE,
    TASK,
    Answer,
    children,
    environment,
    get,
    post,
    send,
    serving,
    wait_until,
    web_line,
)

from request_worker.gunicorn_worker import MAX_DRAIN, MAX_PENDING, MAX_UNSENT, Worker


@pytest.fixture(scope="module")
def server(database_url):
    """Yield a server of two processes with four threads each."""
    with serving(database_url, WEB_CONCURRENCY="2", WEB_THREADS="4") as server:
        yield server


@pytest.fixture
def port(server):
    return server.port


def test_a_request_is_answered_as_everywhere(port, connection):
    created = send(port, post(TASK, f"Content-Length: {len(TASK)}\r\n"))
    assert created.status == 201
    assert json.loads(get(port).body)["data"] == [json.loads(created.body)]
    chunks = b"1d\r\n" + TASK + b"\r\n0\r\n\r\n"
    assert send(port, post(chunks, "Transfer-Encoding: chunked\r\n")).status == 201
    assert connection.execute("SELECT count(*) FROM tasks").fetchone()["count"] == 2


def head(*lines, path="/api/tasks", version="HTTP/1.1"):
    return "\r\n".join([f"GET {path} {version}", "Host: x", *lines, "", ""]).encode("latin-1")


MALFORMED = {
    "no request line": b"\r\n\r\n\r\n",
    "garbage": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "one word": b"GET\r\n\r\n",
    "no version": b"GET /api/tasks\r\nHost: x\r\n\r\n",
    "three spaces": b"GET  /api/tasks  HTTP/1.1\r\n\r\n",
    "HTTP/9": head(version="HTTP/9"),
    "HTTP/0.9": head(version="HTTP/0.9"),
    "HTTP/3.0": head(version="HTTP/3.0"),
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "bad method": b"G(T /api/tasks HTTP/1.1\r\nHost: x\r\n\r\n",
    "lower-case method": b"get /api/tasks HTTP/1.1\r\nHost: x\r\n\r\n",
    "long method": b"A" * 100 + b" / HTTP/1.1\r\nHost: x\r\n\r\n",
    "long line": head(path="/" + "x" * 9000),
    "raw UTF-8 in the path": "GET /é HTTP/1.1\r\nHost: x\r\n\r\n".encode(),
    "raw NUL in the path": b"GET /\0 HTTP/1.1\r\nHost: x\r\n\r\n",
    "authority form": b"CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n",
    "asterisk form": b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
    "absolute form": b"GET http://evil.example/api/tasks HTTP/1.1\r\nHost: x\r\n\r\n",
    "bad absolute form": b"GET http://[x HTTP/1.1\r\nHost: x\r\n\r\n",
    "header without colon": head("nonsense"),
    "header without name": head(": x"),
    "space before the colon": head("X-A : b"),
    "bad name": head("X(A: b"),
    "NUL in a header": head("X-A: a\0b"),
    "bare CR in a header": head("X-A: a\rb"),
    "folded header": head("X-A: a", " b"),
    "long header": head("X-A: " + "x" * 9000),
    "many headers": head(*(f"X-{n}: a" for n in range(200))),
    "unknown expectation": head("Expect: the worst"),
    "conflicting schemes": head("X-Forwarded-Proto: https", "X-Forwarded-Ssl: off"),
    "CL and TE": head("Content-Length: 5", "Transfer-Encoding: chunked") + b"0\r\n\r\n",
    "two lengths": head("Content-Length: 5", "Content-Length: 6") + b"12345",
    "two equal lengths": head("Content-Length: 5", "Content-Length: 5") + b"12345",
    "a list of lengths": head("Content-Length: 5, 5") + b"12345",
    "negative length": head("Content-Length: -1"),
    "signed length": head("Content-Length: +5") + b"12345",
    "length in words": head("Content-Length: five"),
    "Arabic length": head("Content-Length: \xd9\xa5"),
    "unknown coding": head("Transfer-Encoding: rot13"),
    "chunked twice": head("Transfer-Encoding: chunked, chunked") + b"0\r\n\r\n",
    "chunked not last": head("Transfer-Encoding: chunked, gzip") + b"0\r\n\r\n",
    "disguised coding": head("Transfer-Encoding: xchunked") + b"0\r\n\r\n",
    "coding in HTTP/1.0": head("Transfer-Encoding: chunked", version="HTTP/1.0") + b"0\r\n\r\n",
    "half a head": b"GET /api/tasks HTTP/1.1\r\nHost:",
    "nothing": b"",
}  # fmt: skip
BAD_BODIES = {
    "bad chunk size": (b"zz\r\n" + TASK + b"\r\n0\r\n\r\n", CHUNKED),
    "negative chunk size": (b"-1\r\n" + TASK + b"\r\n0\r\n\r\n", CHUNKED),
    "huge chunk size": (b"f" * 40 + b"\r\n" + TASK, CHUNKED),
    "chunk longer than announced": (b"5\r\n" + TASK + b"\r\n0\r\n\r\n", CHUNKED),
    "chunk never ended": (b"1d\r\n" + TASK, CHUNKED),
    "no last chunk": (b"1d\r\n" + TASK + b"\r\n", CHUNKED),
    "no size at all": (TASK, CHUNKED),
    "nothing after the head": (b"", CHUNKED),
    "shorter than announced": (TASK, f"Content-Length: {len(TASK) + 50}\r\n"),
    "nothing of what was announced": (b"", "Content-Length: 50\r\n"),
}
REQUESTS = {**MALFORMED, **{name: post(*bad) for name, bad in BAD_BODIES.items()}}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_malformed_request_gets_json_or_nothing(port, connection, name):
    answer = send(port, REQUESTS[name], finish=True)
    assert connection.execute("SELECT count(*) FROM tasks").fetchone()["count"] == 0
    if answer.status is None:
        return
    assert 400 <= answer.status < 500
    assert answer.headers["content-type"] == "application/json"
    assert all(answer.headers[header].isdigit() for header in RATE)
    body = json.loads(answer.body)
    assert body["status"] == answer.status
    assert body["message"]
    assert "traceback" not in body["message"].lower()
    if answer.status == 401:
        assert answer.headers["www-authenticate"] == "bearer"


@pytest.mark.parametrize("name", ["bad chunk size", "shorter than announced", "no last chunk"])
def test_a_broken_body_is_400(port, name):
    answer = send(port, REQUESTS[name], finish=True)
    assert answer.status == 400
    assert "requestId" in json.loads(answer.body)


@pytest.mark.parametrize(
    ("name", "status"),
    [("long line", 414), ("long header", 431), ("garbage", 400), ("bad name", 400)],
)
def test_an_error_of_the_web_server_has_the_form_of_all_errors(port, name, status):
    answer = send(port, REQUESTS[name])
    assert answer.status == status
    body = json.loads(answer.body)
    assert set(body) >= {"message", "status", "requestId"}
    assert body["requestId"] == answer.headers["x-request-id"]
    assert answer.headers["connection"] == "close"


def test_a_request_smuggled_in_a_body_is_not_run(port, connection):
    inner = post(TASK, f"Content-Length: {len(TASK)}\r\n")
    outer = f"GET /api/tasks HTTP/1.1\r\n{ALICE}"
    for lines in (
        f"Content-Length: {len(inner) + 5}\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Content-Length: 0\r\nContent-Length: 5\r\n",
    ):
        send(port, outer.encode() + lines.encode() + b"\r\n0\r\n\r\n" + inner, finish=True)
        assert connection.execute("SELECT count(*) FROM tasks").fetchone()["count"] == 0


@pytest.mark.parametrize("announced", [True, False])
def test_a_large_body_is_413(port, connection, announced):
    content = TASK + b" " * 2_000_000
    if announced:
        request = post(content, f"Content-Length: {len(content)}\r\n")
    else:
        request = post(b"%x\r\n%s\r\n0\r\n\r\n" % (len(content), content), CHUNKED)
    answer = send(port, request)
    assert answer.status in (413, None)
    assert connection.execute("SELECT count(*) FROM tasks").fetchone()["count"] == 0


def test_a_client_that_announces_a_large_body_reads_413_before_it_sends_the_body(port):
    answer = send(port, post(b"", "Content-Length: 2000000\r\n"))
    assert answer.status == 413
    assert json.loads(answer.body)["status"] == 413


def test_one_connection_takes_many_requests(port):
    request = f"GET /api/tasks HTTP/1.1\r\n{ALICE}\r\n".encode()
    with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
        for _ in range(5):
            client.sendall(request)
            raw = b""
            while b'"nextCursor"' not in raw:
                more = client.recv(65536)
                assert more
                raw += more
            assert Answer(raw).status == 200


def test_two_workers_admit_exactly_the_limit(port, connection):
    connection.execute("UPDATE workspaces SET plan = 'Starter'")
    with ThreadPoolExecutor(8) as people:
        found = list(people.map(lambda _: get(port), range(160)))
    assert [answer.status for answer in found].count(200) == 60
    assert [answer.status for answer in found].count(429) == 100
    left = [
        int(answer.headers["x-ratelimit-remaining"]) for answer in found if answer.status == 200
    ]
    assert sorted(left) == list(range(60))


def test_half_open_clients_do_not_stop_the_others(port):
    """Of 16 clients, twice the number of threads, half stop in the head and half in the body."""
    halves = [
        b"GET /api/tasks HTTP/1.1\r\nHost: x\r\nX-A",
        post(b'{"ti', "Content-Length: 29\r\n"),
    ] * 8
    clients = [socket.create_connection(("127.0.0.1", port)) for _ in halves]
    try:
        for client, half in zip(clients, halves, strict=True):
            client.sendall(half)
        start = time.monotonic()
        with ThreadPoolExecutor(4) as people:
            found = list(people.map(lambda _: get(port, timeout=20), range(4)))
        waited = time.monotonic() - start
    finally:
        for client in clients:
            client.close()
    assert [answer.status for answer in found] == [200] * 4
    assert json.loads(found[0].body)["data"] == []
    assert waited < 2


def test_killed_workers_are_replaced(server):
    killed = set(children(server.pid))
    assert len(killed) == 2
    for worker in killed:
        os.kill(worker, signal.SIGKILL)
    wait_until(lambda: len(set(children(server.pid)) - killed) == 2)
    assert not killed & set(children(server.pid))
    assert get(server.port).status == 200


@contextmanager
def stopping(database_url, connection, cast):
    """A server that is stopping while a request of it waits for a lock, until the block ends."""
    sql = "INSERT INTO tasks (workspace_id, title, created_by) VALUES (%s, 'x', %s) RETURNING id"
    task = connection.execute(sql, [cast["acme"], cast["alice"]]).fetchone()["id"]
    change = b'{"title": "Done in time"}'
    request = (
        f"PATCH /api/tasks/{task} HTTP/1.1\r\n{ALICE}"
        f"Connection: close\r\nContent-Length: {len(change)}\r\n\r\n"
    ).encode() + change
    with (
        serving(database_url, WEB_CONCURRENCY="1", stderr=subprocess.PIPE) as server,
        ThreadPoolExecutor(1) as people,
    ):
        with connection.transaction():
            connection.execute("SELECT FROM tasks FOR UPDATE")
            server.waiting = people.submit(send, server.port, request)
            wait_until(lambda: blocked(connection))
            server.send_signal(signal.SIGTERM)
            while b"Worker exiting" not in (line := server.stderr.readline()):
                if b"Handling signal: term" in line:
                    break
                assert line
            yield server
        server.waiting.result(timeout=5)


def test_a_server_that_stops_refuses_new_clients_and_finishes_the_request_in_flight(
    database_url, connection, cast
):
    with stopping(database_url, connection, cast) as server:
        # The server may still respond to the last client that it accepted, and leaves none hanging.
        wait_until(lambda: refuses(server.port))
        assert server.poll() is None
        assert not server.waiting.done()
    answer = server.waiting.result()
    assert answer.status == 200
    assert json.loads(answer.body)["title"] == "Done in time"
    assert server.wait(10) == 0
    assert connection.execute("SELECT title FROM tasks").fetchone()["title"] == "Done in time"


def blocked(connection):
    return connection.execute(
        "SELECT FROM pg_stat_activity WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid))"
    ).fetchall()


def refuses(port):
    """Return whether a new client is rejected at once."""
    try:
        get(port, timeout=1)
    except ConnectionRefusedError:
        return True
    except (TimeoutError, ConnectionResetError):
        # A client that connects while the listener is closed gets RST.
        return False
    return False


def test_without_epoll_the_threads_of_gunicorn_serve(database_url, connection, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import select\ndel select.epoll\n")
    paths = os.pathsep.join([str(tmp_path), str(PROJECT)])
    with serving(
        database_url, PYTHONPATH=paths, WEB_CONCURRENCY="1", stderr=subprocess.PIPE
    ) as server:
        started = [server.stderr.readline() for _ in range(3)]
        assert any(b"gthread" in line for line in started), started
        assert get(server.port).status == 200
        created = send(server.port, post(TASK, f"Content-Length: {len(TASK)}\r\n"))
        assert created.status == 201
        chunks = b"1d\r\n" + TASK + b"\r\n0\r\n\r\n"
        assert send(server.port, post(chunks, CHUNKED)).status == 201
    assert connection.execute("SELECT count(*) FROM tasks").fetchone()["count"] == 2


@pytest.mark.nodatabase
@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "DATABASE_URL is not set"),
        ({"DATABASE_URL": ""}, "DATABASE_URL is not set"),
        (
            {"DATABASE_URL": "host=/nowhere", "PORT": "http"},
            "PORT='http': must be an integer from",
        ),
        (
            {"DATABASE_URL": "host=/nowhere", "DATABASE_PREPARE": "maybe"},
            "DATABASE_PREPARE='maybe'",
        ),
    ],
)
def test_a_bad_setting_stops_the_start_and_is_named(settings, told):
    started = subprocess.run(
        web_line(),
        cwd=PROJECT,
        env=environment(**settings),
        capture_output=True,
        text=True,
        timeout=10,
    )
    assert started.returncode != 0
    assert told in started.stderr
    assert "Traceback" not in started.stderr


# What gunicorn reads: file descriptors of the process, settings.
READ = {
    "plain": (4096, {}),
    "IPv6": (4096, {"HOST": "::1", "PORT": "8001"}),
    "few descriptors": (100, {"HOST": "127.0.0.1"}),
    "more threads": (50, {"WEB_THREADS": "40"}),
}
READER = """
import json, os, resource, runpy, service.gunicorn, sys
names = [
    "bind",
    "worker_class",
    "worker_connections",
    "threads",
    "keepalive",
    "graceful_timeout",
    "control_socket_disable",
]
plain, found = dict(os.environ), {}
for case, (descriptors, settings) in json.load(sys.stdin).items():
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, 4096))
    os.environ.clear()
    os.environ.update(plain, **settings)
    read = runpy.run_path(service.gunicorn.CONFIGURATION)
    found[case] = {name: read[name] for name in names}
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def configured():
    """Return what gunicorn reads in each case; one process reads them all."""
    done = subprocess.run(
        [sys.executable, "-c", READER],
        cwd=PROJECT,
        env=environment(DATABASE_URL="host=/nowhere"),
        input=json.dumps(READ).encode(),
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.nodatabase
def test_clients_get_half_of_the_file_descriptors_at_most_500_and_more_than_the_threads(configured):
    found = configured["IPv6"]
    assert found["worker_connections"] == 500
    assert found["bind"] == "[::1]:8001"
    assert found["worker_class"] == "service.gunicorn.service_worker.ServiceWorker"
    # Two services of one user would share one socket for control.
    assert found["control_socket_disable"] is True
    found = configured["few descriptors"]
    assert found["worker_connections"] == 50
    assert found["bind"].startswith("127.0.0.1:")
    assert configured["more threads"]["worker_connections"] == 41


@pytest.mark.nodatabase
def test_the_limits_of_a_web_process_are_those_of_the_pages(configured):
    found = configured["plain"]
    # The limit of a turn, the next look at the clock, and half a second for the response.
    healthz = Worker.TAKE_URGENT + 0.5
    pages = {
        "service/openapi/errors.md": [f"took more than {Worker.READ:g} s"],
        "docs/deployment.md": [
            f"closed after {Worker.READ:g} s",
            f"takes it within {Worker.TAKE:g} s",
            f"`/healthz` overtakes the others, and is answered within {healthz:g} s",
            f"closed {Worker.WRITE:g} s after its last progress",
            f"closes idle connections after {found['keepalive']} s",
            f"waits at most {found['graceful_timeout']} s for requests that run",
            f"do not run yet take at most {MAX_PENDING / 2**20:g} MiB",
            f"clients do not read {MAX_UNSENT / 2**20:g} MiB",
            f"at most {Worker.LINGER:g} s and {MAX_DRAIN / 2**20:g} MiB",
        ],
    }
    for page, sentences in pages.items():
        text = " ".join((PROJECT / page).read_text(encoding="utf-8").split())
        assert [sentence for sentence in sentences if sentence not in text] == [], page
