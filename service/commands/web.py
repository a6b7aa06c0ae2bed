"""``task-service web``: the web processes."""

import os

import click

from service import gunicorn
from service.commands.base import current_settings


@click.command("web")
def web() -> None:
    """HOST and PORT set the address. WEB_CONCURRENCY sets the number of processes, WEB_THREADS the
    number of threads in each. The command becomes gunicorn's master process; on SIGHUP the master
    starts new workers with the code on the disk.
    """
    current_settings().require_database()
    if not os.access(".", os.X_OK):
        # gunicorn changes into the folder in which it was started. If this user may not enter that
        # folder, such as the home of root, gunicorn would fail.
        os.chdir("/")
    command = gunicorn.command()
    # Without PYTHONSAFEPATH, gunicorn's package http would hide Python's package after SIGUSR2.
    os.execve(command[0], command, {**os.environ, "PYTHONSAFEPATH": "1"})  # noqa: S606
