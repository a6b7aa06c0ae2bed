"""Ends database connections that answer nothing: one thread a process watches all of them.

When Postgres or the network freezes, no server-side timeout fires, and libpq waits for ever. Once
its socket is shut down, the waiting statement fails like on any lost connection.
"""

import os
import socket
from contextlib import suppress
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any

import psycopg

Connection = psycopg.Connection[Any]

# Seconds between two looks at the deadlines.
INTERVAL = 0.1


class Watchdog:
    """Connections in use, each with the time by which it must be done."""

    def __init__(self) -> None:
        self._deadlines: dict[Connection, float] = {}
        self._lock = Lock()
        self._stopping = Event()
        self._thread: Thread | None = None

    def watch(self, connection: Connection, deadline: float) -> None:
        """End the connection at ``deadline`` (of ``monotonic()``) unless it is released before."""
        with self._lock:
            self._deadlines[connection] = deadline
            # Not before the first connection: gunicorn forks, and threads do not follow.
            if self._thread is None:
                self._thread = Thread(target=self._run, name="watchdog", daemon=True)
                self._thread.start()

    def release(self, connection: Connection) -> None:
        """Stop watching the connection."""
        with self._lock:
            self._deadlines.pop(connection, None)

    def close(self) -> None:
        """Stop watching."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.wait(INTERVAL):
            now = monotonic()
            # Under the lock no watched connection is closed, so its descriptor is still its own.
            with self._lock:
                for connection, deadline in list(self._deadlines.items()):
                    if deadline <= now:
                        del self._deadlines[connection]
                        shut_down(connection)


def shut_down(connection: Connection) -> None:
    """Shut the socket of a connection down, whatever another thread waits for on it."""
    with (
        suppress(OSError, psycopg.Error),
        socket.socket(fileno=os.dup(connection.pgconn.socket)) as duplicate,
    ):
        duplicate.shutdown(socket.SHUT_RDWR)
