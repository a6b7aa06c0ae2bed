"""The state of one request: ``flask.g`` with types."""

from collections.abc import Callable
from time import monotonic

from flask import Flask, Request, current_app, g, request

from service.database.statements import Connection
from service.limits import Usage


class RequestState:
    """The values that a hook or a view of a request leaves for later hooks and views."""

    request_id = ""
    # Seconds that the request has waited for a thread.
    queued: float = 0
    # The time, by ``monotonic()``, when everything that waits for the database must have ended. The
    # first statement makes it, from ``arrived``; nothing begins it anew. 0 before.
    deadline: float = 0
    connection: Connection | None = None
    # The body of the request, once it has been read.
    body: bytes | None = None
    # Seconds that the request has waited for a connection.
    waited: float = 0
    # None until the gate has counted the request.
    usage: Usage | None = None
    # The id of the resource that the request has created.
    created: str | None = None

    def __init__(self) -> None:
        # When the request was complete, by ``monotonic()``: its last byte read, and the response to
        # the request before it on the connection sent. Without our worker, when Flask began.
        self.arrived = monotonic()
        # Parameters of every statement: ``user_id`` and ``workspace_id``.
        self.caller: dict[str, object] = {}
        self.event_ids: list[str] = []


# The current Flask application, the state of the current request, and the request. Flask's proxies
# look up their object again for each attribute, which takes longer than most hooks.
current_application: Callable[[], Flask] = current_app._get_current_object  # type: ignore[attr-defined]
current_state: Callable[[], RequestState] = g._get_current_object
current_request: Callable[[], Request] = request._get_current_object  # type: ignore[attr-defined]
