"""Sections of ``status``: rights, the schema, and locks of its tables."""

from typing import NamedTuple

from service.commands.migrate import (
    BY_HAND,
    CHANGE_BACK,
    missing_objects,
    missing_parts,
    objects_in_words,
)
from service.commands.status.section import GRANT, Level, Reader, Section
from service.database.remedies import RIGHTS

# A lock is a problem if a session has waited for it for WAITED seconds, or if its holder has been
# in the same state for more than LOCK seconds. The service's own statements end after
# STATEMENT_TIMEOUT.
LOCK, WAITED = 5, 1

NEWER = "the database has migrations of a newer release, with which this release works"


class Lock(NamedTuple):
    """A session that blocks others, locks whole tables, or is idle while it may lock rows."""

    process: int
    # The application or the role.
    name: str
    # The next three are null if this role may not see them.
    state: str | None
    seconds: float | None
    statement: str | None
    tables: list[str]
    # The sessions that wait for this one, and the longest wait.
    waiting: int
    waited: float
    # The statement that ends the session.
    end: str


def read_rights(reader: Reader) -> Section:
    """Find the tables and functions that this role may not use, because another role owns them."""
    unusable = len(reader.unusable) + len(reader.parts)
    section = Section({"unusable": reader.unusable}, {"objects_unusable": unusable})
    if forbidden := [item for item in reader.unusable if item.owner]:
        owners = ", ".join(sorted({str(item.owner) for item in forbidden}))
        lacks = f"lacks rights on {objects_in_words(forbidden)}, which belong to {owners}"
        section.problem(f"the user of DATABASE_URL {lacks}", RIGHTS)
    return section


def read_schema(reader: Reader) -> Section:
    found = reader.migrations
    pending, newer = len(found.pending), len(found.newer)
    section = Section(
        {"migrations": found, "missing_parts": reader.parts},
        {"migrations_pending": pending, "migrations_newer": newer},
    )
    section.line("migrations", f"{found.applied} applied, {pending} pending, {newer} newer")
    missing = [item for item in reader.unusable if not item.owner]
    if found.conflict:
        section.problem(found.conflict)
    elif pending:
        other = "" if found.applied else ", or correct the name of the database in DATABASE_URL"
        text = f"migrations are pending ({', '.join(found.pending)})"
        section.problem(text, f"run the command migrate{other}")
    elif missing:
        section.problem(missing_objects(missing), CHANGE_BACK)
    elif reader.parts:
        is_tolerable = all(part.is_tolerable for part in reader.parts)
        level: Level = "tolerable" if is_tolerable else "error"
        section.problem(missing_parts(reader.parts), CHANGE_BACK, level)
    elif not reader.unusable:
        for error in dict.fromkeys(reader.broken):
            section.problem(f"{error} {BY_HAND}", CHANGE_BACK)
    if newer and not pending:
        # For example after a rollback.
        section.notes.append(f"{NEWER}: {', '.join(found.newer)}")
    return section


def read_locks(reader: Reader) -> Section:
    found = reader.rows(Lock, "status/locks")
    longest = max((lock.seconds or 0 for lock in found), default=0)
    section = Section({"locks": found, "locked": reader.locked}, {"longest_lock_seconds": longest})
    hidden = ", ".join(reader.locked)
    for lock in found:
        section.line("lock", text := lock_in_words(lock))
        if hidden or lock.waited >= WAITED or (lock.seconds or 0) > LOCK:
            hides = f", which hides the figures of {hidden}" if hidden else ""
            section.problem(f"{text}{hides}; to end it", lock.end)
    if hidden and not found:
        section.problem(f"a lock of a table hid the figures of {hidden}, and has ended since")
    return section


def lock_in_words(lock: Lock) -> str:
    """Say which session holds a lock, what it does, which tables it locks, and who waits."""
    session = f"process {lock.process} ({lock.name}"
    if lock.state is None:
        session += f"; its statement is hidden: {GRANT}"
    else:
        session += f", {lock.state} for {lock.seconds or 0:.0f} s: {lock.statement}"
    waits = f"; {lock.waiting} wait, the longest {lock.waited:.1f} s" if lock.waiting else ""
    return f"{session}) locks {', '.join(lock.tables) or 'no table'}{waits}"
