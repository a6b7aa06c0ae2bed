"""The parts of ``task-service status``.

One function makes each section. It reads the figures of its subject, decides which are a problem,
and returns them in each form: for JSON, for the page and for metrics.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from time import time
from typing import Literal, NamedTuple

from psycopg import errors

from service.commands.base import UNMIGRATED
from service.commands.migrate import Comparison, compare
from service.commands.status.parts import Part, schema_parts
from service.database.statements import Connection, Row, UnusableObject, schema_objects
from service.settings import Settings

# Seconds after which a process without a sign of life is silent; it gives one every ten seconds.
SILENT = 60
GRANT = "to see more, GRANT pg_read_all_stats TO the user of DATABASE_URL"


class Server(NamedTuple):
    name: str
    version: str
    # True for a standby, which takes no writes.
    standby: bool
    # True if a transaction may not write, by a setting or on a standby.
    read_only: bool
    # A Unix time.
    clock: float
    bytes: int
    # Connections of all databases; those reserved for superusers are not counted.
    connections_used: int
    connections_allowed: int
    # The process id of the backend; a connection pooler tells its clients another number.
    backend_pid: int
    # CONNECTION LIMIT of the role of this connection; None if it has none.
    connection_limit: int | None
    oldest_transaction_seconds: float
    # Sessions of this database whose transactions this role may not see.
    hidden_sessions: int


class Role(NamedTuple):
    standby: bool
    # What ends the setting that makes a server read-only although it is not a standby.
    remedy: str | None


class Process(NamedTuple):
    # web or worker.
    program: str
    version: str
    # Host and process id, like host7:4711.
    process: str
    # Whether a web process uses the speedups; None for a worker, which has none.
    speedups: bool | None
    # The sessions that have its name. A connection pooler gives a session the name of its last
    # client.
    connections: int
    started_at: str
    # Since its last sign of life: it renewed its row, or one of its sessions began or ended a
    # statement.
    silent_seconds: float


class Reader:
    """Reads rows, at first the rows that several sections need; notes what it cannot read."""

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
        # Processes report in a table. Without it, or if they cannot write, it is unknown which run.
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
        """Read the missing parts; none if whole tables are missing or a newer release migrated."""
        found = self.migrations
        if self.unusable or found.pending or found.newer or not found.applied:
            return []
        kinds, tables, names = zip(*schema_parts(), strict=True)
        values = {"kinds": list(kinds), "tables": list(tables), "names": list(names)}
        return self.rows(Part, "status/parts", **values)

    def rows(self, kind: type[Row], name: str, **values: object) -> list[Row]:
        """Read all rows; none if a table is locked or missing, or belongs to another role."""
        try:
            with self.limits():
                return self.connection.rows(kind, name, values)
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
        """Run a transaction with limited waits.

        Without one, PgBouncer would keep these settings.
        """
        with self.connection.transaction():
            self.connection.run("status/configure", {})
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
    # ``tolerable`` does not prevent a start: the service recovers once it is remedied, or works
    # without.
    level: Literal["error", "tolerable", "warning"] = "error"

    def __str__(self) -> str:
        return f"{self.text}: {self.remedy}" if self.remedy else self.text


class Section(NamedTuple):
    """The part of ``status`` about one subject, in each of its forms."""

    # The members of the JSON document: plain values, rows, lists of rows.
    figures: dict[str, object]
    # The metrics of Prometheus: the end of a name and its number.
    metrics: dict[str, float]
    problems: Sequence[Problem]
    # The lines of the page: a name and a text.
    lines: Sequence[tuple[str, str]] = ()
    # What an operator should know although nothing is wrong.
    notes: Sequence[str] = ()
