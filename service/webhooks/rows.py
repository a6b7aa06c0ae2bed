"""The rows of webhooks that the API and the commands share."""

from typing import NamedTuple

# The reasons of a webhook that a person has disabled. All other reasons come from failures of its
# receiver.
BY_OPERATOR, BY_MANAGER = "by an operator", "by an owner or an admin"


class ListedWebhook(NamedTuple):
    # The webhook as the API shows it.
    body: bytes
    # Null unless the webhook is in a pause after failures.
    backoff_until: str | None
    last_attempt_at: str | None
    # A status, or the error of an attempt without one.
    last_status: str | None


class MatchedWebhook(NamedTuple):
    """The row of a change or a deletion of a webhook, which happens only if ``matched`` is true."""

    id: str
    version: int
    matched: bool
    # The webhook as the API shows it, if ``matched`` is false; otherwise null.
    current: bytes | None


class Redelivered(NamedTuple):
    id: str
    body: bytes
