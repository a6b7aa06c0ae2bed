"""Leave nothing behind, however a test runner ends.

The double consists of two processes. The runner may kill the first process and its process group
at any moment. The second process starts everything, and runs in another session, so that killing
the group does not reach it. A socket connects the two: EOF tells the second process that the first
one has gone, and the second one then ends and removes everything. If both are killed, the next test
double that starts removes what they have left.
"""

import os
import select
import shutil
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from time import time
from types import FrameType

from service.devkit.children import SIGNALS, Interrupt
from service.devkit.postgres import CannotStart, Postgres

# The parent of the first process.
PARENT = os.getppid()
# Milliseconds between two checks of the parent.
INTERVAL = 1000
# The prefix of the folders of test doubles; seconds in which a new folder may lack its lock.
PREFIX, YOUNG = "task-service-", 10


class FirstProcess:
    """The first process, as the second one sees it."""

    def __init__(self, channel: socket.socket, interrupt: Interrupt, *, keep: bool) -> None:
        self._channel, self._keep = channel, keep
        self._needed = True
        self._interrupt = interrupt
        Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        self._channel.recv(1)
        if self._needed:
            self._interrupt.received = True

    def print(self, line: str) -> None:
        """Let the first process print the line. With ``keep``, the first process then ends."""
        self._needed = not self._keep
        with suppress(BrokenPipeError):
            self._channel.sendall(f"{line}\n".encode())


def fork(folder: Path, *, keep: bool) -> socket.socket:
    """Fork, and return in the second process only, with its channel to the first process.

    The second process will keep its data in ``folder``. The first process calls ``accompany`` and
    exits.
    """
    first, second = socket.socketpair()
    child = os.fork()
    if child:
        second.close()
        sys.exit(accompany(child, first, folder, keep=keep))
    first.close()
    os.setsid()
    # A reader of stdout must get EOF when the first process ends, so the second must not hold it.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return second


def accompany(child: int, channel: socket.socket, folder: Path, *, keep: bool) -> int:
    """Print the line, wait until the second process ends, and return its exit status.

    End the second process if this process gets a signal, if the parent ends, or if nothing reads
    stdout any longer. With ``keep``, return 0 once the line is printed.
    """

    def end(_number: int = 0, _frame: FrameType | None = None) -> None:
        with suppress(OSError):
            channel.shutdown(socket.SHUT_WR)

    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, end)
    stdout = sys.stdout.fileno()
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    # Even with an empty mask, poll reports an error once the reader has gone.
    poll.register(stdout, 0)
    while True:
        events = dict(poll.poll(INTERVAL))
        if stdout in events:
            poll.unregister(stdout)
            end()
        if os.getppid() != PARENT:
            end()
        if channel.fileno() in events:
            received = channel.recv(65536)
            if not received:
                break
            with suppress(BrokenPipeError):
                os.write(stdout, received)
            if keep and received.endswith(b"\n"):
                return 0
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        # The second process was killed, so no process uses its data.
        remove_abandoned(folder)
        return 1
    return code


def silence(log: Path) -> None:
    """Redirect stdout and stderr to a file, so that the reader of stderr gets EOF."""
    with log.open("ab") as file:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())


def older(base: Path) -> Iterator[Path]:
    """Yield the folders of other test doubles, except folders that are just being created."""
    for folder in base.glob(f"{PREFIX}*"):
        try:
            if folder.lstat().st_mtime < time() - YOUNG:
                yield folder
        except OSError:
            continue


def remove_abandoned(*folders: Path) -> None:
    """Stop PostgreSQL in folders that no process uses any longer, and remove the folders."""
    for folder in folders:
        with suppress(CannotStart, OSError):
            if not (folder / "lock").exists():
                # Without a lock, the database was elsewhere. rmdir removes only an empty folder.
                folder.rmdir()
            elif folder.stat().st_uid == os.geteuid():
                postgres = Postgres(folder)
                postgres.erase()
                shutil.rmtree(folder, ignore_errors=True)
                postgres.close()
