"""Webhooks: post events to their receivers, signed, after the commit."""

import logging
from threading import BoundedSemaphore
from time import monotonic

from flask import Flask, Response, current_app

from service.database import db
from service.database.state import current_state
from service.settings import Settings
from service.webhooks.delivery import Recorded, attempt, log_outcome
from service.webhooks.rows import Claim
from service.webhooks.secrets import fingerprints

log = logging.getLogger("service.webhooks")

# The types of events (docs/specification.md, section 6).
EVENT_TYPES = (
    "task.created",
    "task.updated",
    "task.deleted",
    "meeting.created",
    "meeting.completed",
    "ai.suggestion.created",
)


def init_app(app: Flask) -> None:
    """Post the events of a request after it."""
    app.after_request(post_announced)
    # Receivers that hang block at most one thread in four, or one of fewer than four. Pings and
    # checks of URLs can block as many again.
    settings: Settings = app.config["SETTINGS"]
    app.extensions["webhook_slots"] = BoundedSemaphore(max(1, settings.web_threads // 4))
    app.extensions["outbound_slots"] = BoundedSemaphore(max(1, settings.web_threads // 4))


def post_after_commit(*event_ids: str | None) -> None:
    """Post these events after the commit of this request; ignore None."""
    current_state().event_ids += filter(None, event_ids)


def post_announced(response: Response) -> Response:
    """Post the events of this request within WEBHOOK_TIMEOUT; leave the rest to the worker.

    A receiver cannot change the response.
    """
    if event_ids := current_state().event_ids:
        _post(event_ids)
    return response


def _post(event_ids: list[str]) -> None:
    slots = current_app.extensions["webhook_slots"]
    settings: Settings = current_app.config["SETTINGS"]
    if not settings.webhook_key or not slots.acquire(blocking=False):
        return
    try:
        deadline = monotonic() + settings.webhook_timeout
        while (left := deadline - monotonic()) > 0.05:
            # The request itself may have used most of its time.
            db.set_deadline(settings.statement_timeout)
            claim = db.row_or_none(
                Claim,
                "webhooks/claim_new",
                event_ids=event_ids,
                keys=fingerprints(settings),
                lease=settings.webhook_lease,
            )
            # Hold no connection while the receiver works.
            db.release()
            if claim is None:
                return
            outcome = attempt(claim, settings, left)
            db.set_deadline(settings.statement_timeout)
            recorded = db.row_or_none(Recorded, "webhooks/record", **outcome._asdict())
            log_outcome(claim, outcome, recorded)
    except Exception as error:
        # The change and its event are committed; the worker posts it.
        log.warning("delivery left to the worker: %s", type(error).__name__, exc_info=error)
    finally:
        slots.release()
