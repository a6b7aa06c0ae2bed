"""The database: one pool per process, one connection per request, one SQL file per statement."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from time import monotonic
from typing import Any, cast

import psycopg
from flask import Flask, current_app
from psycopg.rows import args_row
from psycopg_pool import ConnectionPool, PoolTimeout

from service.process import application_name
from service.settings import Settings
from service.state import State, state
from service.statements import STATEMENTS, Connection, Row
from service.watchdog import Watchdog


class NotFound(LookupError):
    """No row of ``resource`` has this id for this caller."""

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
    """Return the encoding of the database; a pooler that does not tell it counts as UTF8."""
    return connection.info.parameter_status("server_encoding") or "UTF8"


def to_json(value: object) -> str:
    """Return a value as JSON text, for statements that take whole objects."""
    return json.dumps(value, default=datetime.isoformat)


def connection_options(settings: Settings, program: str) -> dict[str, Any]:
    """Return the options of libpq and psycopg that every connection of a program has."""
    return {
        # In pg_stat_activity.
        "application_name": application_name(program),
        "autocommit": True,
        # Responses are UTF-8; PGCLIENTENCODING must not change that.
        "client_encoding": "UTF8",
        "connect_timeout": 2,
        "prepare_threshold": 1 if settings.database_prepare else None,
        # Dead peers are detected after 25 s (5 s with data in flight).
        "tcp_user_timeout": 5000,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
    }


def connect(settings: Settings, command: str) -> Connection:
    """Open one connection for a command: autocommit, and nothing is prepared.

    Raises WrongEncoding.
    """
    options = {**connection_options(settings, command), "prepare_threshold": None}
    connection = Connection.connect(settings.require_database(), **options)
    if (encoding := encoding_of(connection)) != "UTF8":
        connection.close()
        raise WrongEncoding(encoding)
    return connection


class Pool(ConnectionPool[Connection]):
    """Opens on first use, so that each forked worker has connections of its own.

    ``program`` is web or worker. ``seconds`` is how long a request may use the database; a
    connection that it holds for longer is shut down.
    """

    def __init__(self, settings: Settings, program: str) -> None:
        self.settings = settings
        # With the watchdog's interval, less than a second beyond the statement's own timeout.
        self.seconds = settings.statement_timeout + 0.8
        self.watchdog = Watchdog()
        self.encoding = "UTF8"
        # Called once, with the first connection of this process.
        self.at_first: Callable[[Connection], None] | None = None
        super().__init__(
            settings.require_database,
            connection_class=Connection,
            # Called for each connection: the process may have been forked since.
            kwargs=partial(connection_options, settings, program),
            configure=self.prepare,
            min_size=1,
            max_size=settings.web_threads,
            timeout=settings.pool_timeout,
            # With the default of five minutes, attempts to reconnect grow far apart.
            reconnect_timeout=5,
            open=False,
        )

    def prepare(self, connection: Connection) -> None:
        """Set up a new connection."""
        timeout = f"{self.settings.statement_timeout}s"
        self.watchdog.watch(connection, monotonic() + self.seconds)
        connection.run(
            "connection/configure", {"statement_timeout": timeout, "idle_timeout": "10s"}
        )
        self.encoding = encoding_of(connection)
        at_first, self.at_first = self.at_first, None
        if at_first:
            at_first(connection)
        self.watchdog.release(connection)

    def take(self, deadline: float) -> Connection:
        """Take a connection that is shut down at ``deadline`` unless it is given back before.

        Raises PoolTimeout if there is none within POOL_TIMEOUT, or by the deadline, and
        WrongEncoding.
        """
        if self.closed:
            self.open()
        left = deadline - monotonic()
        if left <= 0:
            raise PoolTimeout("no time is left for the database")
        connection = self.getconn(min(left, self.timeout))
        if self.encoding != "UTF8":
            # The next connection may lead to another database.
            connection.close()
            self.putconn(connection)
            raise WrongEncoding(self.encoding)
        self.watchdog.watch(connection, deadline)
        return connection

    def give_back(self, connection: Connection) -> None:
        """Return a connection."""
        self.watchdog.release(connection)
        self.putconn(connection)

    def close(self, timeout: float = 5.0) -> None:
        """Close all connections."""
        self.watchdog.close()
        super().close(timeout)


def init_app(app: Flask) -> None:
    """Give the app its pool, and each request its state."""
    app.extensions["pool"] = Pool(app.config["SETTINGS"], "web")
    app.app_ctx_globals_class = State  # type: ignore[assignment]
    app.teardown_request(release)


def pool() -> Pool:
    """Return the pool of the current app."""
    return cast(Pool, current_app.extensions["pool"])


def limit(seconds: float) -> None:
    """From now on, give this request so many seconds of the database."""
    state().deadline = monotonic() + seconds


def extend(seconds: float) -> None:
    """Give this request back so many seconds, in which it has waited for its client."""
    here = state()
    here.deadline = (here.deadline or here.arrived + pool().seconds) + seconds


def connection() -> Connection:
    """Return the connection of this request; raises PoolTimeout.

    A request that has waited in a queue has less time left for the database.
    """
    here = state()
    if here.connection is None:
        connections = pool()
        asked = monotonic()
        here.deadline = here.deadline or here.arrived + connections.seconds
        here.connection = connections.take(here.deadline)
        here.waited += monotonic() - asked
    return here.connection


def release(_error: BaseException | None = None) -> None:
    """Return the connection of this request to the pool; the next statement takes another one."""
    here = state()
    if here.connection is not None:
        pool().give_back(here.connection)
        here.connection = None


@contextmanager
def transaction() -> Iterator[None]:
    """Make all statements inside one transaction."""
    with connection().transaction():
        yield


def row_with_retry(kind: type[Row], name: str, /, **values: object) -> Row:
    """Run the first statement of a request, again if the pooled connection turns out dead.

    Connections die in the pool when Postgres restarts. Only the first statement may be repeated:
    nothing of this request has been written yet.
    """
    try:
        row = connection().row(kind, name, values)
    except psycopg.OperationalError:
        here = state()
        lost = here.connection is not None and here.connection.broken
        if not lost or monotonic() >= here.deadline:
            raise
        release()
        # The others died with it.
        pool().drain()
        row = connection().row(kind, name, values)
    return found(row, name)


def row_or_none(kind: type[Row], name: str, /, **values: object) -> Row | None:
    """Run ``sql/<name>.sql`` as the caller of this request; returns its first row, or None.

    ``user_id`` and ``workspace_id`` of the caller are always parameters.
    """
    return connection().row(kind, name, {**state().caller, **values})


def row(kind: type[Row], name: str, /, **values: object) -> Row:
    """Like :func:`row_or_none`; raises NotFound if there is no row for this caller."""
    return found(connection().row(kind, name, {**state().caller, **values}), name)


def row_custom_plan(kind: type[Row], name: str, /, **values: object) -> Row:
    """Like :func:`row`, but planned for these values, which psycopg writes into the text."""
    cursor = psycopg.ClientCursor(connection(), row_factory=args_row(kind))
    cursor.execute(STATEMENTS[name].source, {**state().caller, **values})
    return found(cursor.fetchone(), name)


def execute(name: str, /, **values: object) -> None:
    """Run ``sql/<name>.sql`` as the caller of this request, for its effect."""
    connection().run(name, {**state().caller, **values})


def found(row: Row | None, name: str) -> Row:
    """Return the row; raises NotFound, naming the resource, if there is none."""
    if row is None:
        raise NotFound(name.partition("/")[0].removesuffix("s"))
    return row
