"""Sections of ``status``: the server with its disk, connections, the clock."""

from typing import NamedTuple

from psycopg import errors

from service.commands.status.section import GRANT, Problem, Reader, Role, Section
from service.database.remedies import REMEDIES
from service.version import build

# A clock that differs by more than this many seconds is a problem.
CLOCK = 5
# If more than this share of the allowed connections is in use, that is a problem.
CONNECTIONS = 0.8
STANDBY = (
    "let DATABASE_URL name the primary, or all servers with target_session_attrs=read-write, and"
    " restart web and worker"
)
# If a table has at least this many dead rows, and more dead rows than live ones, that is a problem.
DEAD_ROWS = 100_000


class Vacuum(NamedTuple):
    # Whether autovacuum runs on this server.
    enabled: bool
    # The sum over all tables.
    dead_rows: int
    # The tables whose autovacuum is off, and the statements that turn it on.
    disabled: list[str]
    remedies: list[str]
    # The tables that autovacuum does not keep up with.
    bloated: list[str]


class Table(NamedTuple):
    name: str
    bytes: int


def read_database(reader: Reader) -> Section:
    server, info = reader.server, reader.connection.info
    host = f"{info.host}:{info.port}"
    tables = reader.rows(Table, "status/tables")
    full = disk_is_full(reader)
    size = megabytes(server.bytes)
    problems, why, remedy = [], "", STANDBY
    if server.standby:
        why = "this is a standby"
    elif server.read_only:
        (role,) = reader.rows(Role, "status/role")
        why, remedy = "the database is read-only", str(role.remedy)
    if why:
        problems.append(Problem(f"every request is 503, as {why}", remedy, "tolerable"))
    if full:
        text = "the disk of the database is full"
        problems.append(Problem(text, "free or extend it", "tolerable"))
    return Section(
        figures={
            "version": build(),
            "server": server,
            "host": host,
            "tables": tables,
            "disk_full": full,
        },
        lines=[
            ("version", build()),
            ("database", f"{server.name} on {host}, PostgreSQL {server.version}, {size}"),
            *(("table", f"{table.name} {megabytes(table.bytes)}") for table in tables),
        ],
        metrics={
            "database_bytes": server.bytes,
            "database_read_only": server.read_only,
            "database_disk_full": full,
        },
        problems=problems,
    )


def disk_is_full(reader: Reader) -> bool:
    """Write a little to the disk of the database, and return whether that fails."""
    try:
        with reader.limits():
            reader.connection.run("status/spill")
    except errors.DiskFull:
        return True
    except errors.OperationalError:
        # A limit of the role, such as temp_file_limit, says nothing about the disk.
        pass
    return False


def read_connections(reader: Reader) -> Section:
    server, settings = reader.server, reader.settings
    # The number of connections that the running processes together may open, if the settings of
    # this host apply to all of them.
    processes = max(reader.count("web"), settings.web_concurrency) + max(reader.count("worker"), 1)
    needed = processes * settings.web_threads
    used, allowed = server.connections_used, server.connections_allowed
    oldest = f"the oldest runs for {server.oldest_transaction_seconds:.1f} s"
    if server.hidden_sessions:
        oldest += f"; {server.hidden_sessions} sessions are hidden: {GRANT}"
    problems = []
    if used > CONNECTIONS * allowed:
        text = f"{used} of {allowed} connections are in use"
        problems.append(Problem(text, REMEDIES["53300"], "tolerable"))
    opened = f"the processes may open {needed}"
    if server.backend_pid != reader.connection.info.backend_pid:
        # A pooler limits the connections that it opens.
        needed, opened = 0, "the processes share the connections of a connection pooler"
    if needed > allowed:
        text = f"the processes may open {needed} connections, and the server allows {allowed}"
        problems.append(Problem(text, "raise max_connections, or lower WEB_THREADS", "tolerable"))
    limit = server.connection_limit
    if limit is not None and needed > limit:
        text = f"the processes may open {needed} connections, and the role may open {limit}"
        problems.append(Problem(text, REMEDIES["limit"], "tolerable"))
    return Section(
        figures={"connections_needed": needed},
        lines=[
            ("connections", f"{used} used of {allowed} allowed; {opened}"),
            ("transactions", oldest),
        ],
        metrics={
            "connections_used": used,
            "connections_allowed": allowed,
            "connections_needed": needed,
            "oldest_transaction_seconds": server.oldest_transaction_seconds,
            "hidden_sessions": server.hidden_sessions,
        },
        problems=problems,
    )


def read_clock(reader: Reader) -> Section:
    ahead = reader.clock_ahead
    problems = []
    if abs(ahead) > CLOCK:
        text = (
            f"the clock of the database differs by {ahead:.1f} s from the clock of this host, so"
            " tokens and signatures expire at wrong times"
        )
        problems.append(Problem(text, "run NTP on both"))
    return Section(
        figures={"clock_ahead_seconds": ahead},
        lines=[("clock", f"{ahead:+.3f} s against this host")],
        metrics={"clock_ahead_seconds": ahead},
        problems=problems,
    )


def read_vacuum(reader: Reader) -> Section:
    (found,) = reader.rows(Vacuum, "status/vacuum", dead_rows=DEAD_ROWS)
    problems = []
    if not found.enabled:
        text = "autovacuum is off, so tables grow without end"
        remedy = "set autovacuum and track_counts to on in the configuration, and reload it"
        problems.append(Problem(text, remedy))
    for table, remedy in zip(found.disabled, found.remedies, strict=True):
        text = f"autovacuum is off for the table {table}, which grows without end"
        problems.append(Problem(text, remedy))
    for table in found.bloated:
        text = f"the table {table} has more dead rows than live ones"
        remedy = (
            f"end old transactions; then VACUUM (VERBOSE) {table} says which rows it still keeps"
        )
        problems.append(Problem(text, remedy))
    return Section(
        figures={"vacuum": found},
        metrics={"dead_rows": found.dead_rows},
        problems=problems,
    )


def megabytes(size: int) -> str:
    return f"{size / 2**20:.1f} MiB"
