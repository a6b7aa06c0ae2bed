"""Sections of ``status``: the server with its disk, connections, the clock."""

from collections.abc import Iterator
from time import time
from typing import NamedTuple

from psycopg import errors

from service.commands.status.processes import Processes
from service.commands.status.section import GRANT, Line, Metric, Reader, Section
from service.remedies import REMEDIES
from service.settings import Settings
from service.version import build

# Seconds from which a figure is a problem.
CLOCK = 5
# The share of the allowed connections from which they are a problem.
CONNECTIONS = 0.8


class Server(NamedTuple):
    """The row of the server and the database."""

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
    oldest_transaction_seconds: float
    # Sessions of this database whose transactions this role may not see.
    hidden_sessions: int


class Table(NamedTuple):
    """The row of a table's size with its indexes."""

    name: str
    bytes: int


class Spilled(NamedTuple):
    """The row of a statement that writes a megabyte to the disk of the database."""

    rows: int


class Database(Section):
    """Version of this program, server, size, disk."""

    def __init__(self, reader: Reader) -> None:
        before = time()
        (server,) = reader.rows(Server, "status/server")
        self._clock_ahead = server.clock - (before + time()) / 2
        self.version = build()
        self.server = server
        self.host = f"{reader.connection.info.host}:{reader.connection.info.port}"
        self.tables = reader.rows(Table, "status/tables")
        self.disk_full = False
        try:
            reader.rows(Spilled, "status/spill")
        except errors.DiskFull:
            self.disk_full = True
        except errors.OperationalError:
            # A limit of the role, as temp_file_limit, tells nothing about the disk.
            pass

    def clock_ahead(self) -> float:
        """Return the seconds by which the server's clock is ahead of this host's."""
        return self._clock_ahead

    def lines(self) -> Iterator[Line]:
        server = self.server
        yield "version", self.version
        yield (
            "database",
            f"{server.name} on {self.host}, PostgreSQL {server.version}, {megabytes(server.bytes)}",
        )
        for table in self.tables:
            yield "table", f"{table.name} {megabytes(table.bytes)}"

    def metrics(self) -> Iterator[Metric]:
        yield "database_bytes", self.server.bytes
        yield "database_read_only", self.server.read_only
        yield "database_disk_full", self.disk_full

    def problems(self) -> Iterator[str]:
        if self.server.standby:
            yield "every request is 503, as this is a standby: DATABASE_URL must name the primary"
        elif self.server.read_only:
            yield (
                "every request is 503, as the database is read-only: RESET"
                " default_transaction_read_only of the database, the role or the server"
            )
        if self.disk_full:
            yield "the disk of the database is full: free or extend it"


class Connections(Section):
    """Connections and transactions."""

    def __init__(self, settings: Settings, server: Server, processes: Processes) -> None:
        self._server = server
        web = max(processes.count("web"), settings.web_concurrency)
        workers = max(processes.count("worker"), 1)
        # How many the running processes may open together, by the settings of this host.
        self.connections_needed = (web + workers) * settings.web_threads

    def lines(self) -> Iterator[Line]:
        server = self._server
        yield (
            "connections",
            f"{server.connections_used} used of {server.connections_allowed} allowed;"
            f" the processes may open {self.connections_needed}",
        )
        hidden = f"; {server.hidden_sessions} sessions are hidden: {GRANT}"
        yield (
            "transactions",
            f"the oldest runs for {server.oldest_transaction_seconds:.1f} s"
            + hidden * bool(server.hidden_sessions),
        )

    def metrics(self) -> Iterator[Metric]:
        yield "connections_used", self._server.connections_used
        yield "connections_allowed", self._server.connections_allowed
        yield "connections_needed", self.connections_needed
        yield "oldest_transaction_seconds", self._server.oldest_transaction_seconds
        yield "hidden_sessions", self._server.hidden_sessions

    def problems(self) -> Iterator[str]:
        used, allowed = self._server.connections_used, self._server.connections_allowed
        if used > CONNECTIONS * allowed:
            yield f"{used} of {allowed} connections are in use: {REMEDIES['53300']}"
        if self.connections_needed > allowed:
            yield (
                f"the processes may open {self.connections_needed} connections, and the server"
                f" allows {allowed}: raise max_connections, or lower WEB_THREADS"
            )


class Clock(Section):
    """The clock of the database against that of this host."""

    def __init__(self, database: Database) -> None:
        self.clock_ahead_seconds = database.clock_ahead()

    def lines(self) -> Iterator[Line]:
        yield "clock", f"{self.clock_ahead_seconds:+.3f} s against this host"

    def metrics(self) -> Iterator[Metric]:
        yield "clock_ahead_seconds", self.clock_ahead_seconds

    def problems(self) -> Iterator[str]:
        if abs(self.clock_ahead_seconds) > CLOCK:
            yield (
                f"the clock of the database differs by {self.clock_ahead_seconds:.1f} s from that"
                " of this host, so tokens and signatures expire at wrong times: run NTP on both"
            )


def megabytes(size: int) -> str:
    """Return a size in MiB, for the page."""
    return f"{size / 2**20:.1f} MiB"
