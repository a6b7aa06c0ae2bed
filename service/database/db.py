"""The database for a request, which has one connection at a time and runs its statements on it.

A request returns its connection to the pool before it waits for anything except the database.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import monotonic

import psycopg
from flask import Flask, Request, current_app, g, request
from psycopg.rows import args_row

from service.callers import Usage
from service.database.pool import Pool
from service.database.statements import STALE, STATEMENTS, Connection, Row, single_row
from service.settings import Settings
from service.values.types import singular


class RequestState:
    """The values that a hook or a view of a request leaves for later hooks and views.

    This is the class of Flask's ``g``: ``init_app`` lets Flask create one for each request.
    """

    request_id = ""
    # The header of W3C Trace Context, if it is valid.
    traceparent = ""
    # Seconds that the request has waited for a thread.
    queued: float = 0
    # The deadline, by ``monotonic()``, of all database work of this request. The first statement
    # sets it, counted from ``arrived``, and later statements do not extend it; 0 until then.
    deadline: float = 0
    connection: Connection | None = None
    # How many seconds the request has waited for a connection, has spent on its statements and
    # commits, and has spent on posting its events.
    waited: float = 0
    database: float = 0
    posted: float = 0
    # None until the gate has counted the request.
    usage: Usage | None = None
    # If the body of the response has a secret, the body that is stored under an Idempotency-Key.
    stored_body: str | None = None
    # The id of the resource that the request has created.
    created: str | None = None

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        # The time, by ``monotonic()``, at which the request was ready to run: its last byte had
        # been read, and the previous response on the connection had been sent. Without
        # ``service.speedups.http_server``, the time at which Flask received the request.
        self.arrived = monotonic()
        # Parameters of every statement: ``user_id``, ``workspace_id`` and ``token_workspace_id``.
        self.caller: dict[str, object] = {}
        self.event_ids: list[str] = []

    def release(self) -> None:
        if self.connection is not None:
            self.database += self.connection.seconds
            self.pool.give_back(self.connection)
            self.connection = None


# Flask's current_app, g and request are proxies without exact types. These functions return the
# objects behind them, as Flask documents (https://flask.palletsprojects.com, Notes On Proxies).
current_application: Callable[[], Flask] = current_app._get_current_object  # type: ignore[attr-defined]
current_state: Callable[[], RequestState] = g._get_current_object
current_request: Callable[[], Request] = request._get_current_object  # type: ignore[attr-defined]


def current_settings() -> Settings:
    settings: Settings = current_application().config["SETTINGS"]
    return settings


class NotFound(LookupError):
    """The caller can see no row of ``resource`` with this id."""

    def __init__(self, resource: str) -> None:
        super().__init__(resource)
        self.resource = resource


def init_app(app: Flask, pool: Pool) -> None:
    """Give the app its pool, and each request its state."""
    app.extensions["pool"] = pool
    app.app_ctx_globals_class = partial(RequestState, pool)  # type: ignore[assignment]
    app.teardown_request(release)


def extend_deadline(seconds: float) -> None:
    """Extend the deadline by the time spent waiting for a receiver or name server."""
    current_state().deadline += seconds


def connection(state: RequestState) -> Connection:
    """Return the connection of a request; take one from the pool if the request has none.

    Raises PoolTimeout or UnusableDatabase. The time that the request has waited for a thread counts
    against its deadline.
    """
    if state.connection is None:
        asked = monotonic()
        state.deadline = state.deadline or state.arrived + state.pool.seconds
        state.connection = state.pool.take(state.deadline, state.queued)
        state.connection.seconds = 0
        state.waited += monotonic() - asked
    return state.connection


def release(_error: BaseException | None = None) -> None:
    """Return the connection of this request to the pool; the next statement takes another one."""
    current_state().release()


@contextmanager
def transaction(*, force_rollback: bool = False) -> Iterator[None]:
    """Run the statements inside ``with`` in a transaction, or in a savepoint of an outer one."""
    used = connection(current_state())
    with used.transaction(force_rollback=force_rollback):
        yield
        ended = monotonic()
    # Count the time that the commit took.
    used.seconds += monotonic() - ended


def row_with_retry(kind: type[Row], name: str, /, **values: object) -> Row:
    """Run the first statement of a request; run it again if its connection was dead.

    When PostgreSQL restarts, the pooled connections die. Only the first statement may run again,
    because before it the request has written nothing.
    """
    state = current_state()
    try:
        row = connection(state).row(kind, name, values)
    except psycopg.OperationalError:
        lost = state.connection is not None and state.connection.broken
        if not lost or monotonic() >= state.deadline:
            raise
        state.release()
        # The other connections of the pool have probably died as well.
        state.pool.drain()
        row = connection(state).row(kind, name, values)
    return found(row, name)


def row_or_none(kind: type[Row], name: str, /, **values: object) -> Row | None:
    """Run ``sql/<name>.sql`` for this request; return its only row, or None.

    The statement can always use the parameters of ``RequestState.caller``.
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


def row_planned_for_values(kind: type[Row], name: str, /, **values: object) -> Row:
    """Like ``row``, but psycopg interpolates (and escapes) the values into the text.

    PostgreSQL then plans the statement for these values. Planning takes time, but pays off for
    statements with many optional filters, for which a generic plan would be slow.
    """
    state = current_state()
    used = connection(state)
    cursor = psycopg.ClientCursor(used, row_factory=args_row(kind))
    text, parameters = STATEMENTS[name].source, {**state.caller, **values}
    began = monotonic()
    try:
        cursor.execute(text, parameters)
    except STALE:
        cursor.execute(text, parameters)
    finally:
        used.seconds += monotonic() - began
    return found(single_row(cursor.fetchall()), name)


def execute(name: str, /, **values: object) -> None:
    """Run ``sql/<name>.sql`` as the caller of this request; ignore its rows."""
    state = current_state()
    connection(state).run(name, {**state.caller, **values})


def found(row: Row | None, name: str) -> Row:
    """Return the row, or raise NotFound if there is none.

    The folder of the statement names the resource: for tasks/get, the message is "Task not found".
    """
    if row is None:
        raise NotFound(singular(name.partition("/")[0]))
    return row
