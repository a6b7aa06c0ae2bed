"""Faults on demand: a test lets its next requests fail or wait."""

import errno
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from math import ceil
from threading import Event, Lock
from time import monotonic
from typing import TYPE_CHECKING

from flask import Response

from service.context import current_request, current_state
from service.web.errors import http_error
from service.web.gate import rate_limit_error
from service.web.responses import reply

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

# The kinds after which a client gets no response.
NO_RESPONSE = "drop", "drop-after-commit"

# The key of the WSGI environ whose value says how to break the response.
BROKEN = "task_service_double.broken"


@dataclass
class Fault:
    """A fault that ``times`` requests meet, after the next ``skip`` requests have passed.

    Only requests with this method and path count, if these are given. ``*`` in the path stands for
    any text.
    """

    kind: str
    times: int = 1
    skip: int = 0
    seconds: float = 1
    method: str | None = None
    path: str | None = None
    # True once a request has met the fault.
    met: bool = False

    def concerns(self, method: str, path: str) -> bool:
        if self.method not in (None, method):
            return False
        pattern = "(?s)" + ".*".join(map(re.escape, (self.path or "*").split("*")))
        return re.fullmatch(pattern, path) is not None


class Faults:
    """The faults that wait for requests, and the latencies, which delay all requests."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: list[Fault] = []
        self._latencies: list[Fault] = []
        self._cleared = Event()

    def add(self, fault: Fault) -> None:
        """Add a fault; matching requests meet earlier faults first."""
        with self._lock:
            (self._latencies if fault.kind == "latency" else self._waiting).append(fault)

    def remove(self) -> None:
        """Remove all faults. Requests that are waiting because of a fault go on waiting."""
        with self._lock:
            self._waiting.clear()
            self._latencies.clear()

    def clear(self) -> None:
        """Remove all faults. Requests that are waiting end without an effect."""
        self.remove()
        with self._lock:
            self._cleared.set()
            self._cleared = Event()

    def unmet(self) -> list[dict[str, object]]:
        """Return the faults that still wait for a request, and the latencies that delayed none."""
        with self._lock:
            latencies = [fault for fault in self._latencies if not fault.met]
            return [asdict(fault) for fault in (*self._waiting, *latencies)]

    def take(self, method: str, path: str) -> tuple[Fault | None, float, Event]:
        """Return the fault that a request meets, its latency, and the event that ``clear`` sets.

        A fault lets ``skip`` requests pass, applies to the next ``times``, and is then removed.
        """
        with self._lock:
            # The latency that was added last applies, so that a test can change it.
            found = [fault for fault in self._latencies if fault.concerns(method, path)]
            for fault in found:
                fault.met = True
            latency = found[-1].seconds if found else 0
            for fault in self._waiting:
                if not fault.concerns(method, path):
                    continue
                if fault.skip:
                    fault.skip -= 1
                    continue
                fault.met = True
                fault.times -= 1
                if not fault.times:
                    self._waiting.remove(fault)
                return fault, latency, self._cleared
            return None, latency, self._cleared

    def meet(self) -> Response | None:
        """Apply the fault of this request, after the gate and before the view."""
        # Requests for public documents meet no fault. The gate has not counted them.
        state, request = current_state(), current_request()
        if state.usage is None:
            return None
        fault, seconds, cleared = self.take(request.method, request.path)
        kind = fault.kind if fault else ""
        if fault and kind == "slow":
            seconds += fault.seconds
        if seconds:
            current_state().release()
            began = monotonic()
            if cleared.wait(seconds):
                # The test has ended. The next test must not see a change by this request.
                kind = "drop"
            current_state().deadline += monotonic() - began
        if fault and kind == "500":
            raise http_error("internal")
        if fault and kind == "503":
            # Without the database the service knows no counts, so a 503 has no rate-limit headers.
            state.usage = None
            raise http_error("unavailable", retry_after=max(1, ceil(fault.seconds)))
        if fault and kind == "429":
            ends = state.usage.now + max(1, fault.seconds)
            state.usage = state.usage._replace(
                minute_count=state.usage.per_minute, minute_ends=ends
            )
            raise rate_limit_error(state.usage)
        if kind in BREAKS:
            request.environ[BROKEN] = kind
        return reply(None) if kind == "drop" else None


def response_kind() -> str | None:
    """Return the kind of the fault that breaks the response to this request, or None."""
    kind: str | None = current_request().environ.get(BROKEN)
    return kind


def drop(_body: bytes) -> Iterator[bytes]:
    """Close the connection without a response.

    gunicorn writes the head of a response with the first bytes of the body, which never come.
    """
    yield from disconnect()


def disconnect() -> Iterator[bytes]:
    """Instead of more bytes, raise the error that a client causes by disconnecting."""
    raise ConnectionResetError(errno.ECONNRESET, "disconnected on demand")
    yield b""


def truncate(body: bytes) -> Iterator[bytes]:
    """Send half of the body, then close the connection."""
    yield body[: len(body) // 2]
    yield from disconnect()


def garble(body: bytes) -> Iterator[bytes]:
    """Send a body of the same length that is not JSON."""
    yield b"<" + body[1:] if body else b""


BREAKS: dict[str, Callable[[bytes], Iterator[bytes]]] = {
    "drop": drop,
    "drop-after-commit": drop,
    "truncated": truncate,
    "garbled": garble,
}

KINDS = "500", "503", "429", *BREAKS, "slow", "latency"


class BreakResponses:
    """The WSGI application. If a request met a fault of ``BREAKS``, it breaks the response."""

    def __init__(self, app: "WSGIApplication") -> None:
        self.app = app

    def __call__(
        self, environ: "WSGIEnvironment", start_response: "StartResponse"
    ) -> Iterable[bytes]:
        response = self.app(environ, start_response)
        kind = environ.pop(BROKEN, None)
        if kind is None:
            return response
        body = b"".join(response)
        if hasattr(response, "close"):
            response.close()
        return BREAKS[kind](body)
