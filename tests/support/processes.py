"""Start the web server and the worker as the Procfile does, and send requests by raw sockets."""

import http.client
import inspect
import json
import re
import secrets
import shlex
import signal
import socket
import subprocess
import time
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Thread

from support.answers import told, with_name
from support.project import PROJECT, environment, output
from support.receivers import deliveries
from support.rows import TOKENS

RATE = "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"
ALICE = f"Host: x\r\nAuthorization: Bearer {TOKENS['alice']}\r\n"
CHUNKED = "Transfer-Encoding: chunked\r\n"
TASK = b'{"title": "Write the report"}'


def web_line():
    return procfile_line("web")


def procfile_line(name):
    lines = (PROJECT / "Procfile").read_text().splitlines()
    return shlex.split(
        next(line for line in lines if line.startswith(f"{name}:")).partition(":")[2]
    )


@contextmanager
def serving(
    database_url,
    *,
    port=None,
    command=None,
    cwd=PROJECT,
    stderr=subprocess.DEVNULL,
    preexec_fn=None,
    **settings,
):
    """Start a server on this loopback port, or on a free one; yield it, and end it afterwards."""
    port = port or free_port()
    server = subprocess.Popen(
        command or web_line(),
        cwd=cwd,
        env=environment(DATABASE_URL=database_url, PORT=str(port), **settings),
        stderr=stderr,
        preexec_fn=preexec_fn,
    )
    server.port = port
    with ending(server):
        wait_until(lambda: answers(port), server)
        yield server


@contextmanager
def working(database_url, **settings):
    """Start a worker as the Procfile does; yield its process, and end it afterwards."""
    worker = subprocess.Popen(
        procfile_line("worker"),
        cwd=PROJECT,
        env=environment(DATABASE_URL=database_url, **settings),
        stderr=subprocess.DEVNULL,
    )
    with ending(worker):
        yield worker


@contextmanager
def ending(process):
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stderr:
            process.stderr.close()


def connect(port, *, buffer=None, timeout=60):
    """Return a socket connected to the server; ``buffer`` is the size of its receive buffer."""
    client = socket.socket()
    if buffer:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    client.settimeout(timeout)
    client.connect(("127.0.0.1", port))
    return client


def free_port():
    """Return a loopback port that is free, and is likely to stay free until a server takes it.

    The port is below 32768, where the kernel's ephemeral range begins. From that range, the kernel
    gives a port to each connection that another test makes meanwhile. The port does not come from
    ``random``, because several processes run tests with the same seed.
    """
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def wait_until(happened, running=None, seconds=60):
    """Return once ``happened()`` is true.

    Fail after ``seconds``, or as soon as ``running``, a process or a future, has ended.
    """
    end = time.monotonic() + seconds
    text = repr(happened) if isinstance(happened, partial) else inspect.getsource(happened)
    while not happened():
        if isinstance(running, Future):
            assert not running.done(), f"it did not wait: {running.result()}"
        elif running:
            assert running.poll() is None, f"it ended before {text}"
        assert time.monotonic() < end, f"not within {seconds} s: {text}"
        time.sleep(0.005)


def is_running(pid):
    """Return whether the process runs; False for a zombie."""
    return output("ps", "-o", "stat=", "-p", str(pid)).strip()[:1] not in ("", "Z")


def children(pid):
    table = output("ps", "-A", "-o", "pid=", "-o", "ppid=")
    pairs = (map(int, line.split()) for line in table.splitlines())
    return [child for child, parent in pairs if parent == pid]


def answers(port):
    try:
        return send(port, b"GET /healthz HTTP/1.0\r\n\r\n").status == 200
    except OSError:
        return False


def resident(server):
    """Return the resident memory of the server's only worker process, in mebibytes."""
    (worker,) = children(server.pid)
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{worker}/status").read_text())[1]) / 1024


class Answer:
    """A response as received; ``status`` is None if the server closed without a response."""

    def __init__(self, raw):
        # A lone LF may end a line too (RFC 9112, section 2.2). On Python 3.14
        # gunicorn ends the headers of its own error responses with one.
        head, *rest = re.split(b"\r\n\r?\n", raw, maxsplit=1)
        self.body = rest[0] if rest else b""
        lines = head.decode("latin-1").split("\r\n")
        self.status = int(lines[0].split()[1]) if raw else None
        self.headers = dict(re.split(": *", line.lower(), maxsplit=1) for line in lines[1:] if line)


def receive_all(client):
    """Read until the server closes the connection; return all bytes."""
    parts = []
    while more := client.recv(2**20):
        parts.append(more)
    return b"".join(parts)


def receive(client):
    """Read one response, or the part of it that comes before the connection ends."""
    raw, end = bytearray(), None
    with suppress(ConnectionResetError):
        while (end is None or len(raw) < end) and (more := client.recv(65536)):
            raw += more
            if end is None and b"\r\n\r\n" in raw:
                answer = Answer(bytes(raw))
                announced = int(answer.headers.get("content-length", 1 << 60))
                end = len(raw) - len(answer.body) + announced
    return Answer(bytes(raw))


def send(port, request, *, finish=False, timeout=60):
    """Send these bytes; return the response once it is complete or the server closes."""
    with (
        socket.create_connection(("127.0.0.1", port), timeout=timeout) as client,
        suppress(BrokenPipeError, ConnectionResetError),
    ):
        client.sendall(request)
        if finish:
            client.shutdown(socket.SHUT_WR)
        return receive(client)
    return Answer(b"")


def get(port, path="/api/tasks", timeout=60):
    return send(
        port, f"GET {path} HTTP/1.1\r\n{ALICE}Connection: close\r\n\r\n".encode(), timeout=timeout
    )


def post(body, headers):
    return f"POST /api/tasks HTTP/1.1\r\n{ALICE}{headers}Connection: close\r\n\r\n".encode() + body


def call(port, method, path, token, document=None):
    """Send one request with JSON; return the status and the JSON of the response."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(
            method,
            path,
            None if document is None else json.dumps(document),
            {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )
        answer = connection.getresponse()
        body = json.loads(answer.read() or b"null")
        return answer.status, with_name(body, told(method, path, answer.status, body))
    finally:
        connection.close()


UUID = "0190163d-8694-739b-aea5-966c26f8ad91"


class Running(Thread):
    """A worker in a thread of this process; SIGTERM to this thread ends it."""

    def __init__(self, worker):
        super().__init__(target=worker.run, kwargs={"deliver": True})
        self.pool = worker.pool
        # This thread and the threads of the worker block the signal from the beginning.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        self.start()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def stop(self):
        """Send SIGTERM; return whether the worker has ended and closed its connections."""
        if self.is_alive():
            signal.pthread_kill(self.ident, signal.SIGTERM)
        self.join(10)
        return self.pool.closed and not self.is_alive()


def due_now(connection):
    """Make all waiting deliveries due, and end the back-off of all webhooks."""
    connection.execute("UPDATE deliveries SET due_at = now() WHERE state = 'waiting'")
    connection.execute("UPDATE webhooks SET backoff_until = NULL")


def states(connection):
    return [(row["state"], row["attempts"]) for row in deliveries(connection)]


def seconds_until(timestamp):
    return (timestamp - datetime.now(UTC)).total_seconds()
