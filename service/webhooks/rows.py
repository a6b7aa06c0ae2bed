"""The rows of webhooks that the API and the commands share."""

from typing import NamedTuple

# Why somebody has disabled a webhook; all other reasons come from its receiver.
BY_OPERATOR, BY_MANAGER = "by an operator", "by an owner or an admin"


class ListedWebhook(NamedTuple):
    # The webhook as the API shows it.
    body: bytes
    # Null unless the webhook backs off now.
    backoff_until: str | None
    last_attempt_at: str | None
    # A status, or the error of an attempt without one.
    last_status: str | None


class MatchedWebhook(NamedTuple):
    """The row of a webhook after a change or a deletion, which happens only if it is matched."""

    id: str
    version: int
    matched: bool


class Redelivered(NamedTuple):
    id: str
    body: bytes
