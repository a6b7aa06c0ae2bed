"""The parts of ``task-service status``.

One function makes each section. It reads the figures of its subject, decides which are a problem,
and returns them in each form: for JSON, for the page and for metrics.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from time import time
from typing import Literal, NamedTuple

from psycopg import errors

from service.commands.migrate import Comparison, compare
from service.database.statements import (
    Connection,
    Part,
    Row,
    UnusableObject,
    parts_of_tables,
    schema_objects,
)
from service.settings import Settings

# The errors that statements raise in a database that lacks migrations, or primary keys, with which
# GROUP BY needs no other columns.
UNMIGRATED = (
    errors.UndefinedTable,
    errors.UndefinedColumn,
    errors.UndefinedFunction,
    errors.GroupingError,
)
# Seconds after which a process without a sign of life is silent; it gives one every ten seconds.
SILENT = 60
GRANT = "to see more, GRANT pg_read_all_stats TO the user of DATABASE_URL"


# A tolerable problem does not prevent a start: the service recovers when the problem is solved, or
# works in spite of it.
Level = Literal["error", "tolerable", "warning"]


class Server(NamedTuple):
    name: str
    version: str
    standby: bool
    # True if transactions cannot write, because the server is a standby or because of a setting.
    read_only: bool
    # A Unix time.
    clock: float
    bytes: int
    # The clients' connections to all databases of the server.
    connections_used: int
    # The connections that the server allows, without the ones that it reserves for superusers.
    connections_allowed: int
    # The process id of the backend. Behind a connection pooler, libpq knows another number.
    backend_pid: int
    # CONNECTION LIMIT of the role of this connection; None if it has none.
    connection_limit: int | None
    oldest_transaction_seconds: float
    # Sessions of this database whose transactions this role may not see.
    hidden_sessions: int


class Role(NamedTuple):
    standby: bool
    # If a setting makes the server read-only although it is not a standby, the statement or the
    # change that ends this.
    remedy: str | None


class Process(NamedTuple):
    # web or worker.
    program: str
    version: str
    # Host and process id, like host7:4711.
    process: str
    # Whether a web process uses the speedups; None for a worker, because workers have no speedups.
    speedups: bool | None
    # The number of sessions with the name of this process. Behind a connection pooler, a session
    # has the name of its last client.
    connections: int
    started_at: str
    # The time since the last sign of life. A process gives a sign of life when it renews its row,
    # and when one of its sessions begins or ends a statement.
    silent_seconds: float


class Reader:
    """Reads the rows of all sections, and notes which statements fail.

    The constructor reads the rows that several sections need.
    """

    def __init__(self, connection: Connection, settings: Settings) -> None:
        self.connection = connection
        self.settings = settings
        # unread: the statements that failed. locked: the failed statements whose tables are locked.
        # broken: the errors of the failed statements whose tables are missing.
        self.unread: list[str] = []
        self.locked: list[str] = []
        self.broken: list[str] = []
        before = time()
        (self.server,) = self.rows(Server, "status/server")
        self.clock_ahead = self.server.clock - (before + time()) / 2
        self.processes = self.rows(Process, "status/processes")
        # Each process writes a row into a table. If this table cannot be read, or if the processes
        # cannot write, it is unknown which processes run.
        self.knows_processes = not (self.unread or self.server.read_only)
        unusable = self.rows(UnusableObject, "status/unusable", **schema_objects())
        hidden = [item for item in unusable if item.kind == "schema"]
        self.unusable = hidden or unusable
        self.migrations = Comparison(0, [], [])
        if not hidden:
            with suppress(errors.InsufficientPrivilege), self.limits():
                self.migrations = compare(connection)
        self.parts = self.read_parts()

    def read_parts(self) -> list[Part]:
        """Read which parts of the schema are missing.

        Returns none if the parts of this release cannot be compared: whole tables are missing,
        migrations are pending, or a newer release has migrated the database.
        """
        found = self.migrations
        if self.unusable or found.pending or found.newer or not found.applied:
            return []
        return self.rows(Part, "status/parts", tables=parts_of_tables())

    def rows(self, kind: type[Row], name: str, **values: object) -> list[Row]:
        """Read all rows; return none if a table is locked or missing, or if rights are missing."""
        try:
            with self.limits():
                return self.connection.rows(kind, name, **values)
        except errors.LockNotAvailable:
            self.locked.append(name.partition("/")[2])
        except UNMIGRATED as error:
            self.broken.append(error.diag.message_primary or "")
        except errors.InsufficientPrivilege:
            # The section of rights names what this role may not use.
            pass
        self.unread.append(name)
        return []

    @contextmanager
    def limits(self) -> Iterator[None]:
        """Run a transaction in which statements wait only briefly.

        The limits are settings of this transaction. PgBouncer would pass settings of the session on
        to other clients.
        """
        with self.connection.transaction():
            self.connection.run("status/configure")
            yield

    def count(self, program: str) -> int:
        """Return how many web processes or workers have lately given a sign of life."""
        return sum(
            process.program == program and process.silent_seconds <= SILENT
            for process in self.processes
        )


class Problem(NamedTuple):
    text: str
    remedy: str = ""
    level: Level = "error"

    def __str__(self) -> str:
        return f"{self.text}: {self.remedy}" if self.remedy else self.text


@dataclass
class Section:
    """The part of ``status`` about one subject, in all forms: JSON, metrics and page."""

    # The members of the JSON document: plain values, rows, lists of rows.
    figures: dict[str, object]
    # The metrics for Prometheus: name without the prefix task_service_, and number.
    metrics: dict[str, float] = field(default_factory=dict)
    # The lines of the page: a name and a text.
    lines: list[tuple[str, str]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    # What an operator should know although nothing is wrong.
    notes: list[str] = field(default_factory=list)

    def line(self, name: str, text: str) -> None:
        self.lines.append((name, text))

    def problem(self, text: str, remedy: str = "", level: Level = "error") -> None:
        self.problems.append(Problem(text, remedy, level))


def joined(sections: Iterable[Section]) -> Section:
    whole = Section({})
    for section in sections:
        whole.figures |= section.figures
        whole.metrics |= section.metrics
        whole.lines += section.lines
        whole.problems += section.problems
        whole.notes += section.notes
    return whole
