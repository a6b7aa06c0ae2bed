"""Shuts down database connections that do not respond; one thread per process watches them all.

When PostgreSQL freezes, none of its timeouts fires, but its kernel still acknowledges data: libpq
would wait for ever. When the network freezes, libpq notices it later than a client should wait.
After the watchdog has shut its socket down, the waiting statement fails as on a lost connection.
"""

import os
import socket
from contextlib import suppress
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any

import psycopg

# Seconds between two checks of the deadlines.
INTERVAL = 0.1


class Watchdog:
    """The connections in use, each with its deadline."""

    def __init__(self) -> None:
        self._deadlines: dict[psycopg.Connection[Any], float] = {}
        self._lock = Lock()
        self._stopping = Event()
        self._thread: Thread | None = None

    def watch(self, connection: psycopg.Connection[Any], deadline: float) -> None:
        """Shut the connection down at ``deadline`` (``monotonic()``) unless released before."""
        with self._lock:
            # The thread starts with the first connection: a fork of gunicorn copies no threads.
            if self._thread is None:
                thread = Thread(target=self._run, name="watchdog", daemon=True)
                thread.start()
                self._thread = thread
            self._deadlines[connection] = deadline

    def release(self, connection: psycopg.Connection[Any]) -> None:
        """Stop watching the connection."""
        with self._lock:
            self._deadlines.pop(connection, None)

    def close(self) -> None:
        """Stop watching."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.wait(INTERVAL):
            now = monotonic()
            # ``release`` needs the lock, so no watched connection is closed during this loop, and
            # its file descriptor belongs to no other socket.
            with self._lock:
                for connection, deadline in list(self._deadlines.items()):
                    if deadline <= now:
                        del self._deadlines[connection]
                        shut_down(connection)


def shut_down(connection: psycopg.Connection[Any]) -> None:
    """Shut down the socket of a connection, even while another thread waits for data on it."""
    with (
        suppress(OSError, psycopg.Error),
        socket.socket(fileno=os.dup(connection.pgconn.socket)) as duplicate,
    ):
        duplicate.shutdown(socket.SHUT_RDWR)
