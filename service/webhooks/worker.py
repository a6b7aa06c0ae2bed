"""The worker delivers due deliveries, one webhook after the other, and prunes old rows."""

import logging
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from math import inf
from threading import Event, Lock, Thread
from time import monotonic
from typing import NamedTuple

import psycopg
from psycopg_pool import PoolTimeout

from service.database.pool import Pool
from service.database.statements import Connection
from service.settings import Settings
from service.values.types import NIL_UUID
from service.webhooks import delivery
from service.webhooks.delivery import Message
from service.webhooks.error_log import ErrorLog
from service.webhooks.secrets import MissingKey, fingerprints, missing_keys, warn_of_missing_keys

log = logging.getLogger("service.worker")

# In seconds: between two queries for due deliveries, between two prunings, and after an error.
POLL_INTERVAL, PRUNE_INTERVAL, ERROR_INTERVAL = 0.5, 60, 1
# The statements that prune. Each examines a bounded batch, and returns where the next batch begins.
PRUNE = (
    "worker/prune_webhooks",
    "worker/prune_events",
    "worker/prune_feeds",
    "worker/prune_keys",
    "worker/prune_tokens",
    "worker/prune_usage",
    "worker/prune_deleted_versions",
)
# A clock that nobody sets. On Linux, it continues while the host is suspended.
HOST_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
# A running worker gives up a table for this round after this many empty batches.
MAX_EMPTY_BATCHES = 10
# The number of delivery threads, as a multiple of WEB_THREADS. One workspace may use WEB_THREADS of
# them.
ATTEMPTS_PER_THREAD = 4
MAX_ATTEMPT_SECONDS = 15
# Seconds that connections of the pool may take to close when the worker ends.
CLOSE_SECONDS = 0.5

# A workspace and a webhook. The next claim continues after the webhook of the last claim, so that
# webhooks take turns.
Position = tuple[str, str]
START = NIL_UUID, NIL_UUID


class Pruned(NamedTuple):
    """The row of one pruned batch: how many rows were deleted, and where the next batch begins."""

    deleted: int
    # None after the last batch.
    next: str | None


class PruningTime(NamedTuple):
    # The Unix time up to which the workers prune.
    until: float


class Worker:
    """Delivers and prunes. Many workers may run, because each claims different deliveries."""

    def __init__(
        self, settings: Settings, *, max_attempt_seconds: float = MAX_ATTEMPT_SECONDS
    ) -> None:
        self.settings, self.max_attempt_seconds = settings, max_attempt_seconds
        self.pool = Pool(settings, "worker")
        self.stopping = Event()
        self.errors = ErrorLog()
        self._claiming = Lock()
        self._position: Position = START
        self._idle_until = 0.0
        # The workspace of each attempt in flight.
        self._in_flight: list[str] = []
        self._keys = fingerprints(settings)
        self._missing: list[MissingKey] = []
        # Where the next batch of each statement that prunes begins; "" is the beginning.
        self._prune_after = dict.fromkeys(PRUNE, "")
        # The Unix time at which the host's clock was 0, if the database's clock has not leapt.
        self._host_clock_began = -inf

    def run(self, *, deliver: bool) -> None:
        """Work until SIGTERM or SIGINT, then finish the attempts in flight.

        Stops within three seconds, even without a database, unless an attempt or a statement is
        still running.
        """
        # sigwait, because a signal handler could run while this thread holds a lock.
        signals = {signal.SIGTERM, signal.SIGINT}
        signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        # The next round of pruning continues after the rows that had to stay.
        prune = partial(self.prune, MAX_EMPTY_BATCHES)
        threads = [Thread(target=self.repeat, args=(prune, PRUNE_INTERVAL))]
        if deliver:
            threads.append(Thread(target=self.repeat, args=(self.check_keys, PRUNE_INTERVAL)))
            threads += [
                Thread(target=self.repeat, args=(self.deliver_next, POLL_INTERVAL))
                for _ in range(ATTEMPTS_PER_THREAD * self.settings.web_threads)
            ]
        for thread in threads:
            thread.start()
        self.pool.stay_connected()
        signal.sigwait(signals)
        self.stopping.set()
        for thread in threads:
            thread.join()
        self.pool.close(CLOSE_SECONDS)

    def run_once(self, *, deliver: bool = True, prune: bool = True) -> int:
        """Deliver what is due now, prune, and return the number of attempts."""
        attempts = 0
        try:
            if deliver:
                self.check_keys()
            while deliver and self.deliver_next():
                attempts += 1
            if prune:
                # An operator runs this after a leap, if the clock is right.
                self.prune(until=inf)
        finally:
            self.pool.close()
        return attempts

    def deliver_next(self) -> bool:
        """Deliver one event, and return True; return False when none is due.

        1. Claim the oldest due delivery of the next webhook. No other thread attempts it until the
           lease expires. If this process dies, another process attempts it then.
        2. Sign and post it, without a connection of the database.
        3. Record the outcome. This waits for the database longer than other statements do, because
           without a record the receiver gets the event again.
        4. Let the next thread look for due deliveries without a pause.
        """
        claim = self._claim()
        if claim is None:
            return False
        try:
            timeout = min(self.max_attempt_seconds, self.settings.webhook_lease / 2)
            outcome = delivery.attempt(claim, self.settings, timeout)
            with self._connection("webhooks/record", patient=True) as connection:
                delivery.record(connection, claim, outcome)
        finally:
            with self._claiming:
                self._in_flight.remove(claim.workspace_id)
                self._idle_until = 0
        return True

    def check_keys(self) -> None:
        """If the keys that WEBHOOK_KEY lacks have changed, log them."""
        with self._connection("webhooks/missing_keys") as connection:
            missing = missing_keys(connection, self.settings)
        if missing != self._missing:
            warn_of_missing_keys(missing, self.settings)
        self._missing = missing

    def prune(self, max_empty_batches: float = inf, *, until: float | None = None) -> None:
        """Run all statements that prune, then raise the first failure.

        They prune up to the Unix time ``until``, but at most up to now. By default, this time
        advances only as fast as time passes on this host, even if the clock of the database leaps.
        """
        failures = []
        steps = [partial(self._prune, name, max_empty_batches) for name in PRUNE]
        for step in [partial(self._advance, until), *steps]:
            try:
                step()
            except psycopg.Error as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def _advance(self, until: float | None) -> None:
        """Advance the time up to which the workers prune."""
        with self._connection("worker/advance") as connection:
            clock = time.clock_gettime(HOST_CLOCK)
            if until is None and self._host_clock_began > -inf:
                until = self._host_clock_began + clock
            found = connection.row(PruningTime, "worker/advance", until=until)
        # After the database's clock was set back, the worker still knows the later time.
        self._host_clock_began = max(self._host_clock_began, found.until - clock)

    def _prune(self, name: str, max_empty_batches: float) -> None:
        empty_batches = 0
        while empty_batches < max_empty_batches and not self.stopping.is_set():
            after = self._prune_after[name]
            with self._connection(name) as connection:
                pruned = connection.row_or_none(
                    Pruned, name, keep=self.settings.webhook_keep, after=after
                )
            self._prune_after[name] = (pruned and pruned.next) or ""
            if pruned is None or pruned.next is None:
                return
            empty_batches += not pruned.deleted

    def repeat(self, work: Callable[[], bool | None], interval: float) -> None:
        """Call ``work`` until the worker stops.

        Wait after an error, and after a call that did not return True.
        """
        while not self.stopping.is_set():
            try:
                if not work():
                    self.stopping.wait(interval)
            except psycopg.Error:
                # ``_connection`` has already logged the error.
                self.stopping.wait(ERROR_INTERVAL)
            except Exception as error:
                log.error("unhandled: %s", type(error).__name__, exc_info=error)
                self.stopping.wait(ERROR_INTERVAL)

    def _claim(self) -> Message | None:
        """Claim the oldest due delivery of the next webhook; None when none is due."""
        # One thread at a time, because all threads would run the same query.
        with self._claiming:
            if monotonic() < self._idle_until or self.stopping.is_set():
                return None
            try:
                claim = self._claim_after(self._position)
                if claim is None and self._position != START:
                    claim = self._claim_after(START)
            except psycopg.Error:
                # Do not wait inside the lock, or the threads would wait for the database in turn.
                self._idle_until = monotonic() + ERROR_INTERVAL
                raise
            if claim is None:
                self._position = START
                self._idle_until = monotonic() + POLL_INTERVAL
            else:
                self._position = claim.workspace_id, claim.webhook_id
                self._in_flight.append(claim.workspace_id)
            return claim

    def _claim_after(self, position: Position) -> Message | None:
        in_flight = Counter(self._in_flight)
        limit = self.settings.web_threads
        with self._connection("webhooks/claim_due") as connection:
            return connection.row_or_none(
                Message,
                "webhooks/claim_due",
                after_workspace_id=position[0],
                after_webhook_id=position[1],
                busy=[workspace for workspace in in_flight if in_flight[workspace] >= limit],
                keys=self._keys,
                lease=self.settings.webhook_lease,
            )

    @contextmanager
    def _connection(self, statement: str, *, patient: bool = False) -> Iterator[Connection]:
        """Yield a connection for a statement; log its error, and the end of an error."""
        try:
            connection = self._take(patient=patient)
            try:
                yield connection
            finally:
                self.pool.give_back(connection)
        except psycopg.Error as error:
            self.errors.failed(statement, error)
            self.pool.counters.failed(error)
            raise
        self.errors.succeeded(statement)

    def _take(self, *, patient: bool) -> Connection:
        """Take a connection within POOL_TIMEOUT; unless ``patient``, give up at a signal."""
        end = monotonic() + self.pool.timeout
        while True:
            now = monotonic()
            try:
                # The pool then waits for its shortest time only.
                return self.pool.take(now + self.pool.seconds, queued=self.pool.timeout)
            except PoolTimeout:
                if now >= end or (self.stopping.is_set() and not patient):
                    raise
