"""Start gunicorn and the worker, for ``dev`` and the test double."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from types import FrameType
from typing import IO

import click
import urllib3

import service
from service import server
from service.database.statements import SQL
from service.devkit.postgres import Postgres

PACKAGE = Path(service.__file__).parent
SPEEDUPS = PACKAGE / "speedups"
WATCHED = {".json", ".md", ".py", ".sql", ".toml"}
SIGNALS = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
# In seconds: within STARTED the service must answer, and within ENDED a child must end.
STARTED, ENDED = 15, 5
# Seconds between two checks of the files, and of the children.
FILES_INTERVAL, CHILDREN_INTERVAL = 0.5, 0.05

# What dev prints about a changed file that migrate has to apply.
UNAPPLIED = (
    "{} is new or has changed: until it is applied, /healthz returns 503. Run task-service migrate"
    " in the shell with the exports, or restart dev."
)

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


class Interrupt:
    """Notes the signals that end the command; the command checks between two steps for a signal."""

    def __init__(self) -> None:
        self.received = False
        for number in SIGNALS:
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._note)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.received = True

    def check(self) -> None:
        if self.received:
            sys.exit()


def end_with_parent() -> None:
    """Ask Linux to end this process when its parent is killed."""
    with suppress(AttributeError):
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


class Children:
    """The processes gunicorn and worker; ``close`` ends both.

    Both inherit the file descriptors ``shared``. With ``at_once``, SIGKILL ends them, without time
    to finish their work.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        interrupt: Interrupt,
        *shared: int,
        at_once: bool = False,
        log: IO[bytes] | None = None,
    ) -> None:
        self.environment, self.interrupt, self.shared = environment, interrupt, shared
        self.at_once, self.log = at_once, log
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self._ending: list[subprocess.Popen[bytes]] = []
        self._files = modification_times()

    def start_web(self, *, app: str = server.APP) -> None:
        """Start gunicorn on the first shared socket.

        Until gunicorn is ready, connections wait at the socket.
        """
        options = "--bind", f"fd://{self.shared[0]}", "--log-level", "warning"
        self._start("gunicorn", *server.command(*options, app=app))

    def start_worker(self) -> None:
        self._start("worker", sys.executable, "-m", "task_service_command", "worker")

    def _start(self, name: str, *command: str) -> None:
        self.running[name] = subprocess.Popen(  # noqa: S603
            command,
            # Python imports from this folder first, not from the folder in which the user started
            # the command.
            cwd=PACKAGE.parent,
            env=self.environment,
            stdout=self.log,
            stderr=self.log,
            pass_fds=self.shared,
            # The children run in other sessions, so Ctrl-C does not reach them. This process gets
            # the signal, and then ends the children.
            start_new_session=True,
            preexec_fn=end_with_parent,
        )

    def wait_until_up(self, address: str) -> None:
        """Wait until the service answers; raises ClickException after ``STARTED`` seconds."""
        deadline = monotonic() + STARTED
        while not self.ended() and monotonic() < deadline:
            self.interrupt.check()
            try:
                urllib3.request(
                    "GET",
                    f"{address}/healthz",
                    headers={"Connection": "close"},
                    retries=False,
                    timeout=1,
                )
                return
            except urllib3.exceptions.HTTPError:
                sleep(CHILDREN_INTERVAL)
        raise click.ClickException("gunicorn did not start; its messages above say why")

    def ended(self) -> str | None:
        """Describe a child that has ended; None if all run. A negative status is a signal."""
        for name, child in self.running.items():
            if child.poll() is not None:
                return f"{name} has ended with status {child.returncode}"
        return None

    def wait(self) -> None:
        """Wait until interrupted; raises ClickException when a child ends by itself."""
        while not self.interrupt.received:
            self._require_all()
            sleep(CHILDREN_INTERVAL)

    def run(self, postgres: Postgres) -> None:
        """Like :meth:`wait`, but replace the children when a file changes.

        If PostgreSQL ends, start it again; raises CannotStart if it does not start.
        """
        # While the code is broken, a child may end without ending this command. The next change of
        # a file starts new children.
        broken = False
        while not self.interrupt.received:
            sleep(FILES_INTERVAL)
            if postgres.revive():
                click.echo("PostgreSQL had ended; it is running again", err=True)
            self._ending = [child for child in self._ending if child.poll() is None]
            before, self._files = self._files, modification_times()
            changed = sorted({path for path, _ in before.items() ^ self._files.items()})
            if changed:
                broken = not self.replace(os.path.relpath(changed[0], PACKAGE.parent))
                for path in changed:
                    if path.exists() and path.parent in (SQL / "schema", SQL / "functions"):
                        click.echo(UNAPPLIED.format(path.relative_to(SQL)), err=True)
            elif not broken:
                self._require_all()

    def _require_all(self) -> None:
        ended = self.ended()
        if ended and not self.interrupt.received:
            raise click.ClickException(f"{ended}; its messages above may say why")

    def replace(self, changed: str) -> bool:
        """Restart the children with the code on the disk; return False if its import fails."""
        imported = subprocess.run(
            [sys.executable, "-c", "from service.app import create_app; create_app()"],
            cwd=PACKAGE.parent,
            env=self.environment,
        )
        if imported.returncode:
            click.echo(
                f"{changed} changed, but its import failed, see above: the old code keeps running",
                err=True,
            )
            return False
        click.echo(f"{changed} changed; reloading", err=True)
        for child in self.running.values():
            child.terminate()
        self._ending += self.running.values()
        self.start_web()
        self.start_worker()
        return True

    def close(self) -> None:
        """End all children. Each has ``ENDED`` seconds to finish its work; then it is killed."""
        children = [*self.running.values(), *self._ending]
        for child in children:
            if self.at_once:
                # Each child leads a process group; gunicorn's workers are in the group of gunicorn.
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
            child.terminate()
        deadline = monotonic() + ENDED
        for child in children:
            try:
                child.wait(max(0, deadline - monotonic()))
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def modification_times() -> dict[Path, int]:
    """Return the watched files with the times of their last changes.

    A change of any of these files restarts the service.
    """
    times = {}
    for folder in {PACKAGE, SPEEDUPS, SQL}:
        for path in folder.rglob("*"):
            if path.suffix in WATCHED:
                with suppress(OSError):
                    times[path] = path.stat().st_mtime_ns
    return times
