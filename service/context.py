"""The state of a request, and its connection to the database.

A request has one connection at a time, and runs its statements on it. It returns the connection to
the pool before it waits for anything except the database.
"""

from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Any, TypeVar, cast

import psycopg
from flask import Flask, Request, current_app, g, request

from service.callers import Usage
from service.database.pool import Pool
from service.database.statements import Connection
from service.settings import Settings

T = TypeVar("T")


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
    # True if the changes of the request are rolled back.
    dry_run = False
    # The id of the resource that the request has created.
    created: str | None = None

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        # The time, by ``monotonic()``, at which the request was ready to run: its last byte had
        # been read, and the previous response on the connection had been sent. Without
        # ``service.speedups.http_server``, the time at which Flask received the request.
        self.arrived = monotonic()
        # Parameters of every statement: ``user_id``, ``token_id``, ``workspace_id`` and
        # ``token_workspace_id``.
        self.caller: dict[str, object] = {}
        self.event_ids: list[str] = []

    def connect(self) -> Connection:
        """Return the connection; take one from the pool if the request has none.

        Raises PoolTimeout or UnusableDatabase. The time that the request has waited for a thread
        counts against its deadline.
        """
        if self.connection is None:
            asked = monotonic()
            self.deadline = self.deadline or self.arrived + self.pool.seconds
            self.connection = self.pool.take(self.deadline, self.queued)
            self.connection.seconds = 0
            self.connection.parameters = self.caller
            self.waited += monotonic() - asked
        return self.connection

    def release(self) -> None:
        """Return the connection to the pool; the next statement takes another one."""
        if self.connection is not None:
            self.database += self.connection.seconds
            self.connection.parameters = {}
            self.pool.give_back(self.connection)
            self.connection = None


# Flask's current_app, g and request are proxies without exact types. These functions return the
# objects behind them, as Flask documents (https://flask.palletsprojects.com, Notes On Proxies).
current_application: Callable[[], Flask] = current_app._get_current_object  # type: ignore[attr-defined]
current_state: Callable[[], RequestState] = g._get_current_object
current_request: Callable[[], Request] = request._get_current_object  # type: ignore[attr-defined]


class ConnectionOfRequest:
    """Has the attributes of the connection of the current request."""

    def __getattribute__(self, name: str) -> Any:
        return getattr(current_state().connect(), name)


# The connection of this request, whose statements also get the parameters of its caller.
db = cast("Connection", ConnectionOfRequest())


def current_usage() -> Usage:
    """Return the caller of this request, which the gate has counted."""
    return cast("Usage", current_state().usage)


def current_settings() -> Settings:
    settings: Settings = current_application().config["SETTINGS"]
    return settings


def init_app(app: Flask, pool: Pool) -> None:
    """Give the app its pool, and each request its state."""
    app.extensions["pool"] = pool
    app.app_ctx_globals_class = partial(RequestState, pool)  # type: ignore[assignment]
    app.teardown_request(lambda _error: current_state().release())


def retried(first: Callable[[], T]) -> T:
    """Run the first statement of a request; run it again if its connection was dead.

    When PostgreSQL restarts, the pooled connections die. Only the first statement may run again,
    because before it the request has written nothing.
    """
    state = current_state()
    try:
        return first()
    except psycopg.OperationalError:
        lost = state.connection is not None and state.connection.broken
        if not lost or monotonic() >= state.deadline:
            raise
        state.release()
        # The other connections of the pool have probably died as well.
        state.pool.drain()
        return first()
