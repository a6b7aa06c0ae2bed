"""Webhooks: after the commit of a change, sign its event and post it to the receivers."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore, Lock
from time import monotonic

from flask import Flask, Response, current_app

from service.context import current_settings, current_state, db
from service.settings import Settings
from service.webhooks.delivery import Message, attempt, record
from service.webhooks.secrets import fingerprints

log = logging.getLogger("service.webhooks")

# A request reserves this many seconds for recording the outcome of an attempt.
RECORD_SECONDS = 0.5
# An attempt begins only if at least this many seconds are left.
MIN_ATTEMPT_SECONDS = 0.05


class NoSlot(Exception):
    """No slot is free, or the workspace already uses one. The text is the name of the message."""


class OutboundSlots:
    """Limits how many threads of a process wait for receivers and name servers.

    A request that finds no slot leaves its events to the worker. It cannot leave a ping or the
    check of a URL to the worker. So a workspace may run only one ping or check at a time, which
    leaves slots to other workspaces.
    """

    def __init__(self, slots: int) -> None:
        # False if requests post no events, so that the worker posts all of them.
        self.posts = True
        self._free = BoundedSemaphore(slots)
        self._lock = Lock()
        self._workspaces: set[object] = set()

    @contextmanager
    def for_posts(self) -> Iterator[bool]:
        """Yield whether a slot is free for the events of a request."""
        taken = self.posts and self._free.acquire(blocking=False)
        try:
            yield taken
        finally:
            if taken:
                self._free.release()

    @contextmanager
    def for_call(self, workspace_id: object, timeout: float) -> Iterator[None]:
        """Take a slot within ``timeout`` seconds; raises NoSlot."""
        with self._lock:
            if workspace_id in self._workspaces:
                raise NoSlot("workspace_calls")
            self._workspaces.add(workspace_id)
        try:
            if not self._free.acquire(timeout=timeout):
                raise NoSlot("busy")
            try:
                yield
            finally:
                self._free.release()
        finally:
            with self._lock:
                self._workspaces.remove(workspace_id)


def init_app(app: Flask) -> None:
    app.after_request(post_announced)
    settings: Settings = app.config["SETTINGS"]
    # Receivers and name servers that do not answer may block a quarter of the threads, but at least
    # one.
    app.extensions["outbound_slots"] = OutboundSlots(max(1, settings.web_threads // 4))


def post_before_response(*event_ids: str | None) -> None:
    """Remember the events of this request, for the hook ``post_announced``.

    The hook posts them after the view has ended and its changes are committed, and before the
    response is sent. None stands for a change without an event.
    """
    current_state().event_ids += filter(None, event_ids)


def post_announced(response: Response) -> Response:
    """Post the events of this request within WEBHOOK_TIMEOUT; leave the rest to the worker.

    A receiver cannot change the response.
    """
    if event_ids := current_state().event_ids:
        slots: OutboundSlots = current_app.extensions["outbound_slots"]
        settings = current_settings()
        if settings.webhook_key:
            with slots.for_posts() as free:
                if free:
                    start = monotonic()
                    _post(event_ids, settings)
                    current_state().posted = monotonic() - start
    return response


def _post(event_ids: list[str], settings: Settings) -> None:
    # The outcome of each attempt must be recorded before the deadline of the request.
    end = min(monotonic() + settings.webhook_timeout, current_state().deadline - RECORD_SECONDS)
    try:
        while end - monotonic() > MIN_ATTEMPT_SECONDS:
            claim = db.row_or_none(
                Message,
                "webhooks/claim_new",
                event_ids=event_ids,
                keys=fingerprints(settings),
                lease=settings.webhook_lease,
            )
            # Do not hold a connection while the receiver works.
            current_state().release()
            # If too little time is left to post, a worker takes the delivery after its lease.
            if claim is None or (left := end - monotonic()) < MIN_ATTEMPT_SECONDS:
                return
            outcome = attempt(claim, settings, left, current_state().traceparent)
            record(db, claim, outcome)
    except Exception as error:
        # The change and its event are committed, so the worker posts the event.
        log.warning("delivery left to the worker: %s", type(error).__name__, exc_info=error)
