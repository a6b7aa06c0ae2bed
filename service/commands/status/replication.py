"""Sections of ``status``: the servers of DATABASE_URL, the standbys, the archive of the WAL."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from service.commands.base import describe
from service.commands.status.section import GRANT, Reader, Role, Section
from service.database.pool import connect
from service.settings import Settings

# A commit can wait for standbys in these states.
SYNCHRONOUS = "sync", "quorum"
ROLES = "primary", "standby", "silent"


class Host(NamedTuple):
    # As in DATABASE_URL, like db1:5432.
    name: str
    # primary, standby or silent.
    role: str
    # The reason why it is silent.
    error: str | None
    # If a setting makes the primary read-only, the remedy.
    read_only: str | None = None


class Standby(NamedTuple):
    name: str
    # sync, quorum, potential or async; unknown without the role pg_read_all_stats.
    state: str
    # How many bytes and seconds the standby is behind in replaying the write-ahead log; None if
    # unknown.
    behind_bytes: int | None
    behind_seconds: float | None


class Synchronous(NamedTuple):
    # The setting synchronous_standby_names.
    names: str
    # How many standbys a commit waits for; 0 on a standby, which commits nothing.
    needed: int


class Archived(NamedTuple):
    enabled: bool
    # The last file in the archive, and the seconds since it was archived.
    last_file: str | None
    seconds_since_last: float | None
    # Whether the last attempt failed, and for which file.
    fails: bool
    failed_file: str | None


def read_servers(settings: Settings) -> Section:
    found = [ask(name, own) for name, own in each(settings)]
    names = {role: [server.name for server in found if server.role == role] for role in ROLES}
    metrics = {f"servers_{role}": len(names[role]) for role in ROLES}
    section = Section({"servers": found}, {**metrics})
    if len(names["primary"]) > 1:
        both = " and ".join(names["primary"])
        remedy = "immediately stop the server that should not be the primary"
        section.problem(f"{both} both accept writes", remedy)
    for name, role, error, read_only in found:
        section.line(
            "server", f"{name} {role}" + (f", read-only: {read_only}" if read_only else "")
        )
        if role == "silent":
            section.problem(f"{name} of DATABASE_URL does not answer", error or "")
    return section


def read_standbys(reader: Reader) -> Section:
    (synchronous,) = reader.rows(Synchronous, "status/synchronous")
    names, needed = synchronous
    found = reader.rows(Standby, "status/standbys")
    # The number of standbys that a commit can wait for; a standby in an unknown state may be one.
    connected = sum(standby.state in (*SYNCHRONOUS, "unknown") for standby in found)
    section = Section(
        {"synchronous": synchronous, "standbys": found},
        {
            "standbys": len(found),
            "standbys_synchronous": connected,
            "standbys_needed": needed,
            "standby_behind_bytes": max((item.behind_bytes or 0 for item in found), default=0),
            "standby_behind_seconds": max((item.behind_seconds or 0 for item in found), default=0),
        },
    )
    for name, state, behind_bytes, behind_seconds in found:
        behind = f"; {GRANT}"
        if behind_bytes is not None:
            behind = f", {behind_bytes} bytes and {behind_seconds or 0:.1f} s behind"
        section.line("standby", f"{name} {state}{behind}")
    if needed:
        section.line("synchronous", f"{names}: a write waits for {needed}")
    if connected < needed:
        section.problem(
            f"synchronous_standby_names = '{names}' waits for {needed} standby(s), and {connected}"
            " is connected, so writes wait",
            "if none connects within 30 s of a failover, start the standby or change the setting",
        )
    return section


def read_archive(reader: Reader) -> Section:
    (found,) = reader.rows(Archived, "status/archive")
    section = Section({"archive": found}, {"archive_fails": found.fails})
    last = "none"
    if found.seconds_since_last is not None:
        section.metrics["archived_seconds"] = found.seconds_since_last
        last = f"{found.last_file} {found.seconds_since_last:.0f} s ago"
    if found.enabled:
        failed = ", then it failed" if found.fails else ""
        section.line("archive", f"the last file {last}{failed}")
    if found.fails:
        section.problem(
            f"PostgreSQL cannot archive the WAL file {found.failed_file}",
            "pg_wal grows until the disk is full; PostgreSQL's log has the error of"
            " archive_command",
        )
    return section


def each(settings: Settings) -> Iterator[tuple[str, Settings]]:
    """Yield the name of each server of DATABASE_URL, with settings that connect to this server."""
    parts = conninfo_to_dict(settings.require_database())
    names = [name for name in parts if name in ("host", "hostaddr", "port")]
    lists = {name: str(parts[name]).split(",") for name in names}
    for number in range(max(map(len, lists.values()), default=1)):
        # A single port applies to all hosts.
        own = {name: values[min(number, len(values) - 1)] for name, values in lists.items()}
        options: dict[str, Any] = {**parts, **own, "target_session_attrs": "any"}
        host = own.get("host") or own.get("hostaddr") or "localhost"
        yield (
            f"{host}:{own.get('port') or 5432}",
            replace(settings, database_url=make_conninfo(**options)),
        )


def ask(name: str, settings: Settings) -> Host:
    """Ask a server for its role. If the server does not answer, its role is silent."""
    try:
        with connect(settings, "status") as connection:
            (role,) = connection.rows(Role, "status/role")
    except psycopg.Error as error:
        return Host(name, "silent", describe(error))
    return Host(name, "standby" if role.standby else "primary", None, role.remedy)
