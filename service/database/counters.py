"""Counts of requests and of corruption, which the processes add up in the table ``counters``.

A request only appends to a deque. Every ten seconds, a thread of the pool adds the contents of the
deque to the table. So the counts outlive the process, and any host can read the counts of all
processes. A crash may lose the counts of the last ten seconds.
"""

from bisect import bisect_left
from collections import defaultdict, deque

import psycopg

from service.database.statements import Connection

# The upper bounds of the durations, in seconds.
BOUNDS = 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5
# SQLSTATEs of a corrupted table or index.
CORRUPTED = {"XX001", "XX002"}
# Method, route, status, seconds of the whole request, and seconds of its statements and commits.
Counted = tuple[str, str, int, float, float]


class Counters:
    """The counts that this process has not yet added to the table."""

    def __init__(self) -> None:
        # The deque is bounded, because under a web server other than gunicorn no thread empties it.
        self.requests: deque[Counted] = deque(maxlen=50_000)
        self._errors: deque[str] = deque(maxlen=1000)
        self._unsaved: defaultdict[str, float] = defaultdict(float)

    def failed(self, error: psycopg.Error) -> None:
        if error.sqlstate in CORRUPTED:
            self._errors.append(error.sqlstate or "")

    def save(self, connection: Connection) -> None:
        """Add the counts to the table; if that fails, keep them."""
        self._add_up()
        if self._unsaved:
            values = [*self._unsaved.values()]
            connection.run("counters/add", series=[*self._unsaved], values=values)
            self._unsaved.clear()

    def _add_up(self) -> None:
        # For each method, route, status and bucket: the number of requests, their seconds, and the
        # seconds of their statements.
        cells: defaultdict[tuple[str, str, int, int], list[float]] = defaultdict(lambda: [0] * 3)
        for _ in range(len(self.requests)):
            method, route, status, took, database = self.requests.popleft()
            cell = cells[method, route, status, bisect_left(BOUNDS, took)]
            cell[0] += 1
            cell[1] += took
            cell[2] += database
        for (method, route, status, bucket), (number, took, database) in cells.items():
            labels, name = f'method="{method}",route="{route}"', "request_duration_seconds"
            self._unsaved[f'requests_total{{{labels},status="{status}"}}'] += number
            self._unsaved[f"{name}_count{{{labels}}}"] += number
            self._unsaved[f"{name}_sum{{{labels}}}"] += took
            for place, le in enumerate((*BOUNDS, "+Inf")):
                self._unsaved[f'{name}_bucket{{{labels},le="{le}"}}'] += number * (bucket <= place)
            self._unsaved["database_seconds_total"] += database
        for _ in range(len(self._errors)):
            self._unsaved[f'corruption_total{{sqlstate="{self._errors.popleft()}"}}'] += 1
