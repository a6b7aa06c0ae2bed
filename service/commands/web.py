"""``task-service web``: the web processes."""

import os
import sys

import click
from flask import current_app

from service import http
from service.commands.base import report_errors


def gunicorn(*options: str) -> list[str]:
    """The command line that runs the service by gunicorn, from any folder."""
    configured = ["-m", "gunicorn", "-c", str(http.GUNICORN_CONFIGURATION)]
    return [sys.executable, *configured, *options, "service.wsgi:app"]


@click.command("web")
@report_errors
def web() -> None:
    """Serve requests by gunicorn, in the foreground, until SIGTERM.

    HOST, PORT, WEB_CONCURRENCY and WEB_THREADS say where and with how many processes. The process
    becomes gunicorn's master: SIGHUP makes it start new workers with the code on the disk.
    """
    current_app.config["SETTINGS"].require_database()
    command = gunicorn()
    # Otherwise gunicorn's folder would come first on the path after SIGUSR2, with its own "http".
    os.execve(command[0], command, {**os.environ, "PYTHONSAFEPATH": "1"})  # noqa: S606
