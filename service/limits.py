"""Rate limits: the windows of a plan, and the requests that a caller has made in each.

Source: docs/specification.md, section 8.
"""

from functools import lru_cache
from math import ceil
from typing import NamedTuple

# The length of the windows in seconds.
MINUTE, DAY = 60, 86400
# The requests a minute on the plan Starter, whose limits hold for a caller without a workspace.
STARTER_PER_MINUTE = 60


class Window(NamedTuple):
    """One window of a rate limit; ``ends`` is a Unix time."""

    name: str
    quota: int
    # The requests and the whole seconds that are left.
    left: int
    seconds_left: int
    ends: float


class Usage(NamedTuple):
    """The caller of a request and the number of the caller's requests; the row of the gate.

    ``token_id``, ``user_id`` and ``scope`` are null without a valid credential, ``workspace_id``
    also without an active workspace; ``per_day`` is null on a plan without a daily limit.
    """

    token_id: str | None
    user_id: str | None
    workspace_id: str | None
    scope: str | None
    # True if the last use of the token was stored more than a minute ago, or never.
    touch: bool
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
        """Return all windows of the plan, the shortest first."""
        minute = self._window("minute", self.per_minute, self.minute_count, self.minute_ends)
        if self.per_day is None:
            return [minute]
        return [minute, self._window("day", self.per_day, self.day_count, self.day_ends)]

    def _window(self, name: str, quota: int, used: int, ends: float) -> Window:
        # An operator may have lowered the quota, and the clock of the database may go back.
        left, seconds_left = quota - used, ceil(ends - self.now)
        return Window(
            name, quota, left if left > 0 else 0, seconds_left if seconds_left > 0 else 0, ends
        )


def decisive(windows: list[Window]) -> Window:
    """Return the window that X-RateLimit-* shows: the longest if it is used up, else the first."""
    first, longest = windows[0], windows[-1]
    return longest if longest.left == 0 else first


@lru_cache(maxsize=64)
def policy(per_minute: int, per_day: int | None) -> str:
    """Return the header RateLimit-Policy, which is the same for all requests on a plan."""
    minute = f'"minute";q={per_minute};w={MINUTE}'
    return minute if per_day is None else f'{minute}, "day";q={per_day};w={DAY}'
