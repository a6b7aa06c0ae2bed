"""Two processes in place of one, so that nothing is left behind however a test runner ends.

The first one belongs to the runner, who may kill it at any moment, with its process group. The
second one, in a session of its own, starts everything; it ends everything when the first one has
gone, which it sees as EOF of a socket between them.
"""

import os
import select
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from threading import Thread
from types import FrameType

from service.devkit.postgres import remove_abandoned
from service.devkit.processes import SIGNALS, Interrupt

# The process that started the first one.
PARENT = os.getppid()
# Milliseconds between two looks at that.
INTERVAL = 1000


class Starter:
    """The first process, as the second one knows it."""

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
        """Let the first process print the line; where this one is kept, the first one ends then."""
        self._needed = not self._keep
        with suppress(BrokenPipeError):
            self._channel.sendall(f"{line}\n".encode())


def fork(folder: Path, *, keep: bool) -> socket.socket:
    """Return in a second process, with its channel to the first one; the first one does not return.

    ``folder`` is where the second process will have its data.
    """
    first, second = socket.socketpair()
    child = os.fork()
    if child:
        second.close()
        sys.exit(accompany(child, first, folder, keep=keep))
    first.close()
    os.setsid()
    # Those who read stdout of the first process wait for no other one.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return second


def accompany(child: int, channel: socket.socket, folder: Path, *, keep: bool) -> int:
    """Print the line, wait for the end of the second process, and return its exit status.

    Make it end at a signal, when the parent has gone, and when nothing reads stdout any more.
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
    # No event is asked for: poll reports an error when the reader has gone.
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
        # It was killed. What it has left is not in use.
        remove_abandoned(folder)
        return 1
    return code


def silence(log: Path) -> None:
    """Write to a file from now on: the reader of stderr does not wait for this process."""
    with log.open("ab") as file:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())
