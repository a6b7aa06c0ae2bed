"""The parts of ``task-service status``.

A section is a class that has all of a figure: the statement that reads it, its members in JSON, its
lines on the page, its metrics, and when it is a problem.
"""

from collections.abc import Iterator

from psycopg import errors

from service.commands.base import UNMIGRATED
from service.commands.migrate import Comparison, compare
from service.settings import Settings
from service.statements import Connection, Row

GRANT = "GRANT pg_read_all_stats TO the user of DATABASE_URL shows more"

# A line of the page: a name and a text. A metric: the end of its name and its number.
Line = tuple[str, str]
Metric = tuple[str, float]


class Reader:
    """Reads rows; notes the statements whose figures cannot be read."""

    def __init__(self, connection: Connection, settings: Settings) -> None:
        connection.run("status/configure", {})
        self.connection = connection
        self.settings = settings
        # The statements whose tables are locked, and the errors of those whose tables are missing.
        self.locked: list[str] = []
        self.broken: list[str] = []
        self.migrations = self._compare()

    def _compare(self) -> Comparison:
        try:
            return compare(self.connection)
        except errors.InsufficientPrivilege:
            return Comparison(0, [], [])

    def rows(self, kind: type[Row], name: str, **values: object) -> list[Row]:
        """Return all rows; none if a table is locked or missing, or belongs to another role."""
        try:
            return self.connection.rows(kind, name, values)
        except errors.LockNotAvailable:
            self.locked.append(name.partition("/")[2])
        except UNMIGRATED as error:
            self.broken.append(error.diag.message_primary or "")
        except errors.InsufficientPrivilege:
            # Schema names the tables.
            pass
        return []


class Section:
    """One subject of the page; a subclass reads its figures when it is made.

    Its public attributes are the members of the JSON document: plain values, rows, lists of rows.
    """

    def lines(self) -> Iterator[Line]:
        """Yield the lines of the page."""
        yield from ()

    def metrics(self) -> Iterator[Metric]:
        """Yield the metrics of Prometheus."""
        yield from ()

    def problems(self) -> Iterator[str]:
        """Yield what is wrong, each with its remedy; called when all sections are read."""
        yield from ()

    def notes(self) -> Iterator[str]:
        """Yield what an operator should know although nothing is wrong."""
        yield from ()
