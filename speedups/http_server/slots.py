"""The slots of requests: a limited number runs, and the others wait, urgent ones apart."""

import time
from collections import deque
from threading import Lock

from service.speedups.http_server.client_connections import ClientConnection


class Slots:
    """Lets at most ``number`` requests run. A thread that puts one or frees a slot then takes one.

    An urgent request overtakes the others, but two urgent requests in succession do not. So
    an urgent request does not wait long under load, and a flood of urgent requests does not starve
    the others.
    """

    def __init__(self, number: int) -> None:
        # A thread that ends a run adds one to both, while it holds the lock, and without a call
        # that could fail.
        self.free, self.ended = number, 0
        self.lock = Lock()
        self.urgent, self.others = deque[ClientConnection](), deque[ClientConnection]()
        self.urgent_was_last = False

    def put(self, conn: ClientConnection) -> None:
        """Queue the complete request of the connection for a slot."""
        (self.urgent if conn.reader.urgent else self.others).append(conn)

    def take(self) -> ClientConnection | None:
        """Take a slot for the next request; return None if no request waits or no slot is free."""
        if not (self.urgent or self.others):
            return None
        with self.lock:
            queue = self.others if self.others and self.urgent_was_last else self.urgent
            queue = queue or self.others
            if not (self.free and queue):
                return None
            conn = queue.popleft()
            self.urgent_was_last = queue is self.urgent
            self.free -= 1
            return conn

    def pop_overdue(self, seconds: float, seconds_if_urgent: float) -> ClientConnection | None:
        """Remove and return a connection that has waited longer than this, or return None."""
        now = time.monotonic()
        with self.lock:
            for queue, limit in (self.others, seconds), (self.urgent, seconds_if_urgent):
                if queue and queue[0].since <= now - limit:
                    return queue.popleft()
        return None
