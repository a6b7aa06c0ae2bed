"""Logs the errors of the database that the worker meets, but does not repeat them all the time."""

import logging
from threading import Lock

import psycopg

from service.database.pool import UnusableDatabase
from service.database.remedies import remedy
from service.logs import is_rare, rarely_logged

log = logging.getLogger("service.worker")


class ErrorLog:
    """Logs an error when it begins or changes, then once a minute, for all threads together."""

    def __init__(self) -> None:
        self._lock = Lock()
        # The error of each statement that failed the last time.
        self._failing: dict[str, str] = {}

    def failed(self, statement: str, error: psycopg.Error) -> None:
        text = message_of(statement, error)
        with self._lock:
            if text not in self._failing.values():
                rarely_logged.pop(text, None)
            self._failing[statement] = text
            if is_rare(text):
                log.warning("%s", text)

    def succeeded(self, statement: str) -> None:
        """Note that a statement has succeeded; log it if no other statement still fails."""
        with self._lock:
            if self._failing.pop(statement, None) and not self._failing:
                log.info("the worker continues: its statements succeed again")


def message_of(statement: str, error: psycopg.Error) -> str:
    """Name the class of an error and its remedy; its own text may hold an address.

    An error with a remedy concerns all statements, so the message does not name one.
    """
    if isinstance(error, UnusableDatabase):
        return f"the worker waits for the database: {error}"
    name, known = type(error).__name__, remedy(error)
    if known:
        return f"the worker waits for the database: {name}: {known}"
    return f"{statement} failed: {name}"
