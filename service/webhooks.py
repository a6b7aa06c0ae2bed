"""Webhooks: tell receivers what has happened, signed, once it is certain that it has.

Signatures: ``X-Service-Signature`` (specification section 6) is the lowercase hex HMAC-SHA256 of the body;
``webhook-id``, ``webhook-timestamp`` and ``webhook-signature`` are those of Standard Webhooks.
"""

import hmac
import logging
import random
from base64 import b64decode, b64encode
from threading import BoundedSemaphore
from time import monotonic, time

from flask import current_app, g

from service import db
from service.destinations import post

log = logging.getLogger("service.webhooks")

PREFIX = "whsec_"


def init_app(app):
    settings = app.config["SETTINGS"]
    app.after_request(post_announced)
    # A receiver that hangs may hold one thread in four, not all of them.
    app.extensions["webhook_slots"] = BoundedSemaphore(max(1, settings.web_threads // 4))


def make_secret(key, webhook_id, number):
    """The secret of a webhook, as its owner was shown it: derived, so that it is stored nowhere."""
    seed = f"webhook {webhook_id} {number}".encode()
    return PREFIX + b64encode(hmac.digest(key.encode(), seed, "sha256")).decode()


def signatures(body, message_id, timestamp, secrets):
    """The headers that let a receiver verify ``body`` (bytes), newest secret first."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return {
        "X-Service-Signature": ", ".join(
            hmac.digest(secret.encode(), body, "sha256").hex() for secret in secrets
        ),
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(
            "v1,"
            + b64encode(hmac.digest(b64decode(secret[len(PREFIX) :]), signed, "sha256")).decode()
            for secret in secrets
        ),
    }


def announce(*event_ids):
    """Have events posted as soon as this request has committed them; None where nobody listens."""
    g.setdefault("event_ids", []).extend(event_id for event_id in event_ids if event_id)


def post_announced(response):
    """Post the events that this request has made, within its time; what is left is the worker's.

    Nothing that a receiver does changes the answer.
    """
    if "event_ids" in g and g.event_ids:
        _post(g.event_ids)
    return response


def _post(event_ids):
    slots = current_app.extensions["webhook_slots"]
    settings = current_app.config["SETTINGS"]
    if not settings.webhook_key or not slots.acquire(blocking=False):
        return
    try:
        deadline = monotonic() + settings.webhook_timeout
        while (left := deadline - monotonic()) > 0.05:
            claim = db.row(
                "webhooks/claim_new",
                event_ids=event_ids,
                lease=settings.webhook_lease,
            )
            # No connection is held while a receiver takes its time.
            db.release()
            if claim is None:
                return
            outcome = attempt(claim, settings, left)
            db.row("webhooks/record", **outcome)
    except Exception as error:
        # The change is safe and the event with it; only the telling waits for the worker.
        log.warning("webhook left to the worker: %s", type(error).__name__, exc_info=error)
    finally:
        slots.release()
        db.release()


def attempt(claim, settings, timeout):
    """Post one claimed delivery and return what is to be recorded of it."""
    body = claim.body.encode()
    numbers = [claim.secret_number] + [claim.secret_number - 1] * claim.rotated
    secrets = [make_secret(settings.webhook_key, claim.webhook_id, number) for number in numbers]
    answer = post(
        claim.url,
        body,
        {
            "Content-Type": "application/json",
            "User-Agent": "task-service-webhooks/1",
            **signatures(body, claim.message_id, int(time()), secrets),
        },
        timeout=timeout,
        allowed=settings.webhook_allow,
    )
    return {
        "in_workspace_id": claim.workspace_id,
        "delivery_id": claim.id,
        "number": claim.number,
        "success": answer.success,
        "status": answer.status,
        "milliseconds": answer.milliseconds,
        "error": answer.error,
        "answer": answer.content[:200]
        .decode("utf-8", "replace")
        .replace("\0", "\N{REPLACEMENT CHARACTER}"),
        "wait": None if answer.success else wait(claim.number, answer, settings.webhook_schedule),
        "rest": max(settings.webhook_schedule[0], asked_for(answer)),
        "disable_after": settings.webhook_disable_after,
    }


def wait(number, answer, schedule):
    """Seconds until attempt ``number`` is repeated, give or take a fifth; None when it is given up."""
    if number > len(schedule):
        return None
    seconds = schedule[number - 1] * random.uniform(0.8, 1.2)  # noqa: S311
    return max(seconds, asked_for(answer))


def asked_for(answer):
    """Seconds, at most a day, that the receiver's Retry-After asks for: the whole webhook rests as long."""
    text = answer.retry_after or ""
    if text.isascii() and text.isdigit():
        return min(int(text[:6]), 86400)
    return 0
