"""gunicorn as the Procfile starts it, and a client."""

import http.client
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

ROOT = Path(__file__).resolve().parent.parent


class WrongStatus(Exception):
    """A request of the benchmark failed."""


@contextmanager
def gunicorn(url, *, under=(), **environment):
    """Run one on a free port of this machine, by the command ``under``; yields (port, pid)."""
    lines = (ROOT / "Procfile").read_text().splitlines()
    (line,) = (line.partition(":")[2] for line in lines if line.startswith("web:"))
    program, *rest = shlex.split(line)
    port = free_port()
    environment = {**os.environ, "DATABASE_URL": url, "PORT": str(port), **environment}
    # The service logs one line for each request to this file.
    with tempfile.TemporaryFile() as log:
        words = [*under, sys.executable, "-m", program, *rest]
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


class Client:
    """One client, which keeps its connection and sends one request after the other."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        # Two clients send different numbers: a PATCH without effect is no change.
        self.number = secrets.randbelow(10_000_000)

    def send(self, case, caller=0):
        """Send one request of the case; return its body, or raise WrongStatus."""
        token, path = case.requests()[caller]
        headers = {"Authorization": f"Bearer {token}"}
        if case.body:
            headers["Content-Type"] = "application/json"
        self.number += 1
        body = case.text().replace("#", f"{self.number:08}") or None
        self.connection.request(case.method, path, body, headers)
        response = self.connection.getresponse()
        content = response.read()
        if response.status not in (200, 201):
            raise WrongStatus(f"{case.name}: {response.status} {content[:200]!r}")
        return content
