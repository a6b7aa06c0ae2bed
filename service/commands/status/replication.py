"""Sections of ``status``: the servers of DATABASE_URL, the standbys, the archive of the WAL."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from service import db
from service.commands.base import describe
from service.commands.status.section import GRANT, Line, Metric, Reader, Section
from service.settings import Settings

# The states of a standby that a commit waits for.
SYNCHRONOUS = "sync", "quorum"
ROLES = "primary", "standby", "silent"


class Role(NamedTuple):
    """The row of a server's role."""

    standby: bool


class Host(NamedTuple):
    """A server of DATABASE_URL."""

    # As in DATABASE_URL, like db1:5432.
    name: str
    # primary, standby or silent.
    role: str
    # The reason why it is silent.
    error: str | None


class Standby(NamedTuple):
    """The row of a standby that is connected to the primary."""

    name: str
    # sync, quorum, potential or async; unknown without the role pg_read_all_stats.
    state: str
    # The write-ahead log that it has not replayed, and since when; None if that is unknown.
    behind_bytes: int | None
    behind_seconds: float | None


class Synchronous(NamedTuple):
    """The row of what a commit waits for."""

    # As synchronous_standby_names has it.
    names: str
    # For how many standbys a commit waits; 0 on a standby, which commits nothing.
    needed: int


class Archived(NamedTuple):
    """The row of the archive."""

    enabled: bool
    # The last file in the archive, and since when it is there.
    last: str | None
    seconds: float | None
    # True if the last attempt failed, and for which file.
    fails: bool
    failed: str | None


class Servers(Section):
    """The servers that DATABASE_URL names, each asked for its role."""

    def __init__(self, reader: Reader) -> None:
        self.servers = [ask(name, settings) for name, settings in each(reader.settings)]

    def names(self, role: str) -> list[str]:
        """Return the names of the servers that have a role."""
        return [server.name for server in self.servers if server.role == role]

    def lines(self) -> Iterator[Line]:
        for server in self.servers:
            yield "server", f"{server.name} {server.role}"

    def metrics(self) -> Iterator[Metric]:
        for role in ROLES:
            yield f"servers_{role}", len(self.names(role))

    def problems(self) -> Iterator[str]:
        if len(primaries := self.names("primary")) > 1:
            yield (
                f"{' and '.join(primaries)} both accept writes:"
                " stop the one that is not the primary, at once"
            )
        for server in self.servers:
            if server.role == "silent":
                yield f"{server.name} of DATABASE_URL does not answer: {server.error}"


class Standbys(Section):
    """The standbys, and how many of them a commit waits for."""

    def __init__(self, reader: Reader) -> None:
        (self.synchronous,) = reader.rows(Synchronous, "status/synchronous")
        self.standbys = reader.rows(Standby, "status/standbys")

    def connected(self) -> int:
        """Return how many standbys a commit can wait for; unknown ones count."""
        return sum(standby.state in (*SYNCHRONOUS, "unknown") for standby in self.standbys)

    def lines(self) -> Iterator[Line]:
        for standby in self.standbys:
            behind = f"; {GRANT}"
            if standby.behind_bytes is not None:
                seconds = standby.behind_seconds or 0
                behind = f", {standby.behind_bytes} bytes and {seconds:.1f} s behind"
            yield "standby", f"{standby.name} {standby.state}{behind}"
        if self.synchronous.needed:
            yield (
                "synchronous",
                f"{self.synchronous.names}: a write waits for {self.synchronous.needed}",
            )

    def metrics(self) -> Iterator[Metric]:
        yield "standbys", len(self.standbys)
        yield "standbys_synchronous", self.connected()
        yield "standbys_needed", self.synchronous.needed
        for name in ("behind_bytes", "behind_seconds"):
            figures = (getattr(standby, name) or 0 for standby in self.standbys)
            yield f"standby_{name}", max(figures, default=0)

    def problems(self) -> Iterator[str]:
        needed = self.synchronous.needed
        if self.connected() < needed:
            yield (
                f"synchronous_standby_names = '{self.synchronous.names}' waits for"
                f" {needed} standby(s), and {self.connected()} is connected:"
                " writes wait; start the standby, or change the setting"
            )


class Archive(Section):
    """The archive of the WAL."""

    def __init__(self, reader: Reader) -> None:
        (self.archive,) = reader.rows(Archived, "status/archive")

    def lines(self) -> Iterator[Line]:
        archive = self.archive
        if archive.enabled:
            last = f"{archive.last} {archive.seconds:.0f} s ago" if archive.last else "none"
            yield "archive", f"the last file {last}{', then it failed' * archive.fails}"

    def metrics(self) -> Iterator[Metric]:
        yield "archive_fails", self.archive.fails
        if self.archive.seconds is not None:
            yield "archived_seconds", self.archive.seconds

    def problems(self) -> Iterator[str]:
        if self.archive.fails:
            yield (
                f"the archive of the WAL does not take {self.archive.failed}: pg_wal grows until"
                " the disk is full; the log of PostgreSQL has the error of archive_command"
            )


def each(settings: Settings) -> Iterator[tuple[str, Settings]]:
    """Yield the name of each server of DATABASE_URL, and the settings that lead to it alone."""
    parts = conninfo_to_dict(settings.require_database())
    names = [name for name in parts if name in ("host", "hostaddr", "port")]
    lists = {name: str(parts[name]).split(",") for name in names}
    for number in range(max(map(len, lists.values()), default=1)):
        # One port is that of all hosts.
        own = {name: values[min(number, len(values) - 1)] for name, values in lists.items()}
        options: dict[str, Any] = {**parts, **own, "target_session_attrs": "any"}
        host = own.get("host") or own.get("hostaddr") or "localhost"
        yield (
            f"{host}:{own.get('port') or 5432}",
            replace(settings, database_url=make_conninfo(**options)),
        )


def ask(name: str, settings: Settings) -> Host:
    """Return a server with its role."""
    try:
        with db.connect(settings, "status") as connection:
            (role,) = connection.rows(Role, "status/role", {})
    except psycopg.Error as error:
        return Host(name, "silent", describe(error))
    return Host(name, "standby" if role.standby else "primary", None)
