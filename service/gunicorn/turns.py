"""The turns of requests: a limited number runs, and the others wait, those for /healthz apart."""

import time
from collections import deque
from threading import Lock

from service.gunicorn.connection import Connection


class Turns:
    """Lets at most ``places`` requests run at the same time; the others wait in two queues.

    A request for /healthz overtakes the others, but not two in succession: neither does a load of
    requests delay /healthz for long, nor a flood of requests for /healthz, which are not counted,
    the other requests.
    """

    def __init__(self, places: int) -> None:
        self.places = places
        self.running = 0
        self.lock = Lock()
        self.health, self.others = deque[Connection](), deque[Connection]()
        self.health_was_last = False

    def begin(self, conn: Connection) -> bool:
        """Return True if the request of the connection may run now; otherwise let it wait."""
        with self.lock:
            if self.running < self.places:
                self.running += 1
                return True
            self._wait(conn)
            return False

    def end(self, following: Connection | None) -> Connection | None:
        """End a run; return the connection whose request is next, or None if none waits.

        ``following`` is the connection itself if it has another complete request.
        """
        with self.lock:
            if following:
                self._wait(following)
            if self.health and not (self.health_was_last and self.others):
                self.health_was_last = True
                return self.health.popleft()
            self.health_was_last = False
            if self.others:
                return self.others.popleft()
            self.running -= 1
            return None

    def take_overdue(self, seconds: float, seconds_of_health: float) -> list[Connection]:
        """Remove and return the connections that have waited longer than this."""
        now, overdue = time.monotonic(), []
        with self.lock:
            for queue, limit in (self.others, seconds), (self.health, seconds_of_health):
                while queue and queue[0].since <= now - limit:
                    overdue.append(queue.popleft())
        return overdue

    def _wait(self, conn: Connection) -> None:
        (self.health if conn.reader.for_health else self.others).append(conn)
