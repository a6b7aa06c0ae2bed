"""``task-service web``: the web processes."""

import os

import click

from service import server
from service.commands.base import current_settings


@click.command("web")
def web() -> None:
    """HOST and PORT set the address. WEB_CONCURRENCY sets the number of processes, WEB_THREADS the
    number of threads in each process. The command becomes gunicorn's master process. On SIGHUP, the
    master replaces its workers by new ones, which load the code from the disk.
    """
    current_settings().require_database()
    if not os.access(".", os.X_OK):
        # This user may not enter the current folder, for example the home of root. gunicorn would
        # fail, because it changes into the folder in which it was started.
        os.chdir("/")
    command, variables = server.command(), dict(os.environ)
    # Let free() return large buffers to the system; glibc would keep some for every thread.
    variables.setdefault("MALLOC_MMAP_THRESHOLD_", "131072")
    # After SIGUSR2, gunicorn starts itself again as a script, and Python would import from the
    # script's folder first. There, gunicorn's package http would hide Python's package http.
    variables["PYTHONSAFEPATH"] = "1"
    os.execve(command[0], command, variables)  # noqa: S606
