"""The web server against slow and hostile clients, talked to by raw sockets without a proxy."""

import json
import re
import socket
import subprocess
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from server import (
    ALICE,
    CHUNKED,
    TASK,
    Answer,
    connect,
    get,
    post,
    receive,
    receive_all,
    resident,
    send,
    serving,
)

from request_worker.gunicorn_worker import MAX_DRAIN
from request_worker.request_reader import HEAD

CROWD = 48
GET = f"GET /api/tasks HTTP/1.1\r\n{ALICE}\r\n".encode()
DOCUMENT = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"
STRANGER = "POST /api/tasks HTTP/1.1\r\nHost: x\r\n"


@pytest.fixture
def port(lone):
    return lone.port


@contextmanager
def crowd(port, first, *, drip=b"", size=CROWD, buffer=None):
    """Clients that send ``first``, then ``drip`` again and again, and never read nor close."""
    done = threading.Event()

    def keep_dripping():
        while not done.wait(0.05):
            for client in clients:
                try:
                    client.send(drip, socket.MSG_DONTWAIT)
                except OSError:
                    continue

    with ExitStack() as stack:
        clients = [stack.enter_context(connect(port, buffer=buffer)) for _ in range(size)]
        for client in clients:
            client.sendall(first)
        dripping = threading.Thread(target=keep_dripping)
        if drip:
            dripping.start()
            stack.callback(dripping.join)
        stack.callback(done.set)
        yield clients


SLOW = {
    "sends nothing": (b"", b""),
    "sends its head by the byte": (b"GET /api/tasks HTTP/1.1\r\nX: ", b"x"),
    "sends a small body by the byte": (post(b"", "Content-Length: 60000\r\n"), b" "),
    "sends a large body by the byte": (f"{STRANGER}Content-Length: 600000\r\n\r\n".encode(), b" "),
    "sends a chunked body by the byte": (f"{STRANGER}{CHUNKED}\r\n1\r\n".encode(), b"1\r\n"),
    "waits for 100 Continue": (
        f"{STRANGER}Content-Length: 60000\r\nExpect: 100-continue\r\n\r\n".encode(),
        b" ",
    ),
    "does not close": (b"GET /api/tasks HTTP/1.0\r\n\r\n", b""),
    "does not close, and sends more": (b"GET /api/tasks HTTP/1.0\r\n\r\n", b"x"),
    "does not read": (DOCUMENT * 20, b""),
    "begins another request": (GET + b"GET ", b"x"),
}


@pytest.mark.usefixtures("unlimited")
@pytest.mark.parametrize("way", SLOW)
def test_a_slow_client_delays_no_other_client(port, way):
    first, drip = SLOW[way]
    with crowd(port, first, drip=drip, buffer=2048 if way == "does not read" else None):
        waited = []
        for _ in range(40):
            start = time.monotonic()
            assert get(port, timeout=20).status == 200
            waited.append(time.monotonic() - start)
    assert sorted(waited)[37] < 0.5


def test_with_more_connections_than_a_worker_keeps_it_drops_the_oldest(lone):
    with crowd(lone.port, GET[:-2], size=600) as clients:
        assert get(lone.port, timeout=2).status == 200
        assert clients[0].recv(1) == b""
        clients[-1].sendall(b"\r\n")
        assert receive(clients[-1]).status == 200
    with crowd(lone.port, GET, size=600) as clients:
        # The server first handles the 600 requests.
        assert get(lone.port, timeout=20).status == 200
        assert receive(clients[-1]).status in (200, 429)


def test_a_flood_of_unfinished_requests_takes_little_memory(lone):
    for _ in range(10):
        get(lone.port)
    before = resident(lone)
    head = b"GET /api/tasks HTTP/1.1\r\nX: " + b"x" * 300_000
    body = post(b" " * 60_000, "Content-Length: 65536\r\n")
    for first in (head, body):
        with ExitStack() as stack:
            for _ in range(300):
                client = stack.enter_context(connect(lone.port))
                client.setblocking(False)
                # The client sends what the socket takes at once; the server may reset it.
                with suppress(BlockingIOError, ConnectionResetError, BrokenPipeError):
                    for _ in range(3):
                        client.send(first)
            assert get(lone.port, timeout=5).status == 200
            assert resident(lone) - before < 300 * (HEAD + 2 * 2**16) / 2**20


def test_a_head_that_does_not_end_is_431(port):
    with connect(port) as client:
        client.sendall(b"GET /api/tasks HTTP/1.1\r\nX: " + b"x" * (HEAD + 1000))
        answer = receive(client)
    assert answer.status == 431
    assert set(json.loads(answer.body)) == {"message", "status", "requestId"}


@pytest.mark.parametrize("ending", ["\n\n", "\n"])
def test_a_head_with_other_line_ends_is_400_at_once(port, ending):
    assert send(port, f"GET /api/tasks HTTP/1.1\nHost: x{ending}".encode(), timeout=5).status == 400


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
@pytest.mark.parametrize("path", ["/api/tasks", "/healthz", "/api/nothing", "/x/api/tasks"])
def test_no_header_changes_where_a_request_goes(port, lines, path):
    plain = get(port, path)
    headers = "".join(f"{line}\r\n" for line in lines)
    with connect(port) as client:
        client.sendall(f"GET {path} HTTP/1.1\r\n{ALICE}{headers}\r\n".encode())
        answer = receive(client)
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


@pytest.fixture(scope="module")
def stopped(database_url, tmp_path_factory):
    """A server that got the leaky requests, and was stopped while it had half of another one.

    Return its exit status and its log.
    """
    log = tmp_path_factory.mktemp("stopped") / "stderr"
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
            with suppress(subprocess.TimeoutExpired):
                server.wait(7)
            ended = server.poll()
    return ended, log.read_text()


def test_a_stopping_server_does_not_wait_for_half_a_request(stopped):
    ended, _ = stopped
    assert ended == 0


def test_the_server_s_log_names_the_fault_and_nothing_that_was_sent(stopped):
    _, log = stopped
    assert SECRET.lower() not in log.lower()
    assert "hush" not in log
    # gunicorn's own lines have the format of the service's.
    messages = [json.loads(line).get("message") for line in log.splitlines()]
    assert "Rejected request from ip=127.0.0.1: 400" in messages
    assert any(message and message.startswith("Listening at") for message in messages)
    for event in ("starts", "stops"):
        lines = [message for message in messages if message and f" {event}: process " in message]
        assert len(lines) == 1, event
    assert "Traceback" not in log


@pytest.mark.parametrize("size", [2_000, 500_000, 2_000_000])
@pytest.mark.parametrize("token", [ALICE, "Host: x\r\n"], ids=["alice", "stranger"])
def test_a_client_that_sends_everything_first_can_read_an_early_response(port, size, token):
    head = f"POST /api/nothing HTTP/1.1\r\n{token}Content-Length: {size}\r\n\r\n".encode()
    with connect(port) as client:
        client.sendall(head + b" " * size)
        answer = receive(client)
    assert answer.status == (404 if token == ALICE else 401)
    assert json.loads(answer.body)["status"] == answer.status


@pytest.mark.parametrize("framing", ["Content-Length: 2000000\r\n"])
def test_an_early_response_to_half_a_body_says_that_the_connection_closes(port, framing):
    with connect(port) as client:
        client.sendall(f"{STRANGER}{framing}\r\n".encode())
        answer = receive(client)
    assert answer.status == 401
    assert answer.headers["connection"] == "close"


def test_a_client_that_goes_on_sending_after_an_early_response_is_cut_off(port):
    with connect(port) as client:
        client.sendall(f"{STRANGER}Content-Length: 1000000000\r\n\r\n".encode())
        sent = 0
        with suppress(ConnectionResetError, BrokenPipeError):
            while sent < 20 * MAX_DRAIN:
                sent += client.send(b" " * 65536)
    assert sent < 20 * MAX_DRAIN


def test_a_request_may_come_in_any_pieces(port):
    request = post(TASK, f"Content-Length: {len(TASK)}\r\n")
    with connect(port) as client:
        for number in range(len(request)):
            client.sendall(request[number : number + 1])
        assert receive(client).status == 201


def test_pipelined_requests_are_answered_in_turn(port):
    written = (
        f"POST /api/tasks HTTP/1.1\r\n{ALICE}Content-Length: {len(TASK)}\r\n\r\n".encode() + TASK
    )
    paths = ["/healthz", "/api/tasks", "/api/nothing", "/openapi.json"]
    requests = [f"GET {path} HTTP/1.1\r\n{ALICE}\r\n".encode() for path in paths]
    last = f"GET /api/tasks HTTP/1.1\r\n{ALICE}Connection: close\r\n\r\n".encode()
    chunked = f"POST /api/tasks HTTP/1.1\r\n{ALICE}{CHUNKED}\r\n".encode()
    chunked += b"%x\r\n%b\r\n0\r\n\r\n" % (len(TASK), TASK)
    sent = b"".join([*requests, written, chunked, *requests, last])
    with connect(port) as client:
        client.sendall(sent[:-50])
        client.sendall(sent[-50:])
        raw = receive_all(client)
    assert re.findall(rb"HTTP/1.1 (\d+) ", raw) == (
        [b"200", b"200", b"404", b"200", b"201", b"201", b"200", b"200", b"404", b"200", b"200"]
    )


def test_a_method_that_no_path_has_is_405_whatever_its_name(port):
    for method in ("PUT", "BREW", "PROPFIND", "M-SEARCH"):
        answer = send(port, f"{method} /api/tasks HTTP/1.1\r\n{ALICE}\r\n".encode())
        assert answer.status == 405
        assert set(answer.headers["allow"].split(", ")) == {"get", "head", "post"}


@pytest.mark.parametrize("size", [len(TASK), 200_000])
@pytest.mark.parametrize("framing", ["length", "chunks"])
@pytest.mark.parametrize("expect", ["", "Expect: 100-continue\r\n"], ids=["", "expect"])
def test_a_connection_goes_on_after_a_body(port, size, framing, expect):
    body = TASK.ljust(size)
    if framing == "length":
        framed, header = body, f"Content-Length: {size}\r\n"
    else:
        framed, header = b"%x\r\n%s\r\n0\r\n\r\n" % (size, body), CHUNKED
    with connect(port) as client:
        for _ in range(3):
            client.sendall(f"POST /api/tasks HTTP/1.1\r\n{ALICE}{expect}{header}\r\n".encode())
            if expect:
                assert client.recv(25, socket.MSG_WAITALL) == b"HTTP/1.1 100 Continue\r\n\r\n"
            client.sendall(framed)
            answer = receive(client)
            assert answer.status == 201
            assert answer.headers["connection"] == "keep-alive"


def test_http_1_0_and_head_are_answered(port):
    with connect(port) as client:
        client.sendall(f"HEAD /api/tasks HTTP/1.0\r\n{ALICE}\r\n".encode())
        answer = Answer(receive_all(client))
    assert answer.status == 200
    assert int(answer.headers["content-length"]) > 0
    assert answer.body == b""
    assert answer.headers["connection"] == "close"


def test_a_worker_that_stops_while_a_client_arrives_keeps_its_connections(database_url):
    command = ["gunicorn", "-c", str(Path(__file__).with_name("stopping.py")), "app:app"]
    with (
        serving(database_url, command=command, WEB_CONCURRENCY="1") as server,
        connect(server.port) as client,
    ):
        client.sendall(GET)
        assert receive(client).status == 200
        # The worker stops at a client that arrives while this connection is idle.
        for _ in range(20):
            connect(server.port).close()
            client.sendall(GET)
            response = receive(client)
            assert response.status == 200
            if response.headers.get("connection") == "close":
                return
        raise AssertionError("the worker did not stop")
