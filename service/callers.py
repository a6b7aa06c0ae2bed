"""Callers: their credentials, and their rate limits.

Source: docs/specification.md, sections 5 (credentials) and 8 (rate limits).
"""

from collections.abc import Callable
from functools import cache
from hashlib import sha256
from math import ceil
from secrets import token_hex
from typing import NamedTuple, TypeVar

Stored = TypeVar("Stored")

CREDENTIALS = "api", "session"
SCOPES = "read", "write"
# How long a session lasts unless another time is given.
SESSION_DAYS = 30

# The parameters of a statement that an operator or the login page runs. No rights restrict them.
OPERATOR: dict[str, object] = {
    "user_id": None,
    "token_id": None,
    "token_workspace_id": None,
}


class CreatedSession(NamedTuple):
    """The row of a new session; the id is null if the given expiry is in the past."""

    id: str | None
    body: bytes


def create_credential(
    store: Callable[..., Stored], kind: str, /, **values: object
) -> tuple[str, Stored]:
    """Make a token, and store its hash with ``store``; return the token and the row.

    The token has its kind, ``api`` or ``session``, and 160 random bits. Its prefix lets scanners
    find a leaked token.
    """
    token = f"tmw_{kind}_{token_hex(20)}"
    return token, store(kind=kind, hash=token_hash(token), **values)


def token_hash(token: str) -> bytes:
    """Return the SHA-256 of a token; the database stores only this hash."""
    return sha256(token.encode()).digest()


# The limit of the plan Starter, in requests per minute. It also applies to callers without a
# workspace.
STARTER_PER_MINUTE = 60


class Window(NamedTuple):
    """One window of a rate limit: the current minute or day of a caller."""

    name: str
    quota: int
    # The number of requests, and of whole seconds, that are left in the window.
    left: int
    seconds_left: int
    # A Unix time.
    ends: float


class Usage(NamedTuple):
    """The caller of a request, and how many requests this caller has sent: the row of the gate.

    Without a valid credential, ``token_id``, ``user_id``, ``scope`` and ``workspace_id`` are null.
    ``workspace_id`` is also null for a user without an active workspace. ``per_day`` is null on a
    plan without a daily limit.
    """

    token_id: str | None
    user_id: str | None
    workspace_id: str | None
    # The only workspace that the token may use; null if it may use all workspaces of its user.
    token_workspace_id: str | None
    scope: str | None
    # Where the workspace has moved, "" for an unknown place; null if it is still here.
    moved_to: str | None
    # True if the service must store this use of the token: it has stored none within the last
    # minute.
    record_use: bool
    # True if this request is within the limits; then it is counted.
    admitted: bool
    per_minute: int
    minute_count: int
    # Unix times, by the clock of the database.
    minute_ends: float
    per_day: int | None
    day_count: int
    day_ends: float
    now: float

    @property
    def windows(self) -> list[Window]:
        minute = self._window("minute", self.per_minute, self.minute_count, self.minute_ends)
        if self.per_day is None:
            return [minute]
        return [minute, self._window("day", self.per_day, self.day_count, self.day_ends)]

    def _window(self, name: str, quota: int, used: int, ends: float) -> Window:
        # Never negative, even if an operator has lowered the quota, or the clock of the database
        # has been set back.
        left, seconds_left = quota - used, ceil(ends - self.now)
        return Window(
            name, quota, left if left > 0 else 0, seconds_left if seconds_left > 0 else 0, ends
        )


def window_to_show(windows: list[Window]) -> Window:
    """Choose the window for X-RateLimit-*: the day if its quota is used up, else the minute."""
    return windows[-1] if windows[-1].left == 0 else windows[0]


@cache
def policy_header(per_minute: int, per_day: int | None) -> str:
    """Write the limits of a plan as RateLimit-Policy has them, with the seconds of each window."""
    day = "" if per_day is None else f', "day";q={per_day};w=86400'
    return f'"minute";q={per_minute};w=60{day}'
