"""The sign of life of this process: its row in the table ``processes``.

``status`` finds the processes by these rows. The names in pg_stat_activity would not do: behind
PgBouncer in transaction mode, a session has the name of the client that used it last.
"""

import os
import time
from pathlib import Path
from typing import NamedTuple

from service.database.statements import Connection
from service.process import application_name


class Silent(NamedTuple):
    # Like task-service web 1.0.0 host7:4711.
    name: str
    # Since its last sign of life.
    seconds: float


class SignOfLife(NamedTuple):
    """Renews the row of this process while it lives, and removes it at the end."""

    program: str
    # Whether a web process uses the speedups; None for a worker.
    speedups: bool | None

    def renew(self, connection: Connection) -> None:
        """Renew the row, and remove the rows of processes that were killed."""
        # The name contains the process id, which differs in a fork.
        name = application_name(self.program)
        silent = connection.rows(Silent, "processes/renew", name=name, speedups=self.speedups)
        for process in silent:
            # Only processes of this host are checked, because only their process ids tell a killed
            # process from a frozen one.
            if not is_ours(int(process.name.rpartition(":")[2]), process.seconds):
                connection.run("processes/remove", name=process.name)

    def end(self, connection: Connection) -> None:
        connection.run("processes/remove", name=application_name(self.program))


def is_ours(pid: int, seconds: float) -> bool:
    """Return whether a process of this user has this id, and has had it for this many seconds.

    After a boot, or after the restart of a container, processes have the ids of earlier ones.
    """
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    try:
        # After the name of the program, which is in parentheses: the 22nd field of the line is the
        # start of the process, in ticks since the boot.
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        started = int(fields.rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    except OSError:
        # macOS has no such file.
        return True
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started >= seconds
