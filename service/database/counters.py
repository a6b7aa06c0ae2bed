"""Counts of requests and of corruption, which the processes add up in the table ``counters``.

A request only appends to a deque. Every ten seconds a thread of the pool adds what is in it to the
table, so counts outlive a process, and one host reads those of all. A crash may lose the last ones.
"""

from bisect import bisect_left
from collections import defaultdict, deque
from itertools import accumulate
from time import monotonic

import psycopg

from service.database.statements import Connection

# Seconds between two writes.
INTERVAL = 10
# The upper bounds of the durations, in seconds.
BOUNDS = 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5
# SQLSTATEs of a corrupted table or index.
CORRUPTED = {"XX001", "XX002"}
# Method, route, status, its seconds and those of the database.
Counted = tuple[str, str, int, float, float]


class Counters:
    """What this process has counted and not yet added to the table."""

    def __init__(self) -> None:
        # Bounded, for a web server without the thread that empties it.
        self.requests: deque[Counted] = deque(maxlen=50_000)
        self._errors: deque[str] = deque(maxlen=1000)
        self._unsaved: defaultdict[str, float] = defaultdict(float)
        self._due = 0.0

    def failed(self, error: psycopg.Error) -> None:
        if error.sqlstate in CORRUPTED:
            self._errors.append(error.sqlstate or "")

    def save(self, connection: Connection, *, due: bool = True) -> None:
        """Add the counts to the table, if that is ``due``; they stay here if it fails."""
        if due and monotonic() < self._due:
            return
        self._due = monotonic() + INTERVAL
        self._add_up()
        if self._unsaved:
            values = {"series": [*self._unsaved], "values": [*map(float, self._unsaved.values())]}
            connection.run("counters/add", values)
            self._unsaved.clear()

    def _add_up(self) -> None:
        # Of each method, route and status: how many requests took so long, and their seconds.
        found: dict[tuple[str, str, int], list[float]] = {}
        seconds: float = 0
        for _ in range(len(self.requests)):
            method, route, status, took, database = self.requests.popleft()
            numbers = found.get((method, route, status))
            if numbers is None:
                numbers = found[method, route, status] = [0] * (len(BOUNDS) + 2)
            numbers[bisect_left(BOUNDS, took)] += 1
            numbers[-1] += took
            seconds += database
        for (method, route, status), (*numbers, took) in found.items():
            labels, name = f'method="{method}",route="{route}"', "request_duration_seconds"
            self._unsaved[f'requests_total{{{labels},status="{status}"}}'] += sum(numbers)
            self._unsaved[f"{name}_count{{{labels}}}"] += sum(numbers)
            self._unsaved[f"{name}_sum{{{labels}}}"] += took
            for le, number in zip((*BOUNDS, "+Inf"), accumulate(numbers), strict=True):
                self._unsaved[f'{name}_bucket{{{labels},le="{le}"}}'] += number
        if found:
            self._unsaved["database_seconds_total"] += seconds
        for _ in range(len(self._errors)):
            self._unsaved[f'corruption_total{{sqlstate="{self._errors.popleft()}"}}'] += 1
