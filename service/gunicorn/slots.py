"""The slots of requests: a limited number runs, and the others wait, /healthz apart."""

import time
from collections import deque
from threading import Lock

from service.gunicorn.connections import ClientConnection


class Slots:
    """Lets at most ``number`` requests run. A thread that puts one or frees a slot then takes one.

    A request for /healthz overtakes the others, but not two in succession: load does not delay
    /healthz, and a flood of requests for /healthz, which are not counted, does not starve the
    others.
    """

    def __init__(self, number: int) -> None:
        # A thread that ends a run adds one to both, with the lock, and without a call that could
        # fail.
        self.free, self.ended = number, 0
        self.lock = Lock()
        self.health, self.others = deque[ClientConnection](), deque[ClientConnection]()
        self.health_was_last = False

    def put(self, conn: ClientConnection) -> None:
        """Let the complete request of the connection wait for a slot."""
        (self.health if conn.reader.for_health else self.others).append(conn)

    def take(self) -> ClientConnection | None:
        """Take a slot for the request that is next; return None if none waits or none is free."""
        if not (self.health or self.others):
            return None
        with self.lock:
            queue = self.others if self.others and self.health_was_last else self.health
            queue = queue or self.others
            if not (self.free and queue):
                return None
            conn = queue.popleft()
            self.health_was_last = queue is self.health
            self.free -= 1
            return conn

    def pop_overdue(self, seconds: float, seconds_of_health: float) -> ClientConnection | None:
        """Remove and return a connection that has waited longer than this; None without one."""
        now = time.monotonic()
        with self.lock:
            for queue, limit in (self.others, seconds), (self.health, seconds_of_health):
                if queue and queue[0].since <= now - limit:
                    return queue.popleft()
        return None
