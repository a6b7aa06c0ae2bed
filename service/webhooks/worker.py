"""The worker: delivers what is due, webhooks in turn, and prunes."""

import logging
import signal
from collections import Counter
from collections.abc import Callable
from threading import Event, Lock, Thread
from time import monotonic
from typing import NamedTuple

import psycopg

from service import db
from service.fields import NIL_UUID
from service.settings import Settings
from service.statements import Row
from service.webhooks import delivery
from service.webhooks.delivery import Claim, Recorded

log = logging.getLogger("service.worker")

# Seconds between two looks at what is due, between two prunings, and after an error.
POLL_INTERVAL, PRUNE_INTERVAL, ERROR_INTERVAL = 0.5, 60, 1
# Attempts in flight for each of WEB_THREADS; a workspace may have as many as WEB_THREADS.
ATTEMPTS_PER_THREAD = 4
MAX_ATTEMPT_SECONDS = 15

# A workspace and a webhook; claims go on behind the last one, so that webhooks take turns.
Position = tuple[str, str]
START = NIL_UUID, NIL_UUID


class Pruned(NamedTuple):
    """The row of a pruning: how many rows were deleted."""

    deleted: int


class Worker:
    """Any number may run, on any number of machines: each claims what no other has claimed."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.pool = db.Pool(settings, "worker")
        self.stopping = Event()
        self._claiming = Lock()
        self._position: Position = START
        self._idle_until = 0.0
        # Their workspaces.
        self._in_flight: list[str] = []

    def run(self, *, deliver: bool = True, prune: bool = True) -> None:
        """Work until SIGTERM or SIGINT, then finish the attempts in flight."""
        # Waited for, not handled: a handler may interrupt anything, the taking of a lock too.
        signals = {signal.SIGTERM, signal.SIGINT}
        signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        threads = []
        if prune:
            threads.append(Thread(target=self.repeat, args=(self.prune, PRUNE_INTERVAL)))
        if deliver:
            threads += [
                Thread(target=self.repeat, args=(self.deliver_next, POLL_INTERVAL))
                for _ in range(ATTEMPTS_PER_THREAD * self.settings.web_threads)
            ]
        for thread in threads:
            thread.start()
        signal.sigwait(signals)
        self.stopping.set()
        for thread in threads:
            thread.join()
        self.pool.close()

    def run_once(self, *, deliver: bool = True, prune: bool = True) -> int:
        """Deliver what is due now, prune, and return the number of attempts."""
        attempts = 0
        try:
            while deliver and self.deliver_next():
                attempts += 1
            while prune and self.prune():
                pass
        finally:
            self.pool.close()
        return attempts

    def deliver_next(self) -> bool:
        """Claim one due delivery, attempt it and record the outcome; False when none is due."""
        claim = self._claim()
        if claim is None:
            return False
        try:
            timeout = min(MAX_ATTEMPT_SECONDS, self.settings.webhook_lease / 2)
            outcome = delivery.attempt(claim, self.settings, timeout)
            recorded = self.row(Recorded, "webhooks/record", **outcome._asdict())
            delivery.log_outcome(claim, outcome, recorded)
        finally:
            with self._claiming:
                self._in_flight.remove(claim.workspace_id)
                self._idle_until = 0
        return True

    def prune(self) -> bool:
        """Prune one batch; True while there is more."""
        pruned = self.row(Pruned, "worker/prune", keep=self.settings.webhook_keep)
        return pruned is not None and pruned.deleted > 0

    def repeat(self, work: Callable[[], bool], interval: float) -> None:
        """Do ``work`` until stopped, waiting when there is none; no error ends it."""
        while not self.stopping.is_set():
            try:
                if not work():
                    self.stopping.wait(interval)
            except psycopg.Error as error:
                log.warning("the worker waits for the database: %s", type(error).__name__)
                self.stopping.wait(ERROR_INTERVAL)
            except Exception as error:
                log.error("unhandled: %s", type(error).__name__, exc_info=error)
                self.stopping.wait(ERROR_INTERVAL)

    def _claim(self) -> Claim | None:
        """Claim the oldest due delivery of the next webhook; None when none is due."""
        # One thread at a time: the others would all ask the same.
        with self._claiming:
            if monotonic() < self._idle_until:
                return None
            claim = self._claim_after(self._position)
            if claim is None and self._position != START:
                claim = self._claim_after(START)
            if claim is None:
                self._position = START
                self._idle_until = monotonic() + POLL_INTERVAL
            else:
                self._position = claim.workspace_id, claim.webhook_id
                self._in_flight.append(claim.workspace_id)
            return claim

    def _claim_after(self, position: Position) -> Claim | None:
        in_flight = Counter(self._in_flight)
        limit = self.settings.web_threads
        return self.row(
            Claim,
            "webhooks/claim_due",
            after_workspace_id=position[0],
            after_webhook_id=position[1],
            busy=[workspace for workspace in in_flight if in_flight[workspace] >= limit],
            lease=self.settings.webhook_lease,
        )

    def row(self, kind: type[Row], name: str, **values: object) -> Row | None:
        """Run ``sql/<name>.sql`` on a connection of the pool; return its first row, or None."""
        connection = self.pool.take(monotonic() + self.pool.seconds)
        try:
            return connection.row(kind, name, values)
        finally:
            self.pool.give_back(connection)
