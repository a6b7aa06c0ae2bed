"""The queues of a worker: connections wait in them, sorted by the end of their time."""

import time
from collections import deque
from collections.abc import Callable
from math import inf
from selectors import EVENT_READ, EVENT_WRITE, BaseSelector
from threading import RLock

from service.gunicorn.connection import Connection


class Queue(deque[Connection]):
    """Connections that wait, oldest first, each for ``seconds`` at most.

    ``event`` is what the poller waits for on their sockets; 0 if they wait for a thread.
    """

    def __init__(self, seconds: float, event: int = EVENT_READ) -> None:
        super().__init__()
        self.seconds, self.event = seconds, event


class Queues:
    """All queues. The poller and the threads use them, so one lock guards them."""

    # Set after the fork: file descriptors of a poller are not shared between processes.
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
        # For the next request; for the rest of a request.
        self.idle, self.reading = Queue(keepalive), Queue(read)
        # For the client to take its response; for the client to close.
        self.flushing, self.lingering = Queue(write, EVENT_WRITE), Queue(linger)
        # For a thread; a request for /healthz in a queue of its own.
        self.requests, self.health = Queue(take, 0), Queue(take_health, 0)

    def wait(self, conn: Connection, queue: Queue) -> None:
        """Put the connection at the end of this queue, unless it is there already."""
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
        """Take the oldest connection out of the queue if its time is up at ``now``."""
        with self.lock:
            if not queue or queue[0].timeout > now:
                return None
            conn = queue[0]
            self.leave(conn)
            return conn

    def take_request(self) -> Connection | None:
        """Take the request that has waited longest, one for /healthz first."""
        return self.take(self.health) or self.take(self.requests)

    def take_from_longest(self, spare: int) -> Connection | None:
        """Take the oldest connection of the longest queue, if that has more than ``spare``.

        In a flood, the longest queue is the one that the flood has filled. If it is short, the
        threads have the other connections and will soon respond.
        """
        queues = (self.idle, self.reading, self.flushing, self.lingering)
        longest = max(queues, key=len)
        return self.take(longest) if len(longest) > spare else None

    def shorten(self, seconds: float) -> None:
        """Let no connection wait longer for a request, or for the rest of one."""
        with self.lock:
            latest = time.monotonic() + seconds
            for queue in (self.idle, self.reading):
                queue.seconds = min(queue.seconds, seconds)
                for conn in queue:
                    conn.timeout = min(conn.timeout, latest)

    def seconds_until_rejection(self) -> float:
        """The time until a request has to be rejected that no thread has taken."""
        with self.lock:
            ends = [queue[0].timeout for queue in (self.requests, self.health) if queue]
        return max(0.0, min(ends) - time.monotonic()) if ends else inf
