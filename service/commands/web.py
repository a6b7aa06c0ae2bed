"""``task-service web``: the web processes."""

import os

import click

from service import gunicorn
from service.commands.base import current_settings


@click.command("web")
def web() -> None:
    """HOST and PORT are the address, WEB_CONCURRENCY and WEB_THREADS the numbers of processes and
    of threads. The command becomes gunicorn's master: at SIGHUP the master starts new workers with
    the code on the disk.
    """
    current_settings().require_database()
    if not os.access(".", os.X_OK):
        # gunicorn enters the folder that it was started in, which may be the home of root.
        os.chdir("/")
    command = gunicorn.command()
    # Without PYTHONSAFEPATH, gunicorn's package http would hide Python's package after SIGUSR2.
    os.execve(command[0], command, {**os.environ, "PYTHONSAFEPATH": "1"})  # noqa: S606
