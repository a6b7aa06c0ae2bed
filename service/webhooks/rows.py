"""The rows of webhooks that the API, the commands and the worker share."""

from typing import NamedTuple

# The parameter ``user_id`` of an operator, whom no statement restricts.
NO_USER = None

# Why somebody has disabled a webhook; all other reasons come from its receiver.
BY_OPERATOR, BY_MANAGER = "by an operator", "by an owner or an admin"


class Message(NamedTuple):
    """The row of what is posted, and where: a delivery that this process has claimed, or a ping.

    No other process attempts a claimed delivery until its lease ends. The ``id`` of a ping is not
    that of a delivery.
    """

    workspace_id: str
    id: str
    # The number of the attempt: 1 is the first one.
    number: int
    webhook_id: str
    url: str
    # The secrets that sign, newest first: their numbers, and the fingerprints of their keys; "" is
    # the oldest key.
    secret_numbers: list[int]
    key_fingerprints: list[str]
    message_id: str
    body: str
    # Seconds since the event.
    age: float


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


class RotatedWebhook(NamedTuple):
    """The row of a webhook with the number that its secret is derived from."""

    id: str
    secret_number: int


class MatchedWebhook(NamedTuple):
    """The row of a webhook after a change or a deletion, which happens only if it is matched."""

    id: str
    version: int
    matched: bool


class Redelivered(NamedTuple):
    """The row of a delivery that is due again."""

    id: str
    body: bytes
