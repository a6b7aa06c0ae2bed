"""gunicorn as the Procfile starts it, for the service and for the floor."""

import os
import secrets
import shlex
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep

import urllib3

ROOT = Path(__file__).resolve().parent.parent
# The web servers that are compared: the module that each needs, and its options.
SERVERS = {
    "request_worker": ("httptools",),
    "gthread": ("gunicorn", "-kgthread", "--http-parser=python"),
    "gthread, parser in C": ("gunicorn_h1c", "-kgthread", "--http-parser=fast"),
    "granian": ("granian", "--interface=wsgi", "--workers=2", "--blocking-threads=4"),
}


@contextmanager
def gunicorn(url, options=(), *, app="app:app", under=(), **environment):
    """Run one on a free port of this machine, by the command ``under``; yields (port, pid)."""
    line = next(
        line.partition(":")[2]
        for line in (ROOT / "Procfile").read_text().splitlines()
        if line.startswith("web:")
    )
    program, *rest = shlex.split(line)
    port = free_port()
    words = [*under, sys.executable, "-m", program]
    words += [*options, *(app if word == "app:app" else word for word in rest)]
    if "--interface=wsgi" in options:
        words = [sys.executable, "-m", "granian", *options, f"--port={port}", app]
    environment = {**os.environ, "DATABASE_URL": url, "PORT": str(port), **environment}
    # The service logs one line for each request to this file.
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen(words, cwd=ROOT, env=environment, stdout=log, stderr=log)  # noqa: S603
        try:
            wait_until_up(server, port)
            yield port, server.pid
        finally:
            server.terminate()
            server.wait(40)


def free_port():
    """Return a loopback port below those that the kernel gives to connections, from 32768 on."""
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def wait_until_up(server, port):
    # Valgrind runs everything fifty times slower.
    deadline = monotonic() + 120
    while server.poll() is None and monotonic() < deadline:
        try:
            with socket.create_connection(("127.0.0.1", port), 1):
                return
        except OSError:
            sleep(0.05)
    raise RuntimeError("gunicorn did not start")


def ask(port, case, index=0):
    """One request of the case; returns its status and body."""
    token, path = case.requests()[index]
    headers = {"Authorization": f"Bearer {token}"}
    body = None
    if case.body:
        headers["Content-Type"] = "application/json"
        body = case.text().replace("#", os.urandom(4).hex())
    answer = urllib3.request(
        case.method, f"http://127.0.0.1:{port}{path}", headers=headers, body=body, retries=False
    )
    return answer.status, answer.data
