"""One attempt to deliver an event: sign it, post it, and choose when to retry."""

import logging
import random
from itertools import accumulate
from time import monotonic, time
from typing import NamedTuple

from werkzeug.http import parse_date

from service.database.statements import Connection
from service.settings import InvalidSetting, Settings
from service.webhooks.outbound import Answer, post
from service.webhooks.secrets import derive_secret, fingerprint, signatures

log = logging.getLogger("service.webhooks")

# Each delay varies by ± JITTER. A retry counts as on time if it is early by less than TOLERANCE of
# its delay.
JITTER, TOLERANCE = 0.2, 0.25
DAY = 86400


class Message(NamedTuple):
    """The row of what is posted, and where: a delivery that this process has claimed, or a ping.

    Until the lease expires, no other process attempts a claimed delivery. A ping is not a stored
    delivery, so its ``id`` names none.
    """

    workspace_id: str
    id: str
    # The number of the attempt: 1 is the first one.
    number: int
    webhook_id: str
    url: str
    # The secrets that sign, newest first: their numbers, and the fingerprints of their keys.
    secret_numbers: list[int]
    key_fingerprints: list[str]
    message_id: str
    body: str
    # Seconds since the event.
    age: float


class Outcome(NamedTuple):
    """The parameters of webhooks/record: how an attempt ended, and the time of the next one."""

    in_workspace_id: str
    webhook_id: str
    delivery_id: str
    number: int
    success: bool
    status: int | None
    milliseconds: int
    error: str | None
    # The first characters of the receiver's response.
    answer: str
    # Seconds until the next retry; None if no retry follows.
    retry_delay: float | None
    # After a failure, the service sends nothing to this webhook for this many seconds.
    backoff: float
    # The service disables a webhook that has failed for this many hours.
    disable_after: int


class Recorded(NamedTuple):
    """The row of a webhook that an outcome has changed."""

    disabled_reason: str | None
    # The number of deliveries that became due because of a success.
    caught_up: int | None


def attempt(message: Message, settings: Settings, timeout: float, traceparent: str = "") -> Outcome:
    """Post one claimed delivery within ``timeout`` seconds, and return the outcome unrecorded.

    If the request that caused the event also posts it, the receiver gets its ``traceparent``.
    Raises InvalidSetting if WEBHOOK_KEY does not list the key of the webhook.
    """
    body = message.body.encode()
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "task-service-webhooks/1",
        **({"traceparent": traceparent} if traceparent else {}),
        **signatures(body, message.message_id, int(time()), signing_secrets(settings, message)),
    }
    began = monotonic()
    try:
        answer = post(message.url, body, headers, timeout=timeout, allowed=settings.webhook_allow)
        return outcome_of(message, answer, began, settings)
    except Exception as error:
        # Without an outcome, workers would repeat the attempt forever, and no list would show it.
        log.exception("delivery %s to webhook %s", message.id, message.webhook_id)
        return outcome_of(message, Answer(error=type(error).__name__), began, settings)


def signing_secrets(settings: Settings, webhook: Message) -> list[str]:
    """Derive the secrets that sign now, newest first.

    Raises InvalidSetting if WEBHOOK_KEY does not list the key of the current secret. A previous
    secret whose key is missing does not sign.
    """
    settings.require_webhook_key()
    keys = {fingerprint(key): key for key in settings.webhook_keys}
    derivations = list(zip(webhook.key_fingerprints, webhook.secret_numbers, strict=True))
    current = derivations[0][0]
    if current not in keys:
        raise InvalidSetting(
            f"WEBHOOK_KEY does not list the key {current}, from which the secret of the webhook"
            f" {webhook.webhook_id} derives: add that key at the end, or rotate the secret"
        )
    return [
        derive_secret(keys[name], webhook.webhook_id, number)
        for name, number in derivations
        if name in keys
    ]


def outcome_of(message: Message, answer: Answer, began: float, settings: Settings) -> Outcome:
    schedule, took = settings.webhook_schedule, monotonic() - began
    return Outcome(
        in_workspace_id=message.workspace_id,
        webhook_id=message.webhook_id,
        delivery_id=message.id,
        number=message.number,
        success=answer.success,
        status=answer.status,
        milliseconds=round(took * 1000),
        error=answer.error,
        answer=answer.content[:200]
        .decode("utf-8", "replace")
        .replace("\0", "\N{REPLACEMENT CHARACTER}"),
        retry_delay=None if answer.success else retry_delay(message.age + took, answer, schedule),
        backoff=max(schedule[0], retry_after(answer)),
        disable_after=settings.webhook_disable_after,
    )


def record(connection: Connection, message: Message, outcome: Outcome) -> None:
    """Store the outcome of an attempt.

    Log a failed attempt, without the URL, which may contain a secret.
    """
    recorded = connection.row_or_none(Recorded, "webhooks/record", **outcome._asdict())
    if outcome.success:
        return
    reason = outcome.status or (outcome.error or "").partition(":")[0]
    log.warning(
        "delivery %s to webhook %s failed at attempt %s: %s",
        *(message.id, message.webhook_id, message.number, reason),
    )
    if recorded and recorded.disabled_reason:
        log.warning("webhook %s is disabled: %s", message.webhook_id, recorded.disabled_reason)


def retry_delay(age: float, answer: Answer, schedule: tuple[float, ...]) -> float | None:
    """Choose the seconds until the next retry, ± 20 %; None if the event is too old for one.

    The schedule is counted from the event, so an extra attempt in between does not use up a retry.
    """
    for step, due in zip(schedule, accumulate(schedule), strict=True):
        # An attempt that jitter has moved slightly before its time in the schedule counts as on
        # time.
        if (left := due - age) > TOLERANCE * step:
            jitter = random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311
            return max(left * jitter, retry_after(answer))
    return None


def retry_after(answer: Answer) -> float:
    """Return the seconds that the receiver asks for, at most a day; 0 without Retry-After.

    The number is negative for a date in the past.
    """
    text = answer.retry_after or ""
    if text.isascii() and text.isdigit():
        return min(int(text[:6]), DAY)
    try:
        date = parse_date(text)
    except OverflowError:
        # The offset from UTC has too many digits.
        return 0
    return min(date.timestamp() - time(), DAY) if date else 0
