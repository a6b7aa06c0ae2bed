"""An error at any call of a worker's threads leaks no connection, descriptor, slot or thread."""

import os
import socket
import struct
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from support.processes import wait_until

from service.speedups.http_server import Worker
from service.speedups.http_server import gunicorn_worker as module
from service.speedups.http_server.client_connections import CLOSED

FILES = {str(path) for path in Path(module.__file__).parent.glob("*.py")}
# Each call raises OSError, as if the client had gone, and one of these errors. SystemExit is not a
# subclass of Exception.
ERRORS = ValueError, SystemExit, MemoryError
# An error in these functions of the main thread ends the worker, and the master starts another.
ENDS = {"run", "is_broken", "stop"}
# In seconds. They differ between states, so that the probe can tell the states apart.
LIMITS = {"READ": 0.06, "WRITE": 0.07, "LINGER": 0.03, "TAKE": 0.04, "TAKE_URGENT": 0.04}
IDLE = 0.05


class Probe:
    """Records each call that a thread of the worker makes, and raises an error at one, once."""

    def __init__(self):
        self.seen, self.target, self.error = {}, None, None

    def __call__(self, frame, event, arg):
        if event == "call":
            called, caller = frame.f_code.co_name, frame.f_back
        elif event == "c_call":
            called, caller = arg.__qualname__, frame
        else:
            return
        if not (caller and caller.f_code.co_filename in FILES):
            return
        if called in ("lock.__enter__", "lock.__exit__"):
            return  # Taking a lock needs no resource that could be missing.
        main = threading.current_thread().name == "main"
        by = caller.f_code.co_name
        if main and (by in ENDS or called in ("sleep", "notify")):
            return
        conn = caller.f_locals.get("conn")
        state = (conn.state.events, conn.state.seconds) if conn else None
        call = (by, caller.f_lineno, called, state, main)
        self.seen.setdefault(call)
        if call == self.target:
            self.target = None
            raise self.error


class ProbedWorker(Worker):
    """A worker whose calls the probe sees.

    Python removes a profile function that raises an error, so each step sets the probe again.
    """

    def step(self):
        sys.setprofile(self.probe)
        super().step()

    def tick(self):
        threading.current_thread().name = "main"
        sys.setprofile(self.probe)
        super().tick()


def plain(server):
    client = server.ask()
    yield client
    client.recv(10_000)
    server.ask("/", "Connection: close", client=client)


def pieces(server):
    client = server.ask("/", "Expect: 100-continue", "Content-Length: 2")
    yield client
    client.recv(25)
    client.sendall(b"a")
    time.sleep(0.01)
    client.sendall(b"b")
    client.shutdown(socket.SHUT_WR)


def chunks(server):
    client = server.ask("/", "Transfer-Encoding: chunked", "Connection: close")
    yield client
    for part in (b"3\r\nab", b"c\r\n0\r\n\r", b"\n"):
        client.sendall(part)
        time.sleep(0.01)


def malformed(server):
    client = server.ask("/", "Host: y")
    yield client


def failing(server):
    yield server.ask("/fail/value")


def incomplete(server):
    client = server.ask("/", "Content-Length: 9")
    yield client
    client.shutdown(socket.SHUT_WR)


def gone(server):
    for half in (b"", b"GET"):
        client = server.connect()
        client.sendall(half)
        time.sleep(0.01)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
    yield server.ask("/", "Connection: close")


def pipelined(server):
    client = server.connect()
    yield client
    client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 3 + b"GET / HTTP/1.0\r\n\r\n")


def unread(server):
    client = server.ask("/large/1000000", "Connection: close", buffer=4096)
    yield client
    time.sleep(0.03)


def never_read(server):
    server.ask("/large/1000000", "Connection: close", buffer=4096)
    time.sleep(0.1)
    yield server.ask("/", "Connection: close")


def late(server):
    yield server.connect()
    client = server.connect()
    client.sendall(b"GET /")
    yield client


def waiting(server):
    yield server.ask("/wait", "Connection: close")
    server.application.waiting.acquire(timeout=0.1)
    yield server.ask("/", "Connection: close")
    time.sleep(0.03)
    server.application.proceed.set()


def busy(server):
    yield server.ask("/wait", "Connection: close")
    server.application.waiting.acquire(timeout=0.1)
    for path in ("/", "/healthz"):
        yield server.ask(path)
    time.sleep(0.06)
    server.application.proceed.set()


def crowd(server):
    for _ in range(8):
        yield server.connect()


def pending(server):
    for _ in range(3):
        client = server.ask("/", "Content-Length: 100000", "Connection: close")
        client.sendall(b"x" * 90_000)
        yield client
        time.sleep(0.01)


DIALOGUES = [
    *(plain, pieces, chunks, malformed, failing, incomplete, gone, pipelined, unread),
    *(never_read, late, waiting, busy, crowd, pending),
]


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def hold(server, dialogue):
    """Play the clients. Then check that the worker keeps nothing of them and still runs."""
    before = descriptors()
    clients = []
    with suppress(OSError):
        clients += dialogue(server)
    for client in clients:
        client.settimeout(60)
        with suppress(ConnectionError):
            while client.recv(2**20):
                pass
    server.application.proceed.set()
    server.stack.pop_all().close()
    wait_until(lambda: not server.worker.connections and server.worker.slots.free == 1)
    wait_until(lambda: descriptors() <= before)
    server.application.proceed.clear()
    while server.application.waiting.acquire(blocking=False):
        pass
    assert all(thread.is_alive() for thread in server.worker.threads)
    assert server.worker.alive


@pytest.mark.proof
def test_an_error_at_any_call_leaks_no_connection_descriptor_slot_or_thread(serve, monkeypatch):
    """Each dialogue raises errors at the calls at which no earlier dialogue has raised one.

    The same call in another state of the connection counts as another call.
    """
    monkeypatch.setattr(module, "MAX_PENDING", 150_000)
    monkeypatch.setattr(CLOSED, "seconds", 0.05)
    raised, tried = set(), 0
    for dialogue in DIALOGUES:
        probe = ProbedWorker.probe = Probe()
        server = serve(LIMITS, kind=ProbedWorker, worker_connections=8)
        server.worker.idle.seconds = IDLE
        for _ in range(2):
            hold(server, dialogue)
        for call in list(probe.seen):
            for error in OSError, ERRORS[tried % 3]:
                kind = call, error is OSError
                if kind in raised or (call[-1] and error is SystemExit):
                    continue  # A signal ends the main thread with SystemExit.
                probe.error, probe.target = error("injected"), call
                hold(server, dialogue)
                tried += 1
                if probe.target is None:
                    raised.add(kind)
                probe.target = None
        server.end()
    assert 4 * len(raised) > 3 * tried
