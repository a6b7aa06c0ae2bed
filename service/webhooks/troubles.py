"""Logs the errors of the database that the worker meets, without a flood."""

import logging
from threading import Lock
from time import monotonic

import psycopg

from service.database.pool import WrongEncoding
from service.database.remedies import remedy

log = logging.getLogger("service.worker")

# Seconds after which an error that lasts is logged again.
INTERVAL = 60


class Repeated(logging.Filter):
    """Drops a message that was logged less than a minute ago."""

    def __init__(self) -> None:
        super().__init__()
        self._logged: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is to be logged."""
        message, now = record.getMessage(), monotonic()
        if now < self._logged.get(message, -INTERVAL) + INTERVAL:
            return False
        self._logged[message] = now
        return True


# One for all workers of a process: a logger takes each filter once.
repeated = Repeated()


class Troubles:
    """Logs an error when it begins or changes and then once a minute, for all threads together.

    The same holds for the pool, which logs why it cannot connect.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        logging.getLogger("psycopg.pool").addFilter(repeated)
        # The error of each statement that failed the last time, and when each text was logged.
        self._failing: dict[str, str] = {}
        self._logged: dict[str, float] = {}

    def note(self, statement: str, error: psycopg.Error) -> None:
        """Note that a statement has failed."""
        text = message_of(statement, error)
        with self._lock:
            new = text not in self._failing.values()
            self._failing[statement] = text
            if new or monotonic() >= self._logged[text] + INTERVAL:
                self._logged[text] = monotonic()
                log.warning("%s", text)

    def end(self, statement: str) -> None:
        """Note that a statement has succeeded; log it if no other one fails any more."""
        with self._lock:
            if self._failing.pop(statement, None) and not self._failing:
                log.info("the worker goes on: its statements succeed again")


def message_of(statement: str, error: psycopg.Error) -> str:
    """Name the class of an error and its remedy; its own text may hold an address.

    An error with a remedy is the same for all statements, and does not name one.
    """
    if isinstance(error, WrongEncoding):
        return f"the worker waits for the database: {error}"
    name, known = type(error).__name__, remedy(error)
    if known:
        return f"the worker waits for the database: {name}: {known}"
    return f"{statement} failed: {name}"
