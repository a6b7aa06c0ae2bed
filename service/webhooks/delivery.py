"""One attempt to deliver an event: sign it, post it, and say what is to be recorded of it.

Signatures: ``X-Service-Signature`` (specification section 6) is the lowercase hex HMAC-SHA256 of
the body; ``webhook-id``, ``-timestamp`` and ``-signature`` are those of Standard Webhooks.
"""

import hmac
import random
from base64 import b64decode, b64encode
from time import time
from typing import Any

from service.settings import Settings
from service.webhooks.outbound import Answer, post

PREFIX = "whsec_"


def derive_secret(key: str, webhook_id: object, number: int) -> str:
    """The secret of a webhook, as its owner was shown it: derived, so that it is stored nowhere."""
    seed = f"webhook {webhook_id} {number}".encode()
    return PREFIX + b64encode(hmac.digest(key.encode(), seed, "sha256")).decode()


def signatures(body: bytes, message_id: str, timestamp: int, secrets: list[str]) -> dict[str, str]:
    """The headers that let a receiver verify ``body``, newest secret first."""
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


def attempt(claim: Any, settings: Settings, timeout: float) -> dict[str, Any]:
    """Post one claimed delivery within ``timeout`` seconds; returns what is to be recorded."""
    body = claim.body.encode()
    numbers = [claim.secret_number] + [claim.secret_number - 1] * claim.rotated
    key = settings.webhook_key or ""
    secrets = [derive_secret(key, claim.webhook_id, number) for number in numbers]
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
        "retry_delay": None
        if answer.success
        else retry_delay(claim.number, answer, settings.webhook_schedule),
        "backoff": max(settings.webhook_schedule[0], retry_after(answer)),
        "disable_after": settings.webhook_disable_after,
    }


def retry_delay(number: int, answer: Answer, schedule: tuple[float, ...]) -> float | None:
    """Seconds until the retry after attempt ``number``, ± 20 %; None when it is given up."""
    if number > len(schedule):
        return None
    seconds = schedule[number - 1] * random.uniform(0.8, 1.2)  # noqa: S311
    return max(seconds, retry_after(answer))


def retry_after(answer: Answer) -> int:
    """Seconds, at most a day, that the receiver's Retry-After asks for."""
    text = answer.retry_after or ""
    if text.isascii() and text.isdigit():
        return min(int(text[:6]), 86400)
    return 0
