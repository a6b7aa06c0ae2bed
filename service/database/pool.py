"""Connections to the database: one for a command, a pool for each process that serves.

The watchdog is here too: the pool alone knows which connections are in use, and until when.
"""

import logging
import os
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any, cast

import psycopg
from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool, PoolTimeout
from psycopg_pool.pool import MaintenanceTask

from service.database.counters import Counters
from service.database.sign_of_life import SignOfLife
from service.database.statements import Connection
from service.logs import is_rare, is_rare_record
from service.process import application_name
from service.settings import Settings

# The oldest major version of PostgreSQL that has all that the statements use.
OLDEST = 15

log = logging.getLogger("service.database")


class UnusableDatabase(psycopg.NotSupportedError):
    """The service cannot run on this database, whatever its tables are; the message says why."""


class OldServer(UnusableDatabase):
    """The server is an older PostgreSQL than the statements need."""

    def __init__(self, version: str) -> None:
        super().__init__(f"PostgreSQL {version}: this service needs {OLDEST} or later")


class WrongEncoding(UnusableDatabase):
    """The database stores text in another encoding than UTF-8; SQL_ASCII stores any bytes."""

    def __init__(self, encoding: str) -> None:
        super().__init__(
            f"the database has the encoding {encoding}: create another one with"
            " CREATE DATABASE name ENCODING 'UTF8' TEMPLATE template0"
        )


def encoding_of(connection: Connection) -> str:
    """Read the encoding of the database; UTF8 if a connection pooler does not report one."""
    return connection.info.parameter_status("server_encoding") or "UTF8"


def fault_of(connection: Connection) -> UnusableDatabase | None:
    """Return why the service cannot run on this database; None if it can."""
    # A connection pooler that reports no version makes it 0.
    if 0 < connection.info.server_version < OLDEST * 10_000:
        # Debian adds the version of its package, in parentheses.
        version = connection.info.parameter_status("server_version") or "?"
        return OldServer(version.partition(" ")[0])
    encoding = encoding_of(connection)
    return None if encoding == "UTF8" else WrongEncoding(encoding)


def connection_options(settings: Settings, program: str) -> dict[str, Any]:
    return {
        # PostgreSQL shows this name in pg_stat_activity.
        "application_name": application_name(program),
        "autocommit": True,
        # Responses are UTF-8; PGCLIENTENCODING must not change that.
        "client_encoding": "UTF8",
        "connect_timeout": 2,
        # Connection (statements.py) prepares each statement when it first runs, or none if None.
        "prepare_threshold": 1 if settings.database_prepare else None,
        # A dead peer is detected within 5 s with data in flight, else after 15 s on Linux, where
        # tcp_user_timeout takes the place of keepalives_count, and after 25 s elsewhere.
        "tcp_user_timeout": 5000,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
    }


def connect(settings: Settings, command: str) -> Connection:
    """Connect for a command, in autocommit mode and without prepared statements.

    Raises InvalidSetting without DATABASE_URL, UnusableDatabase, and psycopg.Error.
    """
    options = {**connection_options(settings, command), "prepare_threshold": None}
    connection = Connection.connect(settings.require_database(), **options)
    if fault := fault_of(connection):
        connection.close()
        raise fault
    return connection


class Watchdog:
    """Shuts down connections that do not respond; one thread per process watches them all.

    When PostgreSQL freezes, none of its timeouts fires, but its kernel still acknowledges data:
    libpq would wait for ever. When the network freezes, libpq notices it later than a client should
    wait. After the socket is shut down, the waiting statement fails as on a lost connection.
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
            # The thread starts with the first connection: a fork of gunicorn copies no threads.
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
            # ``release`` needs the lock, so no watched connection is closed during this loop, and
            # its file descriptor belongs to no other socket.
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

    # Seconds in which the pool finds a free connection, or makes one if the database responds.
    SHORTEST_WAIT = 0.2
    # After this many seconds a connection returns to psycopg_pool, so that it can be retired.
    MAX_WARM_SECONDS = 60
    # Seconds between two checks of the connection of an idle process, and after which a connection
    # that cannot write is replaced.
    CHECK_INTERVAL = 2

    def __init__(
        self, settings: Settings, program: str, at_first: Callable[[Connection], None] | None = None
    ) -> None:
        self.settings = settings
        # With the watchdog's interval, less than a second beyond the statement's own timeout.
        self.seconds = settings.statement_timeout + 0.8
        self.watchdog = Watchdog()
        # Why the newest connection leads to a database that the service cannot run on.
        self.fault: UnusableDatabase | None = None
        self.counters = Counters()
        self.sign_of_life = SignOfLife(program)
        # The free connections; the one used last is taken first, because its backend is warm.
        # psycopg_pool is first-in-first-out and takes 44 000 instructions; this takes 27 000. Each
        # holder of a slot finds a connection here or in psycopg_pool.
        self._warm: deque[Connection] = deque()
        self._slots: SimpleQueue[None] = SimpleQueue()
        for _ in range(settings.web_threads):
            self._slots.put(None)
        self._drained = 0.0
        # Why psycopg_pool cannot connect is logged once a minute; a logger takes each filter once.
        logging.getLogger("psycopg.pool").addFilter(is_rare_record)
        self._at_first = at_first
        super().__init__(
            settings.require_database,
            connection_class=Connection,
            # The pool calls this for each connection, because a fork changes the process id.
            kwargs=partial(connection_options, settings, program),
            configure=self.prepare,
            min_size=1,
            max_size=settings.web_threads,
            timeout=settings.pool_timeout,
            # Seconds. With the default (300) the pauses between attempts would become long.
            reconnect_timeout=5,
            open=False,
        )

    def prepare(self, connection: Connection) -> None:
        timeout = f"{self.settings.statement_timeout}s"
        self.watchdog.watch(connection, monotonic() + self.seconds)
        try:
            connection.run(
                "connection/configure", {"statement_timeout": timeout, "idle_timeout": "10s"}
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

    def getconn(self, timeout: float | None = None) -> Connection:
        """Take a free connection, the one used last first; raises PoolTimeout.

        The caller holds a slot of the pool until it passes the connection to ``putconn``, which it
        must do in each case, also with a broken one.
        """
        seconds = self.timeout if timeout is None else timeout
        end = monotonic() + seconds
        try:
            self._slots.get(timeout=seconds)
        except Empty:
            raise PoolTimeout(f"no connection became free within {seconds:.1f} s") from None
        try:
            return self._warm.pop()
        except IndexError:
            pass
        try:
            connection = super().getconn(max(0, end - monotonic()))
        except BaseException:
            self._slots.put(None)
            raise
        connection.taken_at = monotonic()
        return connection

    def putconn(self, connection: Connection) -> None:
        """Keep a connection for the next request, unless it is broken or was kept for long.

        This frees the slot: the caller must not use the connection afterwards.
        """
        if connection.is_read_only and connection.taken_at < monotonic() - self.CHECK_INTERVAL:
            # New connections may write again.
            self.drain()
        oldest = max(self._drained, monotonic() - self.MAX_WARM_SECONDS)
        # If it is not idle, psycopg_pool ends it, or rolls its transaction back.
        is_idle = connection.pgconn.transaction_status == TransactionStatus.IDLE
        is_fresh = connection.taken_at > oldest
        try:
            if is_idle and is_fresh and not self.closed:
                self._warm.append(connection)
            else:
                super().putconn(connection)
        except BaseException:
            # psycopg_pool replaces a closed connection.
            connection.close()
            super().putconn(connection)
            raise
        finally:
            self._slots.put(None)
        self._put_back(oldest)

    def _put_back(self, oldest: float) -> None:
        """Put the kept connections that were taken before ``oldest`` into psycopg_pool."""
        try:
            while self._warm[0].taken_at <= oldest:
                super().putconn(self._warm.popleft())
        except IndexError:
            # None is left; another thread may have taken the last one.
            return

    def drain(self) -> None:
        """Replace all connections, also those in use once they are put back."""
        self._drained = monotonic()
        super().drain()
        self._put_back(self._drained)

    def stay_connected(self) -> None:
        """Open the pool, replace a lost connection even when idle, and save the counts."""
        self.open()
        self.run_task(IdleCheck(self))

    def check_idle(self) -> None:
        """Replace all connections if PostgreSQL has closed a free one; connect if there is none."""
        try:
            # A busy process must not seem dead.
            connection = self.getconn(1 if self.sign_of_life.is_late else 0.01)
        except PoolTimeout:
            # All are in use; or psycopg_pool has begun to connect, with pauses of 1 and 2 s.
            return
        with suppress(psycopg.OperationalError):
            # The last message of PostgreSQL, then the end.
            connection.pgconn.consume_input()
            connection.pgconn.consume_input()
        if not connection.broken:
            self._write(self.counters.save, connection)
            self._write(self.sign_of_life.renew, connection)
        self.putconn(connection)
        if connection.broken:
            self.drain()

    def _write(self, write: Callable[[Connection], None], connection: Connection) -> None:
        """Write what this process tells about itself within a second; otherwise later."""
        self.watchdog.watch(connection, monotonic() + 1)
        try:
            write(connection)
        except psycopg.Error:
            # Requests meet the same error, and log it.
            pass
        finally:
            self.watchdog.release(connection)

    def take(self, deadline: float, queued: float) -> Connection:
        """Take a connection, which is shut down at ``deadline`` unless it is given back before.

        Raises UnusableDatabase, and PoolTimeout if no connection becomes free within POOL_TIMEOUT
        or before the deadline. The seconds that the request was ``queued`` count as waited.
        """
        if self.closed:
            self.open()
        left = deadline - monotonic()
        if left <= 0:
            raise PoolTimeout("no time is left for the database")
        # While the database is away, the requests in the queue must not wait one after the other.
        shortest = min(self.timeout, self.SHORTEST_WAIT)
        connection = self.getconn(min(left, max(self.timeout - queued, shortest)))
        if fault := self.fault:
            # The next connection may lead to another database.
            connection.close()
            self.putconn(connection)
            raise fault
        try:
            self.watchdog.watch(connection, deadline)
        except BaseException:
            self.putconn(connection)
            raise
        return connection

    def give_back(self, connection: Connection) -> None:
        self.watchdog.release(connection)
        self.putconn(connection)

    def close(self, timeout: float = 5.0) -> None:
        with suppress(PoolTimeout, psycopg.Error):
            connection = self.getconn(0.01)
            self._write(partial(self.counters.save, due=False), connection)
            self._write(self.sign_of_life.end, connection)
            self.putconn(connection)
        self.watchdog.close()
        self._put_back(monotonic())
        super().close(timeout)


class IdleCheck(MaintenanceTask):
    """Checks an idle pool periodically, in a thread of psycopg_pool."""

    def _run(self, pool: ConnectionPool[Any]) -> None:
        try:
            cast(Pool, pool).check_idle()
        finally:
            pool.schedule_task(self, Pool.CHECK_INTERVAL)
