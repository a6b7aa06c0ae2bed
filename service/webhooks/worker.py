"""The worker: attempts what is due, as many at a time as a web process has threads, and prunes."""

import logging
import signal
from collections.abc import Callable
from threading import Event, Thread

import psycopg

from service import db
from service.settings import Settings
from service.webhooks import delivery

log = logging.getLogger("service.worker")

# Seconds between two looks at what is due, and between two prunings.
POLL_INTERVAL, PRUNE_INTERVAL = 0.5, 60


class Worker:
    """Any number may run, on any number of machines: claims keep them out of each other's way."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.stopping = Event()

    def run(self) -> None:
        """Deliver until SIGTERM or SIGINT, then finish the attempts in hand."""
        # Waited for, not handled: a handler may interrupt anything, the taking of a lock too.
        signals = {signal.SIGTERM, signal.SIGINT}
        signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        work = [self._keep_pruning] + [self._keep_delivering] * self.settings.web_threads
        threads = [Thread(target=target) for target in work]
        for thread in threads:
            thread.start()
        signal.sigwait(signals)
        self.stopping.set()
        for thread in threads:
            thread.join()

    def run_once(self) -> int:
        """Deliver what is due now, prune, and return the number of attempts."""
        with db.connect(self.settings) as connection:
            attempts = 0
            while not self.stopping.is_set() and self._deliver_one(connection):
                attempts += 1
            self._prune(connection)
            return attempts

    def _deliver_one(self, connection: db.Connection) -> bool:
        """Claim one due delivery, attempt it and record the outcome; False when none is due."""
        lease = self.settings.webhook_lease
        claim = connection.execute(db.statement("webhooks/claim_due"), {"lease": lease}).fetchone()
        if claim is None:
            return False
        outcome = delivery.attempt(claim, self.settings, timeout=min(15, lease / 2))
        connection.execute(db.statement("webhooks/record"), outcome)
        return True

    def _keep_delivering(self) -> None:
        self._repeat(self._deliver_one, POLL_INTERVAL)

    def _keep_pruning(self) -> None:
        self._repeat(self._prune, PRUNE_INTERVAL)

    def _prune(self, connection: db.Connection) -> bool:
        """Prune one batch; True while there is more."""
        keep = {"keep": self.settings.webhook_keep}
        pruned = connection.execute(db.statement("worker/prune"), keep).fetchone()
        return bool(pruned and pruned.count)

    def _repeat(self, work: Callable[[db.Connection], bool], pause: float) -> None:
        """Do ``work`` again and again, pausing when there is none, through database outages."""
        while not self.stopping.is_set():
            try:
                with db.connect(self.settings) as connection:
                    while not self.stopping.is_set():
                        if not work(connection):
                            self.stopping.wait(pause)
            except psycopg.Error as error:
                log.warning("worker waits for the database: %s", type(error).__name__)
                self.stopping.wait(1)
