"""Sections of ``status``: the server with its disk, connections, the clock."""

from typing import NamedTuple

from psycopg import errors

from service.commands.status.section import GRANT, Reader, Role, Section
from service.database.remedies import REMEDIES
from service.version import build

# A clock that leapt ahead by more than this many seconds is a problem.
LEAP = 3600
# A clock that differs by more than this many seconds is a problem.
CLOCK = 5
# If more than this share of the allowed connections is in use, that is a problem.
CONNECTIONS = 0.8
# Somebody has forgotten a transaction that has been open for this many seconds and is idle.
FORGOTTEN = 300
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


class Leap(NamedTuple):
    seconds: float


class Forgotten(NamedTuple):
    """A session that has left a transaction open, and is idle in it."""

    process: int
    # The application or the role.
    name: str
    # Since the transaction began.
    seconds: float
    # The last one.
    statement: str
    # The statement that ends the session.
    end: str


def read_database(reader: Reader) -> Section:
    server, info = reader.server, reader.connection.info
    host = f"{info.host}:{info.port}"
    tables = reader.rows(Table, "status/tables")
    full = disk_is_full(reader)
    section = Section(
        {
            "version": build(),
            "server": server,
            "host": host,
            "tables": tables,
            "disk_full": full,
        },
        {
            "database_bytes": server.bytes,
            "database_read_only": server.read_only,
            "database_disk_full": full,
        },
    )
    section.line("version", build())
    size = megabytes(server.bytes)
    section.line("database", f"{server.name} on {host}, PostgreSQL {server.version}, {size}")
    for table in tables:
        section.line("table", f"{table.name} {megabytes(table.bytes)}")
    unavailable = "every request is 503, as "
    if server.standby:
        section.problem(f"{unavailable}this is a standby", STANDBY, "tolerable")
    elif server.read_only:
        (role,) = reader.rows(Role, "status/role")
        text = f"{unavailable}the database is read-only"
        section.problem(text, str(role.remedy), "tolerable")
    if full:
        section.problem("the disk of the database is full", "free or extend it", "tolerable")
    return section


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
    used, allowed = server.connections_used, server.connections_allowed
    # The number of connections that the running processes together may open, if the settings of
    # this host apply to all of them.
    processes = max(reader.count("web"), settings.web_concurrency) + max(reader.count("worker"), 1)
    needed = processes * settings.web_threads
    opened = f"the processes may open {needed}"
    if server.backend_pid != reader.connection.info.backend_pid:
        # A pooler limits the connections that it opens.
        needed, opened = 0, "the processes share the connections of a connection pooler"
    section = Section(
        {"connections_needed": needed},
        {
            "connections_used": used,
            "connections_allowed": allowed,
            "connections_needed": needed,
        },
    )
    section.line("connections", f"{used} used of {allowed} allowed; {opened}")
    if used > CONNECTIONS * allowed:
        text = f"{used} of {allowed} connections are in use"
        section.problem(text, REMEDIES["53300"], "tolerable")
    if needed > allowed:
        text = f"the processes may open {needed} connections, and the server allows {allowed}"
        section.problem(text, "raise max_connections, or lower WEB_THREADS", "tolerable")
    limit = server.connection_limit
    if limit is not None and needed > limit:
        text = f"the processes may open {needed} connections, and the role may open {limit}"
        section.problem(text, REMEDIES["limit"], "tolerable")
    return section


def read_transactions(reader: Reader) -> Section:
    """Find forgotten transactions: VACUUM removes no row that an open transaction might read."""
    server = reader.server
    found = reader.rows(Forgotten, "status/forgotten", seconds=FORGOTTEN)
    section = Section(
        {"forgotten_transactions": found},
        {
            "oldest_transaction_seconds": server.oldest_transaction_seconds,
            "hidden_sessions": server.hidden_sessions,
        },
    )
    oldest = f"the oldest runs for {server.oldest_transaction_seconds:.1f} s"
    if server.hidden_sessions:
        oldest += f"; {server.hidden_sessions} sessions are hidden: {GRANT}"
    section.line("transactions", oldest)
    for forgotten in found:
        text = (
            f"process {forgotten.process} ({forgotten.name}) has had a transaction open for"
            f" {forgotten.seconds:.0f} s, idle after {forgotten.statement}; to end it"
        )
        section.problem(text, forgotten.end)
    return section


def read_clock(reader: Reader) -> Section:
    ahead = reader.clock_ahead
    leapt = max((leap.seconds for leap in reader.rows(Leap, "status/leap")), default=0)
    figures = {"clock_ahead_seconds": ahead, "clock_leapt_seconds": leapt}
    section = Section({**figures}, {**figures})
    section.line("clock", f"{ahead:+.3f} s against this host")
    if abs(ahead) > CLOCK:
        section.problem(
            f"the clock of the database differs by {ahead:.1f} s from the clock of this host, so"
            " tokens and signatures expire at wrong times",
            "run NTP on both",
        )
    if leapt > LEAP:
        section.problem(
            f"the clock of the database leapt ahead by {leapt / 3600:.0f} h, so the worker prunes"
            " that much later",
            "correct the clock; if it is right now, run worker --once",
        )
    return section


def read_vacuum(reader: Reader) -> Section:
    (found,) = reader.rows(Vacuum, "status/vacuum", dead_rows=DEAD_ROWS)
    section = Section({"vacuum": found}, {"dead_rows": found.dead_rows})
    if not found.enabled:
        section.problem(
            "autovacuum is off, so tables grow without end",
            "set autovacuum and track_counts to on in the configuration, and reload it",
        )
    for table, remedy in zip(found.disabled, found.remedies, strict=True):
        text = f"autovacuum is off for the table {table}, which grows without end"
        section.problem(text, remedy)
    for table in found.bloated:
        section.problem(
            f"the table {table} has more dead rows than live ones",
            f"end old transactions; then VACUUM (VERBOSE) {table} says which rows it still keeps",
        )
    return section


def megabytes(size: int) -> str:
    return f"{size / 2**20:.1f} MiB"
