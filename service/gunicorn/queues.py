"""The queues in which the connections of a worker wait, each sorted by the time of its timeouts."""

import time
from collections import deque
from collections.abc import Callable
from math import inf
from selectors import EVENT_READ, EVENT_WRITE, BaseSelector
from threading import RLock

from service.gunicorn.connection import Connection


class Queue(deque[Connection]):
    """Waiting connections, oldest first; each may wait for ``seconds``.

    ``event`` is the event that the poller waits for on their sockets, or 0 if they wait for a
    thread.
    """

    def __init__(self, seconds: float, event: int = EVENT_READ) -> None:
        super().__init__()
        self.seconds, self.event = seconds, event


class Queues:
    """All queues of a worker; one lock guards them, because the poller and the threads use them."""

    # The worker sets the poller after the fork, because processes must not share a poller.
    poller: BaseSelector

    def __init__(
        self,
        on_ready: Callable[[Connection], None],
        *,
        keepalive: float,
        read: float,
        write: float,
        linger: float,
        take: float,
        take_health: float,
    ) -> None:
        self.on_ready = on_ready
        self.lock = RLock()
        # Connections that wait for the next request; for the rest of a request.
        self.idle, self.reading = Queue(keepalive), Queue(read)
        # Connections whose client has to read the response; whose client has to close.
        self.flushing, self.lingering = Queue(write, EVENT_WRITE), Queue(linger)
        # Requests that wait for a thread; requests for /healthz that wait for a thread.
        self.requests, self.health = Queue(take, 0), Queue(take_health, 0)

    def wait(self, conn: Connection, queue: Queue) -> None:
        """Put the connection at the end of this queue, unless the queue has it already."""
        with self.lock:
            if conn.queue is queue:
                return
            self.leave(conn)
            conn.queue = queue
            conn.since = time.monotonic()
            conn.timeout = conn.since + queue.seconds
            queue.append(conn)
            if queue.event:
                self.poller.register(conn.sock, queue.event, lambda _: self.on_ready(conn))

    def leave(self, conn: Connection) -> None:
        """Take the connection out of its queue."""
        with self.lock:
            if conn.queue is not None:
                if conn.queue.event:
                    self.poller.unregister(conn.sock)
                conn.queue.remove(conn)
                conn.queue = None

    def take(self, queue: Queue, now: float = inf) -> Connection | None:
        """Remove and return the oldest connection of the queue; None if its time is not up yet."""
        with self.lock:
            if not queue or queue[0].timeout > now:
                return None
            conn = queue[0]
            self.leave(conn)
            return conn

    def take_request(self) -> Connection | None:
        """Remove and return the request that has waited longest; /healthz has priority."""
        return self.take(self.health) or self.take(self.requests)

    def take_from_longest(self, spare: int) -> Connection | None:
        """Remove and return the oldest connection of the longest queue; keep ``spare`` connections.

        A flood of connections makes its own queue the longest. If the longest queue has no more
        than ``spare``, threads handle most connections and will soon respond: return None.
        """
        queues = (self.idle, self.reading, self.flushing, self.lingering)
        longest = max(queues, key=len)
        return self.take(longest) if len(longest) > spare else None

    def shorten(self, seconds: float) -> None:
        """Let no connection wait longer than ``seconds`` for a request or for its rest."""
        with self.lock:
            latest = time.monotonic() + seconds
            for queue in (self.idle, self.reading):
                queue.seconds = min(queue.seconds, seconds)
                for conn in queue:
                    conn.timeout = min(conn.timeout, latest)

    def seconds_until_rejection(self) -> float:
        """Return the seconds until the first waiting request must be rejected, without a thread."""
        with self.lock:
            ends = [queue[0].timeout for queue in (self.requests, self.health) if queue]
        return max(0.0, min(ends) - time.monotonic()) if ends else inf
