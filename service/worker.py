"""The worker: attempts what is due, as many side by side as a web process has threads, and tidies up."""

import logging
import signal
from threading import Event, Thread

import psycopg

from service import db, webhooks

log = logging.getLogger("service.worker")

POLL = 0.5
TIDY = 60


class Worker:
    """Any number may run, on any number of machines: claims keep them out of each other's way."""

    def __init__(self, settings):
        self.settings = settings
        self.stopping = Event()

    def run(self):
        """Deliver until SIGTERM or SIGINT, then finish the attempts in hand."""
        # Waited for, not handled: a handler may interrupt anything, the taking of a lock too.
        signals = {signal.SIGTERM, signal.SIGINT}
        signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        work = [self._keep_tidy] + [self._keep_delivering] * self.settings.web_threads
        threads = [Thread(target=target) for target in work]
        for thread in threads:
            thread.start()
        signal.sigwait(signals)
        self.stopping.set()
        for thread in threads:
            thread.join()

    def run_once(self):
        """Deliver what is due now, tidy up, and return how many attempts that took."""
        with db.connect(self.settings) as connection:
            attempts = 0
            while not self.stopping.is_set() and self._deliver_one(connection):
                attempts += 1
            self._tidy(connection)
            return attempts

    def _deliver_one(self, connection):
        """Claim one due delivery, attempt it and record the outcome; False when none is due."""
        lease = self.settings.webhook_lease
        claim = connection.execute(db.statement("webhooks/claim_due"), {"lease": lease}).fetchone()
        if claim is None:
            return False
        outcome = webhooks.attempt(claim, self.settings, timeout=min(15, lease / 2))
        connection.execute(db.statement("webhooks/record"), outcome)
        return True

    def _keep_delivering(self):
        self._repeat(self._deliver_one, POLL)

    def _keep_tidy(self):
        self._repeat(self._tidy, TIDY)

    def _tidy(self, connection):
        """Prune in batches; True while there is more."""
        pruned = connection.execute(
            db.statement("webhooks/prune"), {"keep": self.settings.webhook_keep}
        ).fetchone()
        return pruned.count > 0

    def _repeat(self, work, pause):
        """Do ``work`` again and again, resting when there is none, through every loss of the database."""
        while not self.stopping.is_set():
            try:
                with db.connect(self.settings) as connection:
                    while not self.stopping.is_set():
                        if not work(connection):
                            self.stopping.wait(pause)
            except psycopg.Error as error:
                log.warning("worker waits for the database: %s", type(error).__name__)
                self.stopping.wait(1)
