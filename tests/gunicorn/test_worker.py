"""The web server against slow and hostile clients, talked to by raw sockets without a proxy."""

import json
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.processes import (
    ALICE,
    CHUNKED,
    connect,
    get,
    receive,
    resident,
    send,
    serving,
    wait_until,
)

from speedups.http_server.request_reader import HEAD

GET = f"GET /api/tasks HTTP/1.1\r\n{ALICE}\r\n".encode()
DOCUMENT = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"
STRANGER = "POST /api/tasks HTTP/1.1\r\nHost: x\r\n"


@pytest.fixture(scope="module")
def lone(database_url):
    with serving(database_url, WEB_CONCURRENCY="1", WEB_THREADS="4") as server:
        yield server


def unread(port):
    """Return how many bytes for the server are still in the kernel."""
    total = 0
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, _, queues, *_ = line.split()
        sending, receiving = (int(size, 16) for size in queues.split(":"))
        if remote.endswith(f":{port:04X}"):
            total += sending
        # The queue of a listener has clients.
        elif local.endswith(f":{port:04X}") and not remote.endswith(":0000"):
            total += receiving
    return total


@pytest.mark.needs("ps", descriptors=1024)
@pytest.mark.usefixtures("unlimited")
def test_a_flood_of_uploads_takes_bounded_memory_and_pushes_out_no_other_client(lone):
    """All that the flood sends would be 150 MB; the other client began before it."""
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


TRUST = [
    ("SCRIPT_NAME: /x",),
    ("SCRIPT_NAME: /api",),
    ("Script-Name: /api",),
    ("PATH_INFO: /api/meetings",),
    ("REMOTE_USER: alice", "REMOTE_ADDR: 10.0.0.1"),
    ("X-Forwarded-Proto: https", "X-Forwarded-Ssl: off"),
    ("X-Forwarded-Protocol: ssl",),
    ("X-Forwarded-For: 10.0.0.1", "X_Forwarded_For: 10.0.0.2"),
    ("Upgrade: websocket", "Connection: Upgrade"),
    ("Upgrade: websocket", "Connection: keep-alive, Upgrade", "Sec-WebSocket-Version: 13"),
    ("Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAMAAABk"),
]


@pytest.mark.parametrize("lines", TRUST, ids=", ".join)
def test_no_header_changes_where_a_request_goes(lone, lines):
    headers = "".join(f"{line}\r\n" for line in lines)
    for path in ("/api/tasks", "/healthz", "/api/nothing", "/x/api/tasks"):
        plain = get(lone.port, path)
        answer = send(lone.port, f"GET {path} HTTP/1.1\r\n{ALICE}{headers}\r\n".encode())
        assert answer.status == plain.status
        if plain.status == 200:
            assert answer.body == plain.body


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
    "long head": f"GET / HTTP/1.1\r\nAuthorization: {SECRET}{'x' * HEAD * 2}",
}


def test_a_stopping_server_answers_a_half_request_and_logs_nothing_of_it(database_url, tmp_path):
    log = tmp_path / "stderr"
    with (
        log.open("wb") as stderr,
        serving(database_url, stderr=stderr, WEB_CONCURRENCY="1") as server,
    ):
        for request in LEAKY.values():
            send(server.port, request.encode("latin-1"), finish=True)
        with connect(server.port) as client, connect(server.port) as idle:
            client.sendall(GET[:-2])
            idle.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert receive(idle).status == 200
            server.terminate()
            assert receive(client).status == 408
            assert server.wait(60) == 0
    shown = log.read_text()
    assert SECRET.lower() not in shown.lower()
    assert "hush" not in shown
    # gunicorn's own lines have the format of the service's.
    messages = [json.loads(line).get("message") or "" for line in shown.splitlines()]
    assert "Rejected request from ip=127.0.0.1: 400" in messages
    assert any(message.startswith("Listening at") for message in messages)
    # This server has PORT and no HOST.
    assert any("HOST=0.0.0.0 serves others too" in message for message in messages)
    for event in ("starts", "stops"):
        lines = [message for message in messages if f" {event}: process " in message]
        assert len(lines) == 1, event
    assert "Traceback" not in shown
