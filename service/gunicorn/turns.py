"""The turns of requests: a limited number runs, and the others wait, /healthz apart."""

import time
from collections import deque
from threading import Lock

from service.gunicorn.connections import ClientConnection


class Turns:
    """Lets at most ``places`` requests run; each begins in a thread that would otherwise wait.

    A request for /healthz overtakes the others, but not two in succession: neither does a load of
    requests delay /healthz for long, nor a flood of requests for /healthz, which are not counted,
    the other requests.
    """

    def __init__(self, places: int) -> None:
        self.free = places
        self.lock = Lock()
        self.health, self.others = deque[ClientConnection](), deque[ClientConnection]()
        self.health_was_last = False

    def begin(self, conn: ClientConnection) -> bool:
        """Give the request of the connection a turn, and return True; or let it wait for one."""
        with self.lock:
            if self.free:
                self.free -= 1
                return True
            self._wait(conn)
            return False

    def end(self, following: ClientConnection | None) -> ClientConnection | None:
        """End a run; return the connection whose request is next, or None if none waits.

        ``following`` is the connection itself if it has another complete request.
        """
        with self.lock:
            if following:
                self._wait(following)
            queue = self.others if self.others and self.health_was_last else self.health
            queue = queue or self.others
            self.health_was_last = queue is self.health
            if queue:
                return queue.popleft()
            self.free += 1
            return None

    def take_overdue(self, seconds: float, seconds_of_health: float) -> list[ClientConnection]:
        """Remove and return the connections that have waited longer than this."""
        now, overdue = time.monotonic(), []
        with self.lock:
            for queue, limit in (self.others, seconds), (self.health, seconds_of_health):
                while queue and queue[0].since <= now - limit:
                    overdue.append(queue.popleft())
        return overdue

    def _wait(self, conn: ClientConnection) -> None:
        (self.health if conn.reader.for_health else self.others).append(conn)
