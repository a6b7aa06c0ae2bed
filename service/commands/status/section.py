"""The parts of ``task-service status``.

Each section comes from one function, which has all of its subject: it reads the figures, and says
what they are in JSON, in the lines of the page and in metrics, and when they are a problem.
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
GRANT = "GRANT pg_read_all_stats TO the user of DATABASE_URL shows more"


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
    # The process of the server; a connection pooler tells its clients another number.
    backend_pid: int
    # CONNECTION LIMIT of the role of this connection; None if it has none.
    connection_limit: int | None
    oldest_transaction_seconds: float
    # Sessions of this database whose transactions this role may not see.
    hidden_sessions: int


class Role(NamedTuple):
    standby: bool
    # Ends the setting by which a server that is no standby takes no writes.
    remedy: str | None


class Process(NamedTuple):
    # web or worker.
    program: str
    version: str
    # Host and process id, like host7:4711.
    process: str
    # Whether a web process uses the speedups; None for a worker, which has none.
    speedups: bool | None
    # The sessions that have its name; behind a connection pooler that of their last client.
    connections: int
    started_at: str
    # Since its last sign of life: it renewed its row, or a statement of a session began or ended.
    silent_seconds: float


class Reader:
    """Reads rows, first those of several sections; notes the figures that cannot be read."""

    def __init__(self, connection: Connection, settings: Settings) -> None:
        self.connection = connection
        self.settings = settings
        # The statements that read nothing; of these, those whose tables are locked; the errors of
        # those whose tables are missing.
        self.unread: list[str] = []
        self.locked: list[str] = []
        self.broken: list[str] = []
        before = time()
        (self.server,) = self.rows(Server, "status/server")
        self.clock_ahead = self.server.clock - (before + time()) / 2
        self.processes = self.rows(Process, "status/processes")
        # Without their table, or if they cannot write into it, nobody knows which processes live.
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
        """Read which parts are missing, unless another release made the schema, or tables are."""
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
            # The section of rights names what it may not use.
            pass
        self.unread.append(name)
        return []

    @contextmanager
    def limits(self) -> Iterator[None]:
        """Bound the waits of a transaction; what it set would else stay in PgBouncer's session."""
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
    # A start may go on with what is ``tolerable``: the service waits for the remedy, or needs none.
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
