"""Start gunicorn as the Procfile does, and send requests to it."""

import http.client
import os
import secrets
import shlex
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class WrongStatus(Exception):
    """A request of the benchmark failed."""


@contextmanager
def gunicorn(url, *, under=(), **environment):
    """Run gunicorn on a free port of this machine, and yield its port and its pid.

    ``under`` is the beginning of a command that runs another command, such as valgrind.
    """
    lines = (ROOT / "Procfile").read_text().splitlines()
    (line,) = (line.partition(":")[2] for line in lines if line.startswith("web:"))
    words = [*under, sys.executable, "-m", *shlex.split(line[line.index("gunicorn") :])]
    environment = {**os.environ, "DATABASE_URL": url, **environment}
    # The service writes its log to this file, with a line for each request.
    with tempfile.TemporaryFile() as log:
        # Until gunicorn accepts connections, requests wait in the queue of this socket.
        with socket.create_server(("127.0.0.1", 0)) as listener:
            fd, port = listener.fileno(), listener.getsockname()[1]
            server = subprocess.Popen(  # noqa: S603
                [*words, "--bind", f"fd://{fd}"],
                cwd=ROOT,
                env=environment,
                stdout=log,
                stderr=log,
                pass_fds=[fd],
            )
        try:
            yield port, server.pid
        finally:
            server.terminate()
            # Under valgrind, a server takes long to stop.
            server.wait(300 if under else 40)


class Client:
    """A client that sends one request after the other on one connection."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        # Each client begins with another number, because a PATCH with the same title would change
        # nothing.
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
