"""Run commands in this process, and check their output."""

from contextlib import suppress
from threading import Lock

import click
from click.testing import CliRunner

from service.__main__ import main


def commands(group, *path):
    """Yield all groups and commands below a group, each with the words that call it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield " ".join([*path, name]), command
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)


class CommandRunner(CliRunner):
    """Runs ``task-service`` in this process with the settings of a service.

    A second command at the same time fails, because both would replace the streams of the process.
    """

    running = Lock()

    def __init__(self, service):
        super().__init__()
        self.settings = service.config["SETTINGS"]

    def invoke(self, args, **options):
        assert self.running.acquire(blocking=False), "another command is running"
        try:
            return super().invoke(main, args, obj=self.settings, **options)
        finally:
            self.running.release()


UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
TIMESTAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


def value(outcome):
    assert (outcome.exit_code, outcome.stderr) == (0, "")
    assert outcome.stdout.endswith("\n")
    (line,) = outcome.stdout.splitlines()
    return line


def sentences(items):
    """Join text and remedy of each problem or note of ``status --json``, as the page does."""
    return [": ".join(filter(None, (item["text"], item.get("remedy")))) for item in items]


def lines(outcome):
    assert (outcome.exit_code, outcome.stderr) == (0, "")
    return [line.split("\t") for line in outcome.stdout.splitlines()]


def assert_failed(outcome, message, code=1):
    assert (outcome.exit_code, outcome.stdout) == (code, "")
    assert "Traceback" not in outcome.stderr
    assert message in outcome.stderr
    if code == 1:
        (line,) = outcome.stderr.splitlines()
        assert line.startswith("Error: ")


def read_to_end(terminal):
    text = b""
    # Linux raises EIO once the other end of the terminal is closed.
    with suppress(OSError):
        while more := terminal.read(65536):
            text += more
    return text


def rows(connection, sql, *values):
    return connection.execute(sql, values).fetchall()
