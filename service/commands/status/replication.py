"""The part of ``task-service status`` about the servers: primary, standbys, archive of the WAL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from service import db
from service.commands.base import describe
from service.settings import Settings

if TYPE_CHECKING:
    from service.commands.status.figures import Reader

# The states of a standby that a commit waits for.
SYNCHRONOUS = "sync", "quorum"


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


class State(NamedTuple):
    """The row of what the server waits for and archives."""

    synchronous_names: str
    # For how many standbys a commit waits.
    synchronous_needed: int
    archiving: bool
    # The last file in the archive, and since when it is there.
    archived: str | None
    archived_seconds: float | None
    # True if the last attempt failed, and for which file.
    archive_fails: bool
    failed: str | None


class Replication(NamedTuple):
    """All figures about the servers."""

    hosts: list[Host]
    standbys: list[Standby]
    state: State

    def count(self, role: str) -> int:
        """Return how many servers of DATABASE_URL have a role."""
        return sum(host.role == role for host in self.hosts)

    @property
    def synchronous(self) -> int:
        """Return how many standbys a commit can wait for; unknown ones count."""
        return sum(standby.state in (*SYNCHRONOUS, "unknown") for standby in self.standbys)


def read(reader: Reader, settings: Settings) -> Replication:
    """Read all figures, and ask each server of DATABASE_URL for its role; raises psycopg.Error."""
    (state,) = reader.rows(State, "status/replication")
    standbys = reader.rows(Standby, "status/standbys")
    return Replication([ask(name, one) for name, one in each(settings)], standbys, state)


def each(settings: Settings) -> Iterator[tuple[str, Settings]]:
    """Yield the name of each server of DATABASE_URL, and the settings that lead to it alone."""
    parts = conninfo_to_dict(settings.require_database())
    lists = {
        name: str(parts[name]).split(",") for name in ("host", "hostaddr", "port") if name in parts
    }
    for number in range(max(map(len, lists.values()), default=1)):
        # One port is that of all hosts.
        own = {name: values[min(number, len(values) - 1)] for name, values in lists.items()}
        url = make_conninfo("", **{**parts, **own, "target_session_attrs": "any"})
        host = own.get("host") or own.get("hostaddr") or "localhost"
        yield f"{host}:{own.get('port') or 5432}", replace(settings, database_url=url)


def ask(name: str, settings: Settings) -> Host:
    """Return a server with its role."""
    try:
        with db.connect(settings, "status") as connection:
            (role,) = connection.rows(Role, "status/role", {})
    except psycopg.Error as error:
        return Host(name, "silent", describe(error))
    return Host(name, "standby" if role.standby else "primary", None)


def page(replication: Replication) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each line of the page."""
    for host in replication.hosts:
        yield "server", f"{host.name} {host.role}"
    for standby in replication.standbys:
        yield "standby", f"{standby.name} {standby.state}{behind(standby)}"
    state = replication.state
    if state.synchronous_names:
        yield (
            "synchronous",
            f"{state.synchronous_names}: a write waits for {state.synchronous_needed}",
        )
    if state.archiving:
        last = f"{state.archived} {state.archived_seconds:.0f} s ago" if state.archived else "none"
        yield "archive", f"the last file {last}{', then it failed' * state.archive_fails}"


def behind(standby: Standby) -> str:
    """Return how far a standby is behind, for the page."""
    if standby.behind_bytes is None:
        return "; GRANT pg_read_all_stats to the role of the service shows more"
    return f", {standby.behind_bytes} bytes and {standby.behind_seconds or 0:.1f} s behind"


def problems(replication: Replication) -> Iterator[str]:
    """Yield what is wrong with the servers."""
    state = replication.state
    if replication.count("primary") > 1:
        names = " and ".join(host.name for host in replication.hosts if host.role == "primary")
        yield f"{names} both accept writes: stop the one that is not the primary, at once"
    for host in replication.hosts:
        if host.role == "silent":
            yield f"{host.name} of DATABASE_URL does not answer: {host.error}"
    if replication.synchronous < state.synchronous_needed:
        yield (
            f"synchronous_standby_names = '{state.synchronous_names}' waits for"
            f" {state.synchronous_needed} standby(s), and {replication.synchronous} is connected:"
            " writes wait; start the standby, or change the setting"
        )
    if state.archive_fails:
        yield (
            f"the archive of the WAL does not take {state.failed}: pg_wal grows until the disk is"
            " full; the log of PostgreSQL has the error of archive_command"
        )


def numbers(replication: Replication) -> dict[str, float]:
    """Return the figures that are one number."""
    state, standbys = replication.state, replication.standbys
    named: dict[str, float] = {
        "servers_primary": replication.count("primary"),
        "servers_standby": replication.count("standby"),
        "servers_silent": replication.count("silent"),
        "standbys": len(standbys),
        "standbys_synchronous": replication.synchronous,
        "standbys_needed": state.synchronous_needed,
        "standby_behind_bytes": max((one.behind_bytes or 0 for one in standbys), default=0),
        "standby_behind_seconds": max((one.behind_seconds or 0 for one in standbys), default=0),
        "archive_fails": state.archive_fails,
    }
    if state.archived_seconds is not None:
        named["archived_seconds"] = state.archived_seconds
    return named
