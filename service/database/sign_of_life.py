"""The sign of life of this process: its row in the table ``processes``.

``status`` finds the processes by these rows. The names in pg_stat_activity would not do: behind
PgBouncer in transaction mode, a session has the name of the client that used it last.
"""

import os
from typing import NamedTuple

from service.database.statements import Connection
from service.process import application_name


class Silent(NamedTuple):
    # Like task-service web 1.0.0 host7:4711.
    name: str


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
            if not is_ours(int(process.name.rpartition(":")[2])):
                connection.run("processes/remove", name=process.name)

    def end(self, connection: Connection) -> None:
        connection.run("processes/remove", name=application_name(self.program))


def is_ours(pid: int) -> bool:
    """Return whether a process of this user has this id.

    After a boot, processes of other users may have the ids of earlier processes of the service.
    """
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
