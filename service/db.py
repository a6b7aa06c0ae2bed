"""The database: one pool per process, one connection per request, one SQL file per statement."""

import json
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from pathlib import Path
from threading import Lock

import psycopg
from flask import current_app, g
from psycopg.adapt import Loader
from psycopg.rows import namedtuple_row
from psycopg_pool import ConnectionPool

from service.errors import NotHere

SQL = Path(__file__).resolve().parent.parent / "sql"


class JsonAsBytes(Loader):
    """Hand JSON on as the bytes that Postgres wrote: no answer is parsed or rebuilt."""

    def load(self, data):
        return bytes(data)


def document(changes):
    """Named values as one JSON document, for statements that take a subset of columns."""
    return json.dumps(changes, default=datetime.isoformat)


@cache
def statement(name):
    """Return the text of ``sql/<name>.sql``, byte for byte."""
    return (SQL / f"{name}.sql").read_text(encoding="utf-8")


def how(settings):
    """How every connection is made."""
    return {
        "autocommit": True,
        "connect_timeout": 2,
        "prepare_threshold": 1 if settings.database_prepare else None,
        "row_factory": namedtuple_row,
    }


def connect(settings, **options):
    """Open one connection for a command: autocommit, rows as named tuples, JSON as bytes."""
    connection = psycopg.connect(settings.require_database(), **{**how(settings), **options})
    connection.adapters.register_loader("json", JsonAsBytes)
    return connection


class Database:
    """A pool that opens on first use, so that each forked worker has its own."""

    def __init__(self, settings):
        self.settings = settings
        self._pool = None
        self._lock = Lock()

    @property
    def pool(self):
        if self._pool is None:
            with self._lock:
                if self._pool is None:
                    self._pool = self._open()
        return self._pool

    def _open(self):
        settings = self.settings
        pool = ConnectionPool(
            settings.require_database(),
            kwargs=how(settings),
            configure=self._configure,
            min_size=1,
            max_size=settings.web_threads,
            timeout=settings.pool_timeout,
            # The default of five minutes lets attempts to reconnect grow far apart.
            reconnect_timeout=5,
            open=False,
        )
        pool.open()
        return pool

    def _configure(self, connection):
        connection.adapters.register_loader("json", JsonAsBytes)
        limit = f"{self.settings.statement_timeout}s"
        connection.execute(
            statement("gate/configure"), {"statement_timeout": limit, "idle_timeout": "10s"}
        )

    def close(self):
        if self._pool is not None:
            self._pool.close()
            self._pool = None


def init_app(app):
    app.extensions["database"] = Database(app.config["SETTINGS"])
    app.teardown_request(release)


def _connection():
    connection = g.get("connection")
    if connection is None:
        connection = g.connection = current_app.extensions["database"].pool.getconn()
    return connection


def release(_error=None):
    """Give the connection of this request back; the next statement takes a new one."""
    connection = g.pop("connection", None)
    if connection is not None:
        current_app.extensions["database"].pool.putconn(connection)


def first_row(name, /, **values):
    """Run the first statement of a request, on another connection if the pooled one turns out dead.

    Connections die in the pool when Postgres restarts. Only the first statement may be repeated:
    nothing of this request has been written yet.
    """
    try:
        return _connection().execute(statement(name), values).fetchone()
    except psycopg.OperationalError:
        if not g.get("connection") or not g.connection.broken:
            raise
        release()
        current_app.extensions["database"].pool.check()
        return _connection().execute(statement(name), values).fetchone()


@contextmanager
def transaction():
    """Let all statements inside stand or fall together."""
    with _connection().transaction():
        yield


def row(name, /, **values):
    """Run ``sql/<name>.sql`` as the caller of this request and return its first row, or None.

    Every statement is told who asks: ``user_id`` and ``workspace_id`` are always parameters.
    """
    return _connection().execute(statement(name), {**g.caller, **values}).fetchone()


def row_planned(name, /, **values):
    """Like :func:`row`, but planned anew for the values at hand, which psycopg writes into the text."""
    cursor = psycopg.ClientCursor(_connection(), row_factory=namedtuple_row)
    return cursor.execute(statement(name), {**g.caller, **values}).fetchone()


def one(name, /, **values):
    """Like :func:`row`, but no row means that there is nothing there for this caller: 404."""
    found = row(name, **values)
    if found is None:
        raise NotHere(name.split("/")[0])
    return found
