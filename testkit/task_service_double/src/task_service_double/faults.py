"""Faults on demand: a test lets its next requests fail or wait."""

import errno
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from math import ceil
from random import Random, randrange
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

# A seed that the double chooses is below this number, so that it is easy to type.
MAX_SEED = 1_000_000

# The key of the WSGI environ whose value says how to break the response.
BROKEN = "task_service_double.broken"


@dataclass
class Fault:
    """A fault that ``times`` requests meet, after the next ``skip`` requests have passed.

    Only requests with this method and path count, if these are given. ``*`` in the path stands for
    any text. With ``rate``, each of these requests meets the fault with this probability; then
    ``times`` may be None, without a limit. Up to ``jitter`` seconds are added to ``seconds``.

    The same ``seed`` makes the same choices, in the order in which the requests arrive.
    """

    kind: str
    times: int | None = None
    skip: int = 0
    rate: float | None = None
    seed: int | None = None
    seconds: float = 1
    jitter: float | None = None
    method: str | None = None
    path: str | None = None
    # True once a request has met the fault.
    met: bool = False

    def __post_init__(self) -> None:
        if self.rate is None:
            self.times = self.times or 1
        if self.seed is None and self.is_random:
            self.seed = randrange(MAX_SEED)  # noqa: S311
        self._random = Random(self.seed)  # noqa: S311

    @property
    def is_random(self) -> bool:
        return self.rate is not None or bool(self.jitter)

    @property
    def is_over(self) -> bool:
        """Whether no request will meet the fault any longer."""
        return self.times == 0

    def strikes(self) -> bool:
        """Choose whether the next request that it concerns meets the fault."""
        if self.skip:
            self.skip -= 1
            return False
        return self.rate is None or self._random.random() < self.rate

    def delay(self) -> float:
        return self.seconds + self._random.uniform(0, self.jitter or 0)

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
        """Return the faults that still wait for a request, and the latencies that delayed none.

        Also return all faults with a seed, so that a test can repeat their choices.
        """
        with self._lock:
            waiting = [fault for fault in self._waiting if not fault.is_over or fault.is_random]
            latencies = [fault for fault in self._latencies if not fault.met or fault.is_random]
            return [asdict(fault) for fault in (*waiting, *latencies)]

    def take(self, method: str, path: str) -> tuple[Fault | None, float, Event]:
        """Return the fault that a request meets, how long it waits, and the event of ``clear``.

        A fault lets ``skip`` requests pass, and applies to the next ``times``.
        """
        with self._lock:
            seconds = 0.0
            # The latency that was added last applies, so that a test can change it.
            found = [fault for fault in self._latencies if fault.concerns(method, path)]
            for fault in found:
                fault.met = True
            if found and found[-1].strikes():
                seconds += found[-1].delay()
            for fault in self._waiting:
                if fault.is_over or not fault.concerns(method, path) or not fault.strikes():
                    continue
                fault.met = True
                if fault.times:
                    fault.times -= 1
                if fault.kind == "slow":
                    seconds += fault.delay()
                return fault, seconds, self._cleared
            return None, seconds, self._cleared

    def meet(self) -> Response | None:
        """Apply the fault of this request, after the gate and before the view."""
        # Requests for public documents meet no fault. The gate has not counted them.
        state, request = current_state(), current_request()
        if state.usage is None:
            return None
        fault, seconds, cleared = self.take(request.method, request.path)
        kind = fault.kind if fault else ""
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

# The kinds that let a request wait.
DELAYS = "slow", "latency"
KINDS = "500", "503", "429", *BREAKS, *DELAYS


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
