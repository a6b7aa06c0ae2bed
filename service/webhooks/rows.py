"""The rows of webhooks that commands and the API share, and a test message to one of them."""

import json
from typing import NamedTuple

from service.settings import Settings
from service.webhooks import delivery

# The parameter ``user_id`` of an operator, whom no statement restricts.
OPERATOR = None

# Why somebody has disabled a webhook; all other reasons come from its receiver.
BY_OPERATOR, BY_MANAGER = "by an operator", "by an owner or an admin"


class ListedWebhook(NamedTuple):
    """The row of a webhook in the list."""

    # The webhook as the API shows it.
    body: bytes
    # Null unless the webhook backs off now.
    backoff_until: str | None
    last_attempt_at: str | None
    # A status, or the error of an attempt without one.
    last_status: str | None


class CreatedWebhook(NamedTuple):
    """The row of a new webhook; its secret derives from the number."""

    id: str
    secret_number: int
    body: bytes
    version: int


class Numbered(NamedTuple):
    """The row of a webhook with the number that its secret is derived from."""

    id: str
    secret_number: int


class MatchedWebhook(NamedTuple):
    """The row of a webhook after a change or a deletion, which happens only if it is matched."""

    id: str
    version: int
    matched: bool


class Target(NamedTuple):
    """The row of a webhook for a test message to it."""

    workspace_id: str
    webhook_id: str
    url: str
    # The secrets that sign, newest first: their numbers, and the fingerprints of their keys.
    secret_numbers: list[int]
    key_fingerprints: list[str]
    message_id: str
    timestamp: str


class Redelivered(NamedTuple):
    """The row of a delivery that is due again."""

    id: str
    body: bytes


def post_ping(settings: Settings, target: Target) -> delivery.Outcome:
    """Post a signed test event to a webhook and return the outcome, which is not recorded.

    Raises InvalidSetting if WEBHOOK_KEY does not list the key of the webhook.
    """
    body = {
        "id": target.message_id,
        "type": "ping",
        "timestamp": target.timestamp,
        "workspaceId": target.workspace_id,
        "data": {},
    }
    claim = delivery.Claim(
        workspace_id=target.workspace_id,
        id="",
        number=1,
        webhook_id=target.webhook_id,
        url=target.url,
        secret_numbers=target.secret_numbers,
        key_fingerprints=target.key_fingerprints,
        message_id=target.message_id,
        body=json.dumps(body),
        age=0,
    )
    return delivery.attempt(claim, settings, timeout=settings.webhook_timeout)
