"""The web server as the Procfile starts it, talked to by raw sockets."""

import json
import os
import subprocess
import sys

import pytest
from support.processes import CHUNKED, RATE, TASK, get, post, send, serving, web_line
from support.project import PROJECT, environment

from speedups.http_server.gunicorn_worker import MAX_DRAIN, MAX_PENDING, MAX_UNSENT, Worker


@pytest.fixture(scope="module")
def server(database_url):
    settings = {"WEB_CONCURRENCY": "2", "WEB_THREADS": "4", "MAX_BODY": "1500000"}
    with serving(database_url, **settings) as server:
        yield server


def serves(server, connection):
    """Require that the server creates two tasks, by length and in chunks, and lists the first."""
    created = send(server.port, post(TASK, f"Content-Length: {len(TASK)}\r\n"))
    assert created.status == 201
    assert json.loads(get(server.port).body)["data"] == [json.loads(created.body)]
    chunks = b"1d\r\n" + TASK + b"\r\n0\r\n\r\n"
    assert send(server.port, post(chunks, CHUNKED)).status == 201
    assert connection.execute("SELECT count(*) FROM tasks").fetchone()["count"] == 2


def test_a_request_is_answered_as_everywhere(server, connection):
    serves(server, connection)
    # Of a body that is too large the head is enough.
    for size, body, status in (1_400_000, TASK.ljust(1_400_000), 201), (1_600_000, b"", 413):
        request = post(body, f"Content-Length: {size}\r\n")
        assert send(server.port, request).status == status


def head(line):
    return f"GET /api/tasks HTTP/1.1\r\nHost: x\r\n{line}\r\n\r\n".encode()


REJECTED = {
    "garbage": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
    "bad name": (head("X(A: b"), 400),
    "long line": (head("").replace(b"tasks", b"x" * 9000), 414),
    "long header": (head("X-A: " + "x" * 9000), 431),
    "unknown expectation": (head("Expect: the worst"), 417),
    "authority form": (b"CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n", 405),
    "bad chunk size": (post(b"zz\r\n" + TASK + b"\r\n0\r\n\r\n", CHUNKED), 400),
    "no last chunk": (post(b"1d\r\n" + TASK + b"\r\n", CHUNKED), 400),
    "shorter than announced": (post(TASK, f"Content-Length: {len(TASK) + 50}\r\n"), 400),
    "half a head": (b"GET /api/tasks HTTP/1.1\r\nHost:", None),
}


@pytest.mark.parametrize("name", REJECTED)
def test_an_error_of_the_web_server_has_the_form_of_all_errors(server, connection, name):
    request, status = REJECTED[name]
    answer = send(server.port, request, finish=True)
    assert answer.status == status
    assert connection.execute("SELECT count(*) FROM tasks").fetchone()["count"] == 0
    if status is None:
        return
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["connection"] == "close"
    assert all(answer.headers[header].isdigit() for header in RATE)
    body = json.loads(answer.body)
    assert set(body) == {"message", "status", "requestId"}
    assert body["message"]
    assert body["status"] == status
    assert len(body["requestId"]) == len(answer.headers["x-request-id"]) == 16


def test_without_epoll_the_threads_of_gunicorn_serve(database_url, connection, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import select\ndel select.epoll\n")
    paths = os.pathsep.join([str(tmp_path), str(PROJECT)])
    with serving(
        database_url, PYTHONPATH=paths, WEB_CONCURRENCY="1", stderr=subprocess.PIPE
    ) as server:
        started = [server.stderr.readline() for _ in range(3)]
        assert any(b"gthread" in line for line in started), started
        serves(server, connection)


@pytest.mark.nodatabase
def test_a_bad_setting_stops_the_start_and_is_named():
    for settings, told in (
        ({"DATABASE_URL": ""}, "DATABASE_URL is not set"),
        ({"DATABASE_URL": "host=/nowhere", "PORT": "http"}, "PORT='http': must be an integer from"),
    ):
        variables = environment(**settings)
        started = subprocess.run(
            web_line(), cwd=PROJECT, env=variables, capture_output=True, text=True
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
@pytest.mark.needs(descriptors=4096)
def test_clients_get_half_of_the_file_descriptors_at_most_500_and_more_than_the_threads(configured):
    found = configured["IPv6"]
    assert found["worker_connections"] == 500
    assert found["bind"] == "[::1]:8001"
    assert found["worker_class"] == "speedups.server.Server"
    # Two services of one user would share one socket for control.
    assert found["control_socket_disable"] is True
    found = configured["few descriptors"]
    assert found["worker_connections"] == 50
    assert found["bind"].startswith("127.0.0.1:")
    assert configured["more threads"]["worker_connections"] == 41


@pytest.mark.nodatabase
@pytest.mark.needs(descriptors=4096)
def test_the_limits_of_a_web_process_are_those_of_the_pages(configured):
    found = configured["plain"]
    # The limit of a slot, the next look at the clock, and half a second for the response.
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
