"""Run a worker in this process, with the application of this module."""

import logging
import os
import socket
import threading
import time
from contextlib import ExitStack, suppress

import pytest
from gunicorn.config import Config
from support.processes import wait_until

from service.speedups.http_server import Worker
from service.speedups.http_server import gunicorn_worker as module

MAX_BODY = 100_000
SECRET = "tmw_api_hush"


class Application:
    """Responds as the path asks; requests for /wait last until ``proceed`` is set."""

    def __init__(self):
        self.proceed, self.waiting = threading.Event(), threading.Semaphore(0)
        self.environs, self.bodies = [], []

    def __call__(self, environ, start_response):
        self.environs.append(environ)
        self.bodies.append(environ["wsgi.input"].read())
        name, _, number = environ["PATH_INFO"][1:].partition("/")
        headers = []
        if name == "wait":
            self.waiting.release()
            assert self.proceed.wait(60)
        elif name == "fail":
            raise {"value": ValueError, "os": OSError, "exit": SystemExit}[number](SECRET)
        elif name == "break":
            headers = [("Content-Length", "9")]
        start_response("200 OK", headers)
        return broken_body() if name == "break" else [b"x" * int(number or 2)]


def broken_body():
    yield b"part"
    raise OSError(SECRET)


class Server:
    """A worker that runs in a thread, and its clients."""

    def __init__(self, stack, limits, kind, configuration):
        self.application = Application()
        self.listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        # Closes the sockets of the clients.
        self.stack = stack.enter_context(ExitStack())
        self.address = self.listener.getsockname()
        config = Config()
        for name, value in {"threads": 1, "keepalive": 75, **configuration}.items():
            config.set(name, value)
        log = logging.getLogger("test_states")
        self.worker = kind(0, os.getppid(), [self.listener], None, 30, config, log)
        self.worker.wsgi = self.application
        for name, value in limits.items():
            setattr(self.worker, name, value)
        self.thread = threading.Thread(target=self.worker.run, daemon=True)
        self.thread.start()
        # The worker sets ``seen`` after its threads have started.
        wait_until(lambda: hasattr(self.worker, "seen"))

    def connect(self, *, buffer=None):
        client = self.stack.enter_context(socket.socket())
        if buffer:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        client.settimeout(60)
        client.connect(self.address)
        return client

    def ask(self, path="/", *lines, client=None, body=b"", buffer=None):
        client = client or self.connect(buffer=buffer)
        length = [f"Content-Length: {len(body)}"] if body else []
        head = "\r\n".join([f"GET {path} HTTP/1.1", "Host: x", *lines, *length, "", ""])
        client.sendall(head.encode() + body)
        return client

    def occupy(self):
        """Let a request run until the application may proceed."""
        client = self.ask("/wait")
        assert self.application.waiting.acquire(timeout=60)
        return client

    def wait_for_connections(self, number, state=None):
        wait_until(lambda: len(self.connections(state)) == number)

    def connections(self, state=None):
        found = list(self.worker.connections.values())
        return [conn for conn in found if state is None or conn.state is state]

    def at_rest(self, state):
        """Return whether there are connections in this state, and all have rested for 0.3 s."""
        found = self.connections(state)
        return found and all(conn.since < time.monotonic() - 0.3 for conn in found)

    def wait_for_its_end(self):
        self.thread.join(20)
        assert not self.thread.is_alive(), "the worker has not ended"

    def end(self):
        self.worker.alive = False
        self.application.proceed.set()
        self.wait_for_its_end()


@pytest.fixture
def serve(monkeypatch):
    """Return a function that starts a worker with the given time limits and configuration."""
    monkeypatch.setattr(Worker, "max_body", MAX_BODY)
    monkeypatch.setattr(Worker, "urgent_path", b"/healthz")
    monkeypatch.setattr(module, "TICK", 0.02)
    monkeypatch.setattr(module, "CHECK", 0.2)
    monkeypatch.setattr(module, "STOP_GRACE", 0.2)
    # A test sets the limits that it tries. The others are too long to matter on a slow machine.
    for name in ("READ", "WRITE", "TAKE", "TAKE_URGENT"):
        monkeypatch.setattr(Worker, name, 60)
    servers = []
    with ExitStack() as stack:

        def serve(limits=None, kind=Worker, **configuration):
            servers.append(Server(stack, limits or {}, kind, configuration))
            return servers[-1]

        yield serve
        for server in servers:
            for client in server.connections():
                with suppress(OSError):
                    client.sock.shutdown(socket.SHUT_RDWR)
            server.end()
