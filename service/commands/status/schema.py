"""Sections of ``status``: the schema, and locks of its tables."""

from collections.abc import Iterator
from typing import NamedTuple

from service.commands.migrate import tables
from service.commands.status.section import GRANT, Line, Metric, Reader, Section

# Seconds from which a lock is a problem.
LOCK = 5


class Unusable(NamedTuple):
    """The row of a table of the service that is missing, or that this role may not change."""

    name: str
    # Null if the table is missing.
    owner: str | None


class Lock(NamedTuple):
    """The row of a session that holds tables so that not even a read is possible."""

    process: int
    # The application or the role.
    name: str
    # The next three are null if this role may not see them.
    state: str | None
    seconds: float | None
    statement: str | None
    tables: list[str]
    # The statement that ends the session.
    end: str


class Schema(Section):
    """Migrations, and tables that are missing or belong to another role."""

    def __init__(self, reader: Reader) -> None:
        self._broken = reader.broken
        self.migrations = reader.migrations
        self.unusable_tables = reader.rows(Unusable, "status/unusable", tables=tables())

    def lines(self) -> Iterator[Line]:
        found = self.migrations
        yield (
            "migrations",
            f"{found.applied} applied, {len(found.pending)} pending, {len(found.newer)} newer",
        )

    def metrics(self) -> Iterator[Metric]:
        yield "migrations_pending", len(self.migrations.pending)
        yield "migrations_newer", len(self.migrations.newer)
        yield "tables_unusable", len(self.unusable_tables)

    def problems(self) -> Iterator[str]:
        yield from self.rights()
        yield from self.fit()

    def rights(self) -> Iterator[str]:
        """Yield the tables that this role may not use."""
        forbidden = [table for table in self.unusable_tables if table.owner]
        if forbidden:
            owners = sorted({table.owner or "" for table in forbidden})
            yield (
                f"the user of DATABASE_URL lacks rights on {names(forbidden)}, which belong to"
                f" {', '.join(owners)}: let it own them, or GRANT it the rights"
            )

    def fit(self) -> Iterator[str]:
        """Yield how the schema differs from the migrations of this release."""
        if self.migrations.pending:
            pending = ", ".join(self.migrations.pending)
            yield f"migrations are pending: {pending}; run the command migrate"
            return
        missing = [table for table in self.unusable_tables if not table.owner]
        if missing:
            yield (
                f"{names(missing)} {'are' if len(missing) > 1 else 'is'} missing although all"
                " migrations are applied: the schema was changed by hand, change it back"
            )
        elif not self.unusable_tables:
            for error in dict.fromkeys(self._broken):
                yield (
                    f"{error} although all migrations are applied: the schema was changed by hand,"
                    " change it back"
                )

    def notes(self) -> Iterator[str]:
        # As after a rollback.
        if self.migrations.newer:
            newer = ", ".join(self.migrations.newer)
            yield f"the database has migrations of a newer release, which this one can use: {newer}"


class Locks(Section):
    """Sessions that lock whole tables."""

    def __init__(self, reader: Reader) -> None:
        self.locks = reader.rows(Lock, "status/locks")
        # The statements whose figures are missing; later sections add theirs.
        self.locked = reader.locked

    def lines(self) -> Iterator[Line]:
        for lock in self.locks:
            yield "lock", describe(lock)

    def problems(self) -> Iterator[str]:
        hidden = self.locked
        for lock in self.locks:
            if hidden or (lock.seconds or 0) > LOCK:
                hides = f", which hides the figures of {', '.join(hidden)}" if hidden else ""
                yield f"{describe(lock)}{hides}; to end it: {lock.end}"
        if hidden and not self.locks:
            yield f"a lock of a table hid the figures of {', '.join(hidden)}, and has ended since"


def names(unusable: list[Unusable]) -> str:
    """Return the names of tables."""
    word = "the tables" if len(unusable) > 1 else "the table"
    return f"{word} {', '.join(table.name for table in unusable)}"


def describe(lock: Lock) -> str:
    """Return the session that holds a lock, in words."""
    session = f"process {lock.process} ({lock.name}"
    if lock.state is None:
        session += f"; its statement is hidden: {GRANT}"
    else:
        session += f", {lock.state} for {lock.seconds or 0:.0f} s: {lock.statement}"
    return f"{session}) locks {', '.join(lock.tables)}"
