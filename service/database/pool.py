"""Connections to the database: one for a command, and a pool for each process that serves.

This module also contains the watchdog, because only the pool knows which connections are in use,
and until when.
"""

import logging
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any, NamedTuple

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import RowFactory, tuple_row
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from service.database.counters import Counters
from service.database.sign_of_life import SignOfLife
from service.database.statements import ADAPTERS, Connection
from service.logs import is_rare, is_rare_record
from service.process import application_name
from service.settings import Settings
from service.version import POSTGRESQL

# The oldest major version of PostgreSQL that has every feature that the statements use.
OLDEST = POSTGRESQL[0]

# The properties of a database that the service can use, whatever the server's defaults are, and
# how to create it.
PROPERTIES = "ENCODING 'UTF8' LOCALE 'C.UTF-8' TEMPLATE template0"
CREATE = f"CREATE DATABASE name {PROPERTIES}"

log = logging.getLogger("service.database")


class UnusableDatabase(psycopg.NotSupportedError):
    """The service can never run on this database; the message says why.

    ``name`` is old_server or wrong_encoding: with SQL_ASCII, PostgreSQL would store any bytes.
    """

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = name


def encoding_of(connection: Connection) -> str:
    """Read the encoding of the database; UTF8 if a connection pooler does not report one."""
    return connection.info.parameter_status("server_encoding") or "UTF8"


def fault_of(connection: Connection) -> UnusableDatabase | None:
    """Return why the service cannot run on this database; None if it can."""
    # The version is 0 behind a connection pooler that does not report it.
    if 0 < connection.info.server_version < OLDEST * 10_000:
        # Debian adds the version of its package, in parentheses.
        version = (connection.info.parameter_status("server_version") or "?").partition(" ")[0]
        text = f"PostgreSQL {version}: this service needs {OLDEST} or later"
        return UnusableDatabase("old_server", text)
    if (encoding := encoding_of(connection)) != "UTF8":
        text = f"the database has the encoding {encoding}: create another one with {CREATE}"
        return UnusableDatabase("wrong_encoding", text)
    return None


class Locale(NamedTuple):
    # Whether lower() changes letters other than A to Z.
    knows_case: bool


def fault_of_locale(connection: Connection) -> str | None:
    """Return what does not work with the locale of this database; None if everything works."""
    (locale,) = connection.rows(Locale, "connection/locale")
    if locale.knows_case:
        return None
    return (
        "the locale of the database knows upper and lower case of the letters A to Z only, so a"
        f" search for \u00e9 does not find \u00c9: load the data into a database made with {CREATE}"
    )


def connection_options(settings: Settings, program: str) -> dict[str, Any]:
    return {
        # PostgreSQL shows this name in pg_stat_activity.
        "application_name": application_name(program),
        "autocommit": True,
        # Responses are UTF-8; PGCLIENTENCODING must not change that.
        "client_encoding": "UTF8",
        "connect_timeout": 2,
        "context": ADAPTERS,
        # With 0, psycopg prepares each statement when it first runs; with None, it prepares none.
        "prepare_threshold": 0 if settings.database_prepare else None,
        # While data are in flight, the kernel detects a dead peer within 5 s. On an idle
        # connection, it takes 15 s on Linux, where tcp_user_timeout replaces keepalives_count, and
        # 25 s on other systems.
        "tcp_user_timeout": 5000,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
    }


class CommandConnection(Connection):
    """The connection of a command: no timeout of the role or the database ends its statements.

    So each statement runs in a transaction, whose first statement disables them.
    """

    @contextmanager
    def transaction(
        self, savepoint_name: str | None = None, force_rollback: bool = False
    ) -> Iterator[psycopg.Transaction]:
        is_outermost = self.info.transaction_status is TransactionStatus.IDLE
        with super().transaction(savepoint_name, force_rollback) as begun:
            if is_outermost:
                self.run("connection/without_timeouts")
            yield begun

    def _execute(
        self, name: str, values: dict[str, object], row_factory: RowFactory[Any] = tuple_row
    ) -> psycopg.Cursor[Any]:
        if self.info.transaction_status is TransactionStatus.IDLE:
            with self.transaction():
                return super()._execute(name, values, row_factory)
        return super()._execute(name, values, row_factory)


def connect(settings: Settings, command: str) -> Connection:
    """Connect for a command, in autocommit mode and without prepared statements.

    Raises InvalidSetting without DATABASE_URL, UnusableDatabase, and psycopg.Error.
    """
    options = {**connection_options(settings, command), "prepare_threshold": None}
    connection = CommandConnection.connect(settings.require_database(), **options)
    try:
        if fault := fault_of(connection):
            raise fault
        connection.run("connection/defaults")
    except BaseException:
        connection.close()
        raise
    return connection


class Watchdog:
    """Shuts down connections that do not respond; one thread per process watches all connections.

    When PostgreSQL freezes, none of its timeouts fires, but its kernel still acknowledges data, so
    libpq would wait forever. When the network freezes, libpq notices it later than a client should
    wait. After the watchdog has shut down the socket, the waiting statement fails as if the
    connection was lost.
    """

    # Seconds between two checks of the deadlines.
    INTERVAL = 0.1

    def __init__(self) -> None:
        self._deadlines: dict[Connection, float] = {}
        self._lock = Lock()
        self._stopping = Event()
        self._thread: Thread | None = None

    def watch(self, connection: Connection, deadline: float) -> None:
        """Shut the connection down at ``deadline`` (``monotonic()``) unless released before."""
        with self._lock:
            # The thread starts with the first connection, because a fork of gunicorn would not copy
            # a thread of the master.
            if self._thread is None:
                thread = Thread(target=self._run, name="watchdog", daemon=True)
                thread.start()
                self._thread = thread
            self._deadlines[connection] = deadline

    def release(self, connection: Connection) -> None:
        with self._lock:
            self._deadlines.pop(connection, None)

    def close(self) -> None:
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.wait(self.INTERVAL):
            now = monotonic()
            # ``release`` needs the same lock. So nobody closes a watched connection during this
            # loop, and its file descriptor cannot belong to another socket.
            with self._lock:
                for connection, deadline in list(self._deadlines.items()):
                    if deadline <= now:
                        del self._deadlines[connection]
                        shut_down(connection)


def shut_down(connection: Connection) -> None:
    """Shut down the socket of a connection, even while another thread waits for data on it."""
    with (
        suppress(OSError, psycopg.Error),
        socket.socket(fileno=os.dup(connection.pgconn.socket)) as duplicate,
    ):
        duplicate.shutdown(socket.SHUT_RDWR)


class Pool(ConnectionPool[Connection]):
    """A pool that starts closed: each forked worker opens its own connections.

    ``program`` is web or worker. Unless it sets another deadline, a request may use the database
    for ``seconds``; the watchdog shuts down a connection that a request holds for longer.
    ``at_first`` is called once, with the first connection of the process.
    """

    # The class of the connections.
    connections = Connection
    # Within this many seconds the pool finds a free connection, or makes one if the database
    # responds.
    SHORTEST_WAIT = 0.2
    # Seconds between two checks of the connection of an idle process, and between two replacements
    # of connections that cannot write.
    CHECK_INTERVAL = 2
    # Seconds between two signs of life, which are also saves of the counts, and how late one may
    # be while all connections are in use.
    SIGN_INTERVAL, LATE = 10, 10

    def __init__(
        self, settings: Settings, program: str, at_first: Callable[[Connection], None] | None = None
    ) -> None:
        self.settings = settings
        # 0.8 s plus the watchdog's interval of 0.1 s: the statement's own timeout fires first, and
        # the watchdog less than a second later.
        self.seconds = settings.statement_timeout + 0.8
        self.watchdog = Watchdog()
        # Why the newest connection leads to a database that the service cannot run on.
        self.fault: UnusableDatabase | None = None
        self.counters = Counters()
        self.sign_of_life = SignOfLife(
            program, settings.uses_speedups if program == "web" else None
        )
        self._stopping = Event()
        # When to save the counts and to renew the sign of life, by ``monotonic()``.
        self._due = 0.0
        self._last_drained = 0.0
        # psycopg_pool logs why it cannot connect; log this only once a minute. A logger ignores a
        # filter that it already has.
        logging.getLogger("psycopg.pool").addFilter(is_rare_record)
        self._at_first = at_first
        super().__init__(
            settings.require_database,
            connection_class=self.connections,
            # The pool calls this for each connection, because a fork changes the process id.
            kwargs=partial(connection_options, settings, program),
            configure=self.prepare,
            min_size=1,
            max_size=settings.web_threads,
            timeout=settings.pool_timeout,
            # In seconds. With the default (300), the pauses between attempts to connect would
            # become long.
            reconnect_timeout=5,
            open=False,
        )

    def prepare(self, connection: Connection) -> None:
        """Configure a new connection."""
        timeout = self.settings.statement_timeout
        # Let all statements stay prepared. There are more of them than psycopg's default limit 100.
        connection.prepared_max = None
        self.watchdog.watch(connection, monotonic() + self.seconds)
        try:
            connection.run("connection/defaults")
            connection.run(
                "connection/configure",
                statement_timeout=f"{timeout}s",
                lock_timeout=f"{timeout / 4}s",
                idle_timeout="10s",
            )
            self.fault = fault_of(connection)
            if self.fault:
                if is_rare(str(self.fault)):
                    log.error("%s", self.fault)
                return
            at_first, self._at_first = self._at_first, None
            if at_first:
                at_first(connection)
        finally:
            self.watchdog.release(connection)

    def take(self, deadline: float, queued: float) -> Connection:
        """Take a connection, which the watchdog shuts down at ``deadline`` unless it is returned.

        Raises UnusableDatabase, and PoolTimeout if no connection becomes free within POOL_TIMEOUT
        or before the deadline. The seconds that the request was ``queued`` count as waited.
        """
        if self.closed:
            self.open()
        left = deadline - monotonic()
        if left <= 0:
            raise PoolTimeout("no time is left for the database")
        # While the database does not answer, the queued requests must not each wait in turn.
        shortest = min(self.timeout, self.SHORTEST_WAIT)
        connection = self.getconn(min(left, max(self.timeout - queued, shortest)))
        if fault := self.fault:
            # A new connection may reach another database, which the service can use.
            connection.close()
            self.putconn(connection)
            raise fault
        try:
            self.watchdog.watch(connection, deadline)
        except BaseException:
            self.putconn(connection)
            raise
        return connection

    def putconn(self, connection: Connection) -> None:
        """Return a connection to the pool, even if a signal interrupts psycopg's rollback."""
        try:
            super().putconn(connection)
        except BaseException:
            # psycopg_pool replaces a closed connection.
            connection.close()
            super().putconn(connection)
            raise

    def give_back(self, connection: Connection) -> None:
        """Return a connection, even a broken one. The caller must not use it afterwards."""
        self.watchdog.release(connection)
        self.putconn(connection)
        if connection.is_read_only and monotonic() > self._last_drained + self.CHECK_INTERVAL:
            # New connections may write again.
            self.drain()

    def drain(self) -> None:
        """Replace all connections; a connection in use is replaced when it is returned."""
        self._last_drained = monotonic()
        super().drain()

    def stay_connected(self) -> None:
        """Open the pool, replace a lost connection even when idle, and save the counts."""
        self.open()
        Thread(target=self._check_periodically, name="idle check", daemon=True).start()

    def _check_periodically(self) -> None:
        while not self._stopping.wait(self.CHECK_INTERVAL):
            self.check_idle()

    def check_idle(self) -> None:
        """Replace all connections if PostgreSQL has closed a free one; connect if there is none."""
        try:
            # A busy process must not seem dead.
            connection = self.getconn(1 if monotonic() > self._due + self.LATE else 0.01)
        except (PoolTimeout, PoolClosed):
            # All connections are in use, or psycopg_pool is already trying to connect, with pauses
            # of 1 and 2 s.
            return
        with suppress(psycopg.OperationalError):
            # The first call reads PostgreSQL's last message, the second one the end of the stream.
            connection.pgconn.consume_input()
            connection.pgconn.consume_input()
        if not connection.broken and monotonic() >= self._due:
            self._due = monotonic() + self.SIGN_INTERVAL
            self._write(self.counters.save, connection)
            self._write(self.sign_of_life.renew, connection)
        self.putconn(connection)
        if connection.broken:
            self.drain()

    def _write(self, write: Callable[[Connection], None], connection: Connection) -> None:
        """Save the counts or the sign of life; give up if that takes more than a second."""
        self.watchdog.watch(connection, monotonic() + 1)
        try:
            write(connection)
        except psycopg.Error:
            # Requests fail with the same error, and log it.
            pass
        finally:
            self.watchdog.release(connection)

    def close(self, timeout: float = 5.0) -> None:
        """Save the counts and close all connections.

        A connection in use is closed when it is returned.
        """
        self._stopping.set()
        with suppress(PoolTimeout, psycopg.Error):
            connection = self.getconn(0.01)
            self._write(self.counters.save, connection)
            self._write(self.sign_of_life.end, connection)
            self.putconn(connection)
        self.watchdog.close()
        super().close(timeout)
