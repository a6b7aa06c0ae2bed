"""Faults on demand: the next requests fail as they do when something is wrong."""

import errno
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import ceil
from threading import Event, Lock
from typing import Any

from flask import Flask, Response, request

from service import db
from service.http.errors import http_error
from service.http.gate import rate_limit_error
from service.http.responses import reply
from service.state import state

KINDS = "503", "429", "drop", "drop-after-commit", "slow"

DROP = "service.devkit.double.drop"


@dataclass
class Fault:
    """What the next ``times`` requests meet, of this method and path if given."""

    kind: str
    times: int
    seconds: float
    method: str | None
    path: str | None


class Faults:
    """The faults that wait for their requests."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: list[Fault] = []
        self._cleared = Event()

    def add(self, fault: Fault) -> None:
        """Let the next matching requests meet this one, after those added before it."""
        with self._lock:
            self._waiting.append(fault)

    def clear(self) -> None:
        """Forget all, and end the slow requests: what they were to do is not done anymore."""
        with self._lock:
            self._waiting.clear()
            self._cleared.set()
            self._cleared = Event()

    def take(self, method: str, path: str) -> tuple[Fault, Event] | None:
        """The first fault that such a request meets, and what is set once it is forgotten.

        Each serves ``times`` requests.
        """
        with self._lock:
            for fault in self._waiting:
                if fault.method in (None, method) and fault.path in (None, path):
                    fault.times -= 1
                    if not fault.times:
                        self._waiting.remove(fault)
                    return fault, self._cleared
        return None

    def meet(self) -> Response | None:
        """Before the view, behind the gate: let this request meet its fault."""
        # The gate lets documents pass without a look.
        here = state()
        taken = self.take(request.method, request.path) if here.usage else None
        if taken is None or here.usage is None:
            return None
        fault, cleared = taken
        if fault.kind == "503":
            # Without the database, a response knows no limits.
            here.usage = None
            raise http_error("unavailable", retry_after=max(1, ceil(fault.seconds)))
        if fault.kind == "429":
            here.usage = here.usage._replace(
                minute_count=here.usage.per_minute,
                minute_ends=here.usage.now + max(1, fault.seconds),
            )
            raise rate_limit_error(here.usage)
        kind = fault.kind
        if kind == "slow":
            # A connection has its own deadline, which is shorter.
            db.release()
            if cleared.wait(fault.seconds):
                # It belongs to a test that has ended: the next one must not see its change.
                kind = "drop"
        if kind.startswith("drop"):
            request.environ[DROP] = True
        return reply(None) if kind == "drop" else None


class DropConnection:
    """The WSGI application; a response that is to be dropped never leaves."""

    def __init__(self, app: Callable[..., Iterable[bytes]]) -> None:
        self.app = app

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Respond, or close the connection without a word."""
        response = self.app(environ, start_response)
        if environ.pop(DROP, False):
            if hasattr(response, "close"):
                response.close()
            # gunicorn takes this for a client that went away.
            raise ConnectionResetError(errno.ECONNRESET, "dropped on demand")
        return response


def install(app: Flask, faults: Faults) -> None:
    """Let the requests of an app meet faults."""
    app.before_request(faults.meet)
    app.wsgi_app = DropConnection(app.wsgi_app)  # type: ignore[method-assign]
