"""The HTTP server of the speedups as the Procfile starts it, against slow and hostile clients.

The clients use raw sockets, without a proxy.
"""

import json
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.processes import (
    ALICE,
    CHUNKED,
    RATE,
    TASK,
    connect,
    get,
    post,
    receive,
    resident,
    send,
    serving,
    wait_until,
)


@pytest.fixture(scope="module")
def lone(database_url):
    with serving(database_url, WEB_CONCURRENCY="1", WEB_THREADS="4") as server:
        yield server


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
def test_an_error_of_the_web_server_has_the_same_form_as_all_other_errors(lone, connection, name):
    request, status = REJECTED[name]
    answer = send(lone.port, request, finish=True)
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


def unread(port):
    """Return how many bytes for the server are still in the kernel."""
    total = 0
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, _, queues, *_ = line.split()
        sending, receiving = (int(size, 16) for size in queues.split(":"))
        if remote.endswith(f":{port:04X}"):
            total += sending
        # The queue of a listener counts clients, not bytes.
        elif local.endswith(f":{port:04X}") and not remote.endswith(":0000"):
            total += receiving
    return total


@pytest.mark.slow
@pytest.mark.needs("ps", descriptors=1024)
@pytest.mark.usefixtures("unlimited")
def test_a_flood_of_uploads_takes_bounded_memory_and_leaves_other_clients_connected(lone):
    """The flood sends 150 MB in all. The other client began its request before the flood."""
    title = b'{"title": "Report", "description": "%b"}' % (b"x" * 60_000)
    head = f"POST /api/tasks HTTP/1.1\r\n{ALICE}Content-Length: {len(title)}\r\n\r\n".encode()
    flood = f"POST /api/tasks HTTP/1.1\r\n{ALICE}Content-Length: 1000000\r\n\r\n".encode()
    get(lone.port)
    before = resident(lone)
    with connect(lone.port) as other, ExitStack() as stack:
        other.sendall(head + title[:50_000])
        reset = 0
        for _ in range(160):
            client = stack.enter_context(socket.socket())
            client.bind(("127.0.0.2", 0))
            client.connect(("127.0.0.1", lone.port))
            try:
                client.sendall(flood + b" " * 950_000)
            except OSError:
                reset += 1
        wait_until(lambda: unread(lone.port) == 0)
        assert resident(lone) < before + 100
        other.sendall(title[50_000:])
        assert other.recv(12) == b"HTTP/1.1 201"
    assert get(lone.port).status == 200


@pytest.mark.parametrize("options", ["Upgrade", "keep-alive, Upgrade"])
def test_a_client_that_offers_websocket_gets_an_ordinary_response(lone, options):
    upgrade = f"Upgrade: websocket\r\nConnection: {options}\r\n"
    answer = send(lone.port, f"GET /api/tasks HTTP/1.1\r\n{ALICE}{upgrade}\r\n".encode())
    assert answer.status == 200


@pytest.mark.slow
def test_a_stopping_server_answers_half_a_request_and_logs_no_part_of_it(database_url, tmp_path):
    log = tmp_path / "stderr"
    half = b"GET /api/tasks?token=hush HTTP/1.1\r\nHost: x\r\n"
    with (
        log.open("wb") as stderr,
        serving(database_url, stderr=stderr, WEB_CONCURRENCY="1") as server,
        connect(server.port) as client,
        connect(server.port) as idle,
    ):
        client.sendall(half)
        idle.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert receive(idle).status == 200
        server.terminate()
        assert receive(client).status == 408
        assert server.wait(60) == 0
    assert "hush" not in log.read_text()
