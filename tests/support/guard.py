"""End the programs that tests have started, even if the process of the tests is killed.

A guard runs beside each process that runs tests, and finds their programs by a mark. The mark is a
folder at the end of PATH, because programs hand this variable on even if they hand on no other.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

# Signals, and how many seconds a program may take to end after each. SIGQUIT ends a PostgreSQL
# that waits for its clients.
SIGNALS = (signal.SIGTERM, 10), (signal.SIGQUIT, 5), (signal.SIGKILL, 5)


def start():
    """Start a guard; return its process and its folder, in which programs may keep data.

    When this process ends, or closes the stdin of the guard, the guard ends the programs and
    removes the folder.
    """
    folder = tempfile.mkdtemp(prefix="service-tests-")
    # If root runs the tests, PostgreSQL runs as another user.
    os.chmod(folder, 0o711)
    command = [sys.executable, "-I", "-S", __file__, folder]
    guard = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    os.environ["PATH"] += os.pathsep + folder
    return guard, folder


def marked(folder):
    """Return the process ids of the programs that have been started with the mark."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        # The process may have ended, or belong to another user.
        with suppress(OSError):
            if os.fsencode(folder) in path.read_bytes():
                found.append(int(path.parent.name))
    return found


def end_all(folder):
    for number, seconds in SIGNALS:
        for pid in marked(folder):
            with suppress(OSError):
                os.kill(pid, number)
        deadline = time.monotonic() + seconds
        while marked(folder) and time.monotonic() < deadline:
            time.sleep(0.05)


if __name__ == "__main__":
    sys.stdin.buffer.read()
    end_all(sys.argv[1])
    shutil.rmtree(sys.argv[1], ignore_errors=True)
