"""Fixtures that run commands in this process, on the database of the tests."""

import os
import pty
import termios
import uuid
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from support.commands import CommandRunner, read_to_end

from service.settings import Settings


@pytest.fixture
def cli(app):
    runner = CommandRunner(app)
    return lambda *words, **options: runner.invoke(args=words, **options)


@pytest.fixture
def with_settings(with_webhooks, webhooks_app):
    """Return a function that runs a command with changed variables, or without changes.

    Without changes it takes the service that all tests share, because to create one takes longer
    than most commands.
    """

    def run(*words, **changes):
        app = with_webhooks(**changes) if changes else webhooks_app
        return CommandRunner(app).invoke(args=words)

    return run


@pytest.fixture
def status_of(start):
    def status_of(url, *options):
        runner = CommandRunner(start(Settings.read({"DATABASE_URL": url})))
        return runner.invoke(args=["status", *options])

    return status_of


@pytest.fixture
def stranger(other):
    """Yield a role that owns nothing: its name, and a URL with which it connects to ``other``."""
    role = f"stranger_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(other, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{role}'")
        yield role, make_conninfo(other, user=role, password=role)
        connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


@pytest.fixture
def on_a_terminal(monkeypatch):
    """Return a function that runs another one on a terminal and returns the lines shown there.

    ``typed`` is the text that a person types on the terminal.
    """

    def run(function, *arguments, typed="", **options):
        ours, theirs = pty.openpty()
        # The terminal shows what is printed, not what is typed.
        attributes = termios.tcgetattr(theirs)
        attributes[3] &= ~termios.ECHO
        termios.tcsetattr(theirs, termios.TCSANOW, attributes)
        with os.fdopen(ours, "r+b", buffering=0) as terminal, ThreadPoolExecutor(1) as reader:
            shown = reader.submit(read_to_end, terminal)
            terminal.write(typed.encode())
            with (
                open(theirs, "w") as stdout,
                open(os.dup(theirs)) as stdin,
                monkeypatch.context() as changed,
            ):
                changed.setattr("sys.stdin", stdin)
                changed.setattr("sys.stdout", stdout)
                function(*arguments, **options)
            return shown.result(30).decode().splitlines()

    return run
