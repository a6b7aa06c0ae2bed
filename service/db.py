"""The database: one pool per process, one connection per request, one SQL file per statement."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from pathlib import Path
from time import monotonic
from typing import Any

import psycopg
from flask import Flask, current_app, g
from psycopg.adapt import Buffer, Loader
from psycopg.rows import namedtuple_row
from psycopg_pool import ConnectionPool

from service.settings import Settings
from service.watchdog import Watchdog

# In a checkout a link to the folder beside the package, else a part of the package.
SQL = Path(__file__).with_name("sql").resolve()
# Read at once: an upgrade that replaces code and SQL on the disk gives this process neither.
STATEMENTS = {
    str(path.relative_to(SQL).with_suffix("")): path.read_bytes() for path in SQL.rglob("*.sql")
}

Connection = psycopg.Connection[Any]


class NotFound(LookupError):
    """No row of ``resource`` has this id for this caller."""

    def __init__(self, resource: str) -> None:
        super().__init__(resource)
        self.resource = resource


class JsonAsBytes(Loader):
    """Hand JSON on as the bytes that Postgres wrote: no response is parsed or rebuilt."""

    def load(self, data: Buffer) -> bytes:
        """Copy the bytes."""
        return bytes(data)


def to_json(value: object) -> str:
    """Python values as JSON text, for statements that take whole objects."""
    return json.dumps(value, default=datetime.isoformat)


def statement(name: str) -> bytes:
    """Return the text of ``sql/<name>.sql``, byte for byte."""
    return STATEMENTS[name]


@cache
def migrations() -> list[str]:
    """Return the names of all migrations, in order."""
    names = sorted(name for name in STATEMENTS if name.startswith("schema/"))
    return [name.removeprefix("schema/") for name in names]


def connection_options(settings: Settings) -> dict[str, Any]:
    """What every connection has in common."""
    return {
        "autocommit": True,
        "connect_timeout": 2,
        "prepare_threshold": 1 if settings.database_prepare else None,
        "row_factory": namedtuple_row,
        # A peer that is gone without a word is noticed after 5 s with data on the way, else 25 s.
        "tcp_user_timeout": 5000,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
    }


def connect(settings: Settings, **options: Any) -> Connection:
    """Open one connection for a command: autocommit, rows as named tuples, JSON as bytes."""
    options = {**connection_options(settings), **options}
    connection = psycopg.connect(settings.require_database(), **options)
    connection.adapters.register_loader("json", JsonAsBytes)
    return connection


class Pool(ConnectionPool[Connection]):
    """Opens on first use, so that each forked worker has connections of its own.

    A connection that a request holds for longer than STATEMENT_TIMEOUT and a bit is ended.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.seconds = settings.statement_timeout + 0.5
        self.watchdog = Watchdog()
        super().__init__(
            settings.require_database,
            kwargs=connection_options(settings),
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
        connection.adapters.register_loader("json", JsonAsBytes)
        timeout = f"{self.settings.statement_timeout}s"
        self.watchdog.watch(connection, monotonic() + self.seconds)
        connection.execute(
            statement("connection/configure"), {"statement_timeout": timeout, "idle_timeout": "10s"}
        )
        self.watchdog.release(connection)

    def take(self, deadline: float) -> Connection:
        """Take a connection that is ended at ``deadline`` unless it is given back before."""
        if self.closed:
            self.open()
        connection = self.getconn()
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
    """Give the app its pool."""
    app.extensions["pool"] = Pool(app.config["SETTINGS"])
    app.teardown_request(release)


def _connection() -> Connection:
    if "connection" not in g:
        pool = current_app.extensions["pool"]
        g.setdefault("deadline", monotonic() + pool.seconds)
        g.connection = pool.take(g.deadline)
    return g.connection  # type: ignore[no-any-return]


def release(_error: BaseException | None = None) -> None:
    """Return the connection of this request to the pool; the next statement takes another one."""
    g.pop("deadline", None)
    if "connection" in g:
        current_app.extensions["pool"].give_back(g.pop("connection"))


@contextmanager
def transaction() -> Iterator[None]:
    """Make all statements inside one transaction."""
    with _connection().transaction():
        yield


def row_with_retry(name: str, /, **values: Any) -> Any:
    """Run the first statement of a request, again if the pooled connection turns out dead.

    Connections die in the pool when Postgres restarts. Only the first statement may be repeated:
    nothing of this request has been written yet.
    """
    try:
        return _connection().execute(statement(name), values).fetchone()
    except psycopg.OperationalError:
        deadline = g.deadline
        if "connection" not in g or not g.connection.broken or monotonic() >= deadline:
            raise
        release()
        g.deadline = deadline
        # The others died with it.
        current_app.extensions["pool"].drain()
        return _connection().execute(statement(name), values).fetchone()


def row(name: str, /, **values: Any) -> Any:
    """Run ``sql/<name>.sql`` as the caller of this request; returns its first row, or None.

    ``user_id`` and ``workspace_id`` of the caller are always parameters.
    """
    return _connection().execute(statement(name), {**g.caller, **values}).fetchone()


def row_custom_plan(name: str, /, **values: Any) -> Any:
    """Like :func:`row`, but planned for these values, which psycopg writes into the text."""
    cursor = psycopg.ClientCursor(_connection(), row_factory=namedtuple_row)
    return cursor.execute(statement(name), {**g.caller, **values}).fetchone()


def row_or_raise(name: str, /, **values: Any) -> Any:
    """Like :func:`row`; raises NotFound if there is no row for this caller."""
    row_or_none = row(name, **values)
    if row_or_none is None:
        raise NotFound(name.split("/")[0].removesuffix("s"))
    return row_or_none
