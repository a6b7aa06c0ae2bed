"""``task-service web``: the web processes."""

import os

import click

from service import gunicorn
from service.commands.base import report_errors, settings


@click.command("web")
@report_errors
def web() -> None:
    """Serve requests by gunicorn, in the foreground, until SIGTERM.

    HOST, PORT, WEB_CONCURRENCY and WEB_THREADS say where and with how many processes. The process
    becomes gunicorn's master: SIGHUP makes it start new workers with the code on the disk.
    """
    settings().require_database()
    command = gunicorn.command()
    # Without it, gunicorn's own folder "http" would hide Python's after SIGUSR2.
    os.execve(command[0], command, {**os.environ, "PYTHONSAFEPATH": "1"})  # noqa: S606
