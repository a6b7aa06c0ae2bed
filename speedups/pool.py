"""A pool that keeps the connection used last, above psycopg_pool.

psycopg_pool returns the connection that was free for the longest time. By then, the caches of its
backend are cold.

This module relies on ``getconn`` and ``putconn`` being called by psycopg_pool's ``connection()``,
which psycopg_pool documents, and on nothing else.
"""

from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any

from psycopg.pq import TransactionStatus
from psycopg_pool import PoolTimeout

from service.database import pool
from service.settings import Settings
from service.speedups import statements


class Connection(statements.Connection):
    # When the pool got this connection from psycopg_pool, by ``monotonic()``.
    taken_at: float = 0


class Pool(pool.Pool):
    """A pool whose free connections are taken last-in-first-out."""

    connections = Connection
    # After this many seconds a connection returns to psycopg_pool, so that it can be retired.
    MAX_WARM_SECONDS = 60

    def __init__(
        self, settings: Settings, program: str, at_first: Callable[[Any], None] | None = None
    ) -> None:
        # The free connections; the one used last is taken first. Each holder of a slot finds a
        # connection here or in psycopg_pool.
        self._warm: deque[Connection] = deque()
        self._slots: SimpleQueue[None] = SimpleQueue()
        for _ in range(settings.web_threads):
            self._slots.put(None)
        super().__init__(settings, program, at_first)

    def getconn(self, timeout: float | None = None) -> Any:
        """Take a free connection, the one used last first; raises PoolTimeout.

        The caller must return the connection with ``putconn``, even a broken one; until then it
        occupies a slot of the pool.
        """
        seconds = self.timeout if timeout is None else timeout
        end = monotonic() + seconds
        try:
            self._slots.get(timeout=seconds)
        except Empty:
            raise PoolTimeout(f"no connection became free within {seconds:.1f} s") from None
        try:
            return self._warm.pop()
        except IndexError:
            pass
        try:
            connection: Any = super().getconn(max(0, end - monotonic()))
        except BaseException:
            self._slots.put(None)
            raise
        connection.taken_at = monotonic()
        return connection

    def putconn(self, connection: Any) -> None:
        """Keep a connection for the next request, unless it is broken or was kept for long.

        This frees the slot: the caller must not use the connection afterwards.
        """
        oldest = max(self._last_drained, monotonic() - self.MAX_WARM_SECONDS)
        # A connection that is not idle goes to psycopg_pool, which rolls it back or closes it.
        is_idle = connection.pgconn.transaction_status == TransactionStatus.IDLE
        is_fresh = connection.taken_at > oldest
        try:
            if is_idle and is_fresh and not self.closed:
                self._warm.append(connection)
            else:
                super().putconn(connection)
        finally:
            self._slots.put(None)
        self._put_back(oldest)

    def _put_back(self, oldest: float) -> None:
        """Put the kept connections that were taken before ``oldest`` into psycopg_pool."""
        try:
            while self._warm[0].taken_at <= oldest:
                super().putconn(self._warm.popleft())
        except IndexError:
            # None is left; another thread may have taken the last one.
            return

    def drain(self) -> None:
        """Replace all connections; those in use are replaced when they are returned."""
        super().drain()
        self._put_back(self._last_drained)

    def close(self, timeout: float = 5.0) -> None:
        """Close the kept connections too."""
        super().close(timeout)
        self._put_back(monotonic())
