"""The processes that ``dev`` starts: replaced when a file changes, and all ended at its end."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from types import FrameType

import click
import urllib3

import service
from service import gunicorn
from service.statements import SQL

PACKAGE = Path(service.__file__).parent
WATCHED = {".json", ".md", ".py", ".sql", ".toml"}
# Seconds: until the service has to answer, until a child has to end, between two looks.
STARTED, ENDED, INTERVAL = 15, 5, 0.5

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


class Interrupt:
    """Notes the signals that end a command, so that it ends between two steps, not within one."""

    def __init__(self) -> None:
        self.received = False
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._note)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.received = True


def end_with_parent() -> None:
    """Ask Linux to end this process when the one that started it is killed."""
    with suppress(AttributeError):
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


class Children:
    """gunicorn on an open socket, and the worker; every one that was started is ended by close."""

    def __init__(
        self, environment: dict[str, str], listener: socket.socket, interrupt: Interrupt
    ) -> None:
        self.environment, self.listener, self.interrupt = environment, listener, interrupt
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self._ending: list[subprocess.Popen[bytes]] = []
        self._files = modification_times()

    def __enter__(self) -> "Children":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start_web(self) -> None:
        """Start gunicorn; connections wait in the socket until it takes them."""
        bind = f"fd://{self.listener.fileno()}"
        self._start("gunicorn", *gunicorn.command("--bind", bind, "--log-level", "warning"))

    def start_worker(self) -> None:
        """Start the worker."""
        self._start("worker", sys.executable, "-m", "service", "worker")

    def _start(self, name: str, *command: str) -> None:
        self.running[name] = subprocess.Popen(  # noqa: S603
            command,
            # Whatever lies in the folder from which the command was started.
            cwd=PACKAGE.parent,
            env=self.environment,
            pass_fds=[self.listener.fileno()],
            # A signal of the terminal comes to this process alone, which ends the others in turn.
            start_new_session=True,
            preexec_fn=end_with_parent,
        )

    def wait_until_up(self, address: str) -> None:
        """Return once the service answers; raises ClickException if it does not."""
        deadline = monotonic() + STARTED
        while not self.ended() and not self.interrupt.received and monotonic() < deadline:
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
                sleep(0.05)
        if not self.interrupt.received:
            raise click.ClickException("gunicorn did not start; it says why above")

    def ended(self) -> str | None:
        """Which child has ended by itself, and its status: less than 0 is a signal."""
        for name, child in self.running.items():
            if child.poll() is not None:
                return f"{name} has ended with status {child.returncode}"
        return None

    def run(self) -> None:
        """Replace the children when a file changes; returns when interrupted or when one ends."""
        # A child that was just starting ends if the code is broken: the next change starts another.
        broken = False
        while not self.interrupt.received:
            sleep(INTERVAL)
            self._ending = [child for child in self._ending if child.poll() is None]
            before, self._files = self._files, modification_times()
            changed = sorted(str(path) for path, _ in before.items() ^ self._files.items())
            if changed:
                broken = not self.replace(os.path.relpath(changed[0], PACKAGE.parent))
            elif not broken and self.ended():
                return

    def replace(self, changed: str) -> bool:
        """Start anew with the code on the disk; False if that cannot be imported."""
        imported = subprocess.run(
            [sys.executable, "-c", "import service.wsgi"], cwd=PACKAGE.parent, env=self.environment
        )
        if imported.returncode:
            click.echo(f"{changed} changed; the service stays as it was, see above", err=True)
            return False
        click.echo(f"{changed} changed; reloading", err=True)
        for child in self.running.values():
            child.terminate()
            self._ending.append(child)
        self.start_web()
        self.start_worker()
        return True

    def close(self) -> None:
        """End all children; those that have work to finish get some time for it."""
        children = [*self.running.values(), *self._ending]
        for child in children:
            child.terminate()
        deadline = monotonic() + ENDED
        for child in children:
            try:
                child.wait(max(0, deadline - monotonic()))
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def modification_times() -> dict[Path, int]:
    """The files of the service that are worth a new start, and when they were changed."""
    times = {}
    for folder in {PACKAGE, SQL}:
        for path in folder.rglob("*"):
            if path.suffix in WATCHED:
                with suppress(OSError):
                    times[path] = path.stat().st_mtime_ns
    return times
