"""A worker that a test runs, and the rows that it works on."""

import signal
from datetime import UTC, datetime
from threading import Thread

from receivers import deliveries

UUID = "0190163d-8694-739b-aea5-966c26f8ad91"


class Running(Thread):
    """A worker that runs in this process, until SIGTERM for its thread."""

    def __init__(self, worker):
        super().__init__(target=worker.run, kwargs={"deliver": True})
        self.pool = worker.pool
        # The thread and those of the worker block the signal from the beginning.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        self.start()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def stop(self):
        """Send SIGTERM; return whether the worker has ended, and its connections too."""
        if self.is_alive():
            signal.pthread_kill(self.ident, signal.SIGTERM)
        self.join(10)
        return self.pool.closed and not self.is_alive()


def due_now(connection):
    """Make every delivery due and end every back-off."""
    connection.execute("UPDATE deliveries SET due_at = now() WHERE state = 'waiting'")
    connection.execute("UPDATE webhooks SET backoff_until = NULL")


def states(connection):
    return [(row["state"], row["attempts"]) for row in deliveries(connection)]


def seconds_until(timestamp):
    return (timestamp - datetime.now(UTC)).total_seconds()
