"""Check what the service says about a PostgreSQL that is too old."""

import subprocess
import sys
from contextlib import contextmanager

import urllib3
from support.commands import CommandRunner
from support.processes import ending, free_port
from support.project import PROJECT, environment

from service.app import create_app
from service.settings import Settings

COMMANDS = "check", "migrate", "migrate --dry-run", "status", "worker --once", "user show ada@x"


def assert_named(url, version):
    """Fail unless each command, web and worker name the version of an old server in a line."""
    sentence = f"PostgreSQL {version}: this service needs 15 or later"
    runner = CommandRunner(create_app(Settings.read({"DATABASE_URL": url})))
    for command in COMMANDS:
        ran = runner.invoke(command.split())
        lines = [line for line in ran.output.splitlines() if sentence in line]
        assert ran.exit_code == 1, command
        assert lines, f"{command}: {ran.output}"
        others = {*ran.output.splitlines()} - {*lines}
        # The only other lines are about settings, or belong to the log of the worker.
        assert all(line.startswith(("settings ", "{")) for line in others), f"{command}: {others}"
    with program("worker", url) as worker:
        assert any(sentence in line for line in worker.stderr)
    port = str(free_port())
    with program("web", url, PORT=port, WEB_CONCURRENCY="1") as web:
        assert any(sentence in line for line in web.stderr)
        answer = urllib3.request("GET", f"http://127.0.0.1:{port}/healthz", retries=False)
    assert answer.status == 503
    assert answer.json()["message"].startswith("The database is older than PostgreSQL 15")


@contextmanager
def program(name, url, **settings):
    process = subprocess.Popen(
        [sys.executable, "-m", "service", name],
        cwd=PROJECT,
        env=environment(DATABASE_URL=url, **settings),
        stderr=subprocess.PIPE,
        text=True,
    )
    with ending(process):
        yield process
