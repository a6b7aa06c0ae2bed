"""The database: one pool per process, one connection at a time per request.

A request gives its connection back before it waits for anything but the database.
"""

import json
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, cast

import psycopg
from flask import Flask
from psycopg.pq import TransactionStatus
from psycopg.rows import args_row
from psycopg_pool import ConnectionPool, PoolTimeout

from service.process import application_name
from service.settings import Settings
from service.state import RequestState, current_application, current_state
from service.statements import STATEMENTS, Connection, Row
from service.watchdog import Watchdog


class NotFound(LookupError):
    """The caller can see no row of ``resource`` with this id."""

    def __init__(self, resource: str) -> None:
        super().__init__(resource)
        self.resource = resource


class WrongEncoding(psycopg.NotSupportedError):
    """The database stores text in another encoding than UTF-8; SQL_ASCII stores any bytes."""

    def __init__(self, encoding: str) -> None:
        super().__init__(
            f"the database has the encoding {encoding}: create another one with"
            " CREATE DATABASE name ENCODING 'UTF8' TEMPLATE template0"
        )


def encoding_of(connection: Connection) -> str:
    """Return the encoding of the database; UTF8 if a connection pooler does not report one."""
    return connection.info.parameter_status("server_encoding") or "UTF8"


def to_json(value: object) -> str:
    """Return a value as JSON text, for statements that take whole objects."""
    return json.dumps(value, default=datetime.isoformat)


def connection_options(settings: Settings, program: str) -> dict[str, Any]:
    """Return the options of libpq and psycopg that every connection of a program has."""
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

    Raises InvalidSetting without DATABASE_URL, WrongEncoding, and psycopg.Error.
    """
    options = {**connection_options(settings, command), "prepare_threshold": None}
    connection = Connection.connect(settings.require_database(), **options)
    if (encoding := encoding_of(connection)) != "UTF8":
        connection.close()
        raise WrongEncoding(encoding)
    return connection


class Pool(ConnectionPool[Connection]):
    """A pool that is made closed, so that each forked worker opens connections of its own.

    ``program`` is web or worker. Unless it sets another deadline, a request may use the database
    for ``seconds``; the watchdog shuts down a connection that a request holds for longer.
    ``at_first`` is called once, with the first connection of the process.
    """

    # Seconds in which the pool finds a free connection, or makes one if the database responds.
    SHORTEST_WAIT = 0.2
    # Seconds after which a connection goes back to psycopg_pool, which ends old and idle ones, at
    # the end of the next request.
    KEPT = 60

    def __init__(
        self,
        settings: Settings,
        program: str,
        at_first: Callable[[Connection], None] | None = None,
    ) -> None:
        self.settings = settings
        # With the watchdog's interval, less than a second beyond the statement's own timeout.
        self.seconds = settings.statement_timeout + 0.8
        self.watchdog = Watchdog()
        self.encoding = "UTF8"
        # The free connections; the one used last is taken first, because its backend is warm.
        # psycopg_pool gives the one that was free for longest, for 44 thousand instructions
        # instead of 27. Each holder of a turn finds a connection here or in psycopg_pool.
        self._warm: deque[Connection] = deque()
        self._turns: SimpleQueue[None] = SimpleQueue()
        for _ in range(settings.web_threads):
            self._turns.put(None)
        self._drained = 0.0
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
        """Set up a new connection."""
        timeout = f"{self.settings.statement_timeout}s"
        self.watchdog.watch(connection, monotonic() + self.seconds)
        try:
            connection.run(
                "connection/configure", {"statement_timeout": timeout, "idle_timeout": "10s"}
            )
            self.encoding = encoding_of(connection)
            at_first, self._at_first = self._at_first, None
            if at_first:
                at_first(connection)
        finally:
            self.watchdog.release(connection)

    def getconn(self, timeout: float | None = None) -> Connection:
        """Take a free connection, the one used last first; raises PoolTimeout."""
        seconds = self.timeout if timeout is None else timeout
        end = monotonic() + seconds
        try:
            self._turns.get(timeout=seconds)
        except Empty:
            raise PoolTimeout(f"no connection became free within {seconds:.1f} s") from None
        try:
            return self._warm.pop()
        except IndexError:
            pass
        try:
            connection = super().getconn(max(0, end - monotonic()))
        except BaseException:
            self._turns.put(None)
            raise
        connection.taken_at = monotonic()
        return connection

    def putconn(self, connection: Connection) -> None:
        """Keep a connection for the next request, unless it is broken or was kept for long."""
        oldest = max(self._drained, monotonic() - self.KEPT)
        # If it is not idle, psycopg_pool ends it, or rolls its transaction back.
        is_idle = connection.pgconn.transaction_status == TransactionStatus.IDLE
        is_fresh = connection.taken_at > oldest
        if is_idle and is_fresh and not self.closed:
            self._warm.append(connection)
        else:
            super().putconn(connection)
        self._turns.put(None)
        self._put_back(oldest)

    def _put_back(self, oldest: float) -> None:
        """Put the kept connections that were taken before ``oldest`` into psycopg_pool."""
        with suppress(IndexError):
            while self._warm[0].taken_at <= oldest:
                super().putconn(self._warm.popleft())

    def drain(self) -> None:
        """Replace all connections, also those in use once they are put back."""
        self._drained = monotonic()
        super().drain()
        self._put_back(self._drained)

    def take(self, deadline: float, queued: float = 0) -> Connection:
        """Take a connection, which is shut down at ``deadline`` unless it is given back before.

        Raises WrongEncoding, and PoolTimeout if no connection becomes free within POOL_TIMEOUT
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
        if self.encoding != "UTF8":
            # The next connection may lead to another database.
            connection.close()
            self.putconn(connection)
            raise WrongEncoding(self.encoding)
        self.watchdog.watch(connection, deadline)
        return connection

    def give_back(self, connection: Connection) -> None:
        """Put a connection back into the pool."""
        self.watchdog.release(connection)
        self.putconn(connection)

    def close(self, timeout: float = 5.0) -> None:
        """Close all connections."""
        self.watchdog.close()
        self._put_back(monotonic())
        super().close(timeout)


def init_app(app: Flask, at_first: Callable[[Connection], None] | None = None) -> None:
    """Give the app its pool, and each request its state; ``at_first`` is that of the pool."""
    app.extensions["pool"] = Pool(app.config["SETTINGS"], "web", at_first)
    app.app_ctx_globals_class = RequestState  # type: ignore[assignment]
    app.teardown_request(release)


def pool() -> Pool:
    """Return the pool of the current app."""
    return cast(Pool, current_application().extensions["pool"])


def set_deadline(seconds: float) -> None:
    """Let this request use the database for ``seconds`` from now on, with its connection too."""
    state = current_state()
    state.deadline = monotonic() + seconds
    if state.connection is not None:
        pool().watchdog.watch(state.connection, state.deadline)


def connection(state: RequestState) -> Connection:
    """Take a connection for a request that has none; raises PoolTimeout or WrongEncoding.

    A request that has waited in a queue has less time left for the database.
    """
    if state.connection is None:
        connections = pool()
        asked = monotonic()
        state.deadline = state.deadline or state.arrived + connections.seconds
        state.connection = connections.take(state.deadline, state.queued)
        state.waited += monotonic() - asked
    return state.connection


def release(_error: BaseException | None = None) -> None:
    """Give the connection of this request back; the next statement takes another connection."""
    state = current_state()
    if state.connection is not None:
        pool().give_back(state.connection)
        state.connection = None


@contextmanager
def transaction() -> Iterator[None]:
    """Run all statements of the ``with`` block in one transaction."""
    with connection(current_state()).transaction():
        yield


def row_with_retry(kind: type[Row], name: str, /, **values: object) -> Row:
    """Run the first statement of a request; run it again if its connection was dead.

    When PostgreSQL restarts, the pooled connections die. Only the first statement may run again:
    this request has written nothing yet.
    """
    state = current_state()
    try:
        row = connection(state).row(kind, name, values)
    except psycopg.OperationalError:
        lost = state.connection is not None and state.connection.broken
        if not lost or monotonic() >= state.deadline:
            raise
        release()
        # The other connections of the pool have died too.
        pool().drain()
        row = connection(state).row(kind, name, values)
    return found(row, name)


def row_or_none(kind: type[Row], name: str, /, **values: object) -> Row | None:
    """Run ``sql/<name>.sql`` for this request; return its first row, or None.

    The statement can always use ``user_id`` and ``workspace_id`` of the caller as parameters.
    """
    state = current_state()
    return connection(state).row(kind, name, {**state.caller, **values})


def row(kind: type[Row], name: str, /, **values: object) -> Row:
    """Run ``sql/<name>.sql`` as ``row_or_none`` does; raise NotFound if it has no row."""
    return found(row_or_none(kind, name, **values), name)


def rows(kind: type[Row], name: str, /, **values: object) -> list[Row]:
    """Run ``sql/<name>.sql`` as ``row_or_none`` does, and return all its rows."""
    state = current_state()
    return connection(state).rows(kind, name, {**state.caller, **values})


def row_client_bound(kind: type[Row], name: str, /, **values: object) -> Row:
    """Run as ``row`` does, but psycopg writes the values into the text, for the planner."""
    state = current_state()
    cursor = psycopg.ClientCursor(connection(state), row_factory=args_row(kind))
    cursor.execute(STATEMENTS[name].source, {**state.caller, **values})
    return found(cursor.fetchone(), name)


def execute(name: str, /, **values: object) -> None:
    """Run ``sql/<name>.sql`` as the caller of this request; ignore its rows."""
    state = current_state()
    connection(state).run(name, {**state.caller, **values})


def found(row: Row | None, name: str) -> Row:
    """Return the row; if it is None, raise NotFound with the name of the resource."""
    if row is None:
        raise NotFound(name.partition("/")[0].removesuffix("s"))
    return row
