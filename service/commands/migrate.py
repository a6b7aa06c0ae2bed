"""``task-service migrate``: apply ``sql/schema/*.sql`` in order, each file in its own way.

Then apply each file of ``sql/functions`` whose text has changed, all of them in one transaction.

A file without a first line ``-- migrate: …`` runs in one transaction, which suits everything that
takes milliseconds. A change that takes longer on a large table runs in one of two other ways, so
that requests continue meanwhile:

``-- migrate: without a transaction``
    One statement that can be repeated, such as ``CREATE INDEX CONCURRENTLY IF NOT EXISTS`` or
    ``ALTER TABLE … VALIDATE CONSTRAINT``.
``-- migrate: in batches``
    One statement that changes at most a few thousand rows. It runs again and again, each time in
    its own transaction, until it changes or returns no row. A comment ``-- left: SELECT …`` gives
    a query that counts the remaining rows, to show the progress. At the end, ``VACUUM (ANALYZE)``
    runs on each table that the statement changes.

A run that ends early, for whatever reason, keeps what it has finished, and the next run continues
from there.
"""

import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from itertools import groupby
from threading import Event, Thread
from time import monotonic, sleep
from typing import NamedTuple, TypeVar

import click
import psycopg

from service.commands.base import current_settings, progress
from service.database.pool import connect, fault_of_locale
from service.database.statements import (
    STATEMENTS,
    Connection,
    FunctionFile,
    Part,
    UnusableObject,
    checksum,
    function_files,
    migrations,
    parts_of_tables,
    schema_objects,
    text_of,
    texts_of_functions,
)
from service.settings import Settings
from service.version import version

# How long a migration waits for a lock; then it lets the requests that queue behind it proceed.
LOCK_TIMEOUT = "2s"
# In seconds: PAUSE between two attempts, PATIENCE until the command gives up, and WATCH_INTERVAL
# between two queries for the processes that hold the lock.
PAUSE, PATIENCE, WATCH_INTERVAL = 5, 300, 0.5
# A migration in batches pauses while a synchronous standby or the archive is further behind.
BEHIND_BYTES = 256 * 1024 * 1024

BY_HAND = "although all migrations are applied"
CHANGE_BACK = (
    "restore the backup again if its restore ended early; otherwise change back what was changed by"
    " hand"
)

WITHOUT_TRANSACTION, IN_BATCHES = "without a transaction", "in batches"

KIND = re.compile(rb"-- migrate: (.*)\n")
LEFT = re.compile(rb"^-- left: (.*)$", re.MULTILINE)

Result = TypeVar("Result")


class File:
    """A migration or a file of functions: its statements, the way to run them, and its checksum.

    Raises ClickException if the first line names an unknown way to run.
    """

    def __init__(self, name: str, *, is_announced: bool = False) -> None:
        self.name = name
        self.has_functions = name in function_files()
        path = name if self.has_functions else f"schema/{name}"
        self.source, text, self.sha256 = STATEMENTS[path].source, text_of(path), checksum(path)
        kind, left = KIND.match(text), LEFT.search(text)
        self.kind = kind[1].decode().strip() if kind else None
        # The query that counts the rows which a migration in batches has not changed yet.
        self.left = left[1] if left else None
        self._is_announced = is_announced
        if self.kind and self.kind not in APPLY:
            raise click.ClickException(
                f"{name}: the first line says '-- migrate: {self.kind}', but the ways to run are"
                f" '{WITHOUT_TRANSACTION}' and '{IN_BATCHES}'"
            )

    def begins(self) -> None:
        """Say once that an announced migration begins."""
        if self._is_announced:
            _say(f"applying {self.name}" + (f" {self.kind}" if self.kind else ""))
        self._is_announced = False


class Migration(NamedTuple):
    name: str
    # Null if a build before 1.0.0 has applied the migration.
    sha256: str | None


class Comparison(NamedTuple):
    # The number of migrations that were applied to the database.
    applied: int
    # The migrations to apply, in order, and then the files of functions.
    pending: list[str]
    # Migrations of a newer release, which this release does not have.
    newer: list[str]
    # Migrations whose text in this release differs from the text that was applied.
    changed: list[str] = []

    @property
    def conflict(self) -> str | None:
        """Why this release must not apply any migration, and what to do; None if it may."""
        if self.changed:
            return (
                f"the database was made with another text of {', '.join(self.changed)} than this"
                " release has, and a released migration never changes: restore the file, and make"
                " the change in a new migration; in development, start dev --reset"
            )
        if not (self.pending and self.newer):
            return None
        newer, pending = ", ".join(self.newer), ", ".join(self.pending)
        return (
            f"the database has migrations that this release lacks ({newer}), and lacks some of"
            f" this release ({pending}): add the files {newer} to this release, because every"
            " release must contain all migrations that were ever released; if they belong to"
            " another product, export each workspace with the release that made the database"
            " (workspace export), and load the files into a new database"
        )


def pending_migrations(connection: Connection) -> list[str]:
    """Name the migrations to apply; raises ClickException if another release made the schema."""
    found = compare(connection)
    if found.conflict:
        raise click.ClickException(found.conflict)
    return found.pending


def compare(connection: Connection) -> Comparison:
    """Compare the names and texts of this release's migrations with the applied migrations."""
    applied: dict[str, str | None] = {}
    # If the table is missing, the command has never run on this database.
    with suppress(psycopg.errors.UndefinedTable), connection.transaction():
        applied = dict(connection.rows(Migration, "migrate/migrations"))
    known = migrations()
    return Comparison(
        len(applied),
        [name for name in known if name not in applied] + pending_functions(connection),
        sorted(applied.keys() - set(known)),
        [name for name in known if name in applied and applied[name] != File(name).sha256],
    )


def pending_functions(connection: Connection) -> list[str]:
    """Name the files of functions to apply."""
    # If the table is missing, its migration is pending.
    with suppress(psycopg.errors.UndefinedTable), connection.transaction():
        rows = connection.rows(FunctionFile, "migrate/functions", **texts_of_functions())
        return [row.name for row in rows]
    return function_files()


def missing_objects(items: list[UnusableObject]) -> str:
    return f"{objects_in_words(items)} {'are' if len(items) > 1 else 'is'} missing {BY_HAND}"


def missing_parts(parts: list[Part]) -> str:
    return f"missing, invalid or disabled {BY_HAND}: {', '.join(map(str, parts))}"


def objects_in_words(items: list[UnusableObject]) -> str:
    """List objects by kind, like "the tables a, b and the function c"."""
    texts = []
    for kind, group in groupby(items, lambda item: item.kind):
        names = [item.name for item in group]
        texts.append(f"the {kind}{'s' * (len(names) > 1)} {', '.join(names)}")
    return " and ".join(texts)


def refuse_half_a_schema(connection: Connection) -> None:
    """Raise ClickException if something is missing without which the service must not start.

    A restore that ended early has recorded all migrations, but lacks what pg_restore creates last:
    indexes, foreign keys and triggers. If only columns or indexes are missing, print a warning. A
    newer release may have replaced parts, so its schema is not compared.
    """
    found = compare(connection)
    if found.pending or found.newer:
        return
    unusable = connection.rows(UnusableObject, "status/unusable", **schema_objects())
    if missing := [item for item in unusable if not item.owner]:
        raise click.ClickException(f"{missing_objects(missing)}: {CHANGE_BACK}")
    if parts := connection.rows(Part, "status/parts", tables=parts_of_tables()):
        text = f"{missing_parts(parts)}: {CHANGE_BACK}"
        if not all(part.is_tolerable for part in parts):
            raise click.ClickException(text)
        click.echo(f"warning: {text}", err=True)


class Backend(NamedTuple):
    pid: int


class Blocker(NamedTuple):
    pid: int
    # The process in words, with the statement that ends it.
    description: str
    # If the process is another run of migrate: its host, process id and version.
    run: str | None


class Text(NamedTuple):
    text: str


def migrate(settings: Settings, *, is_announced: bool = False) -> list[str]:
    """Apply all pending migrations, and return their names.

    If ``is_announced``, print a line to stderr when each migration begins.

    Two parallel runs apply each file once: an advisory lock makes the second run wait, for as long
    as the first one lives.
    """
    with connect(settings, "migrate") as connection:
        connection.add_notice_handler(_say_warning)
        names = pending_migrations(connection)
        files = [File(name, is_announced=is_announced) for name in names]
        schema = [file for file in files if not file.has_functions]
        functions = [file for file in files if file.has_functions]
        done = []
        for file in schema:
            if file.kind is None:
                done += _apply(connection, [file], settings)
            elif _is_sole_run(connection, file, settings):
                APPLY[file.kind](connection, file, settings)
                _record(connection, file)
                done.append(file.name)
        if functions:
            done += _apply(connection, functions, settings)
        return done


def _apply(connection: Connection, files: list[File], settings: Settings) -> list[str]:
    """Apply a migration, or all files of functions, in one transaction.

    Functions call functions of other files. Return the names of the applied files; another process
    may have applied some.
    """

    def attempt() -> list[str]:
        connection.run("migrate/lock")
        connection.run("migrate/prepare")
        # Another process may have applied a file since the first comparison.
        names = pending_migrations(connection)
        pending = [file for file in files if file.name in names]
        for file in pending:
            file.begins()
            # libpq runs a script of many statements only without parameters.
            connection.execute(file.source)
            _record(connection, file)
        return [file.name for file in pending]

    return _when_unlocked(connection, settings, attempt)


def _apply_without_transaction(connection: Connection, file: File, settings: Settings) -> None:
    """Run the only statement of a migration, which PostgreSQL rejects inside a transaction."""

    def attempt() -> None:
        # If CREATE INDEX CONCURRENTLY was interrupted, an invalid index is left. IF NOT EXISTS
        # would take it for a complete index, so drop it first.
        text = file.source.decode()
        for drop in connection.rows(Text, "migrate/invalid_indexes", text=text):
            connection.execute(drop.text.encode())
        connection.execute(file.source)

    _when_unlocked(connection, settings, attempt, patiently=True)


def _apply_in_batches(connection: Connection, file: File, settings: Settings) -> None:
    """Run the only statement of a migration until it changes no row, then vacuum its tables.

    Each run is followed by a pause of the same length, so that requests and autovacuum keep up.

    The changed rows have made PostgreSQL forget which pages are visible to all transactions. Until
    the tables are vacuumed, counting rows in an index reads each row of the table as well. With few
    dead rows, autovacuum may not come for days.
    """

    def attempt() -> int:
        connection.run("migrate/keep_versions")
        return connection.execute(file.source).rowcount

    (left,) = (connection.execute(file.left).fetchone() if file.left else None) or (None,)
    with progress(f"migrate {file.name}", left) as step:
        while True:
            _wait_for_followers(connection)
            began = monotonic()
            changed = _when_unlocked(connection, settings, attempt)
            if not changed:
                break
            step(changed)
            sleep(monotonic() - began)

    def vacuum() -> None:
        for table in connection.rows(Text, "migrate/vacuum", text=file.source.decode()):
            connection.execute(table.text.encode())

    _when_unlocked(connection, settings, vacuum, patiently=True)


# How each kind of migration is applied that does not run in one transaction.
APPLY = {WITHOUT_TRANSACTION: _apply_without_transaction, IN_BATCHES: _apply_in_batches}


def _record(connection: Connection, file: File) -> None:
    record = "migrate/record_functions" if file.has_functions else "migrate/record_migration"
    connection.run(record, name=file.name, sha256=file.sha256, release=version())


def _is_sole_run(connection: Connection, file: File, settings: Settings) -> bool:
    """Keep other runs out until the connection ends; return False if one has applied the file.

    Raises ClickException behind a connection pooler, because the pooler could give the session with
    the lock to another client.
    """
    if connection.row(Backend, "migrate/pid").pid != connection.info.backend_pid:
        raise click.ClickException(
            f"{file.name} runs {file.kind}, and cannot run through a connection pooler: run migrate"
            " with the DATABASE_URL of the server itself"
        )

    def attempt() -> bool:
        connection.run("migrate/lock_session")
        return file.name in pending_migrations(connection)

    is_pending = _when_unlocked(connection, settings, attempt)
    if is_pending:
        file.begins()
    return is_pending


def _say_warning(diagnostic: psycopg.errors.Diagnostic) -> None:
    """Print a warning of PostgreSQL, such as ``permission denied to vacuum``."""
    if diagnostic.severity_nonlocalized == "WARNING":
        _say(f"PostgreSQL warns: {diagnostic.message_primary}")


def _when_unlocked(
    connection: Connection,
    settings: Settings,
    attempt: Callable[[], Result],
    *,
    patiently: bool = False,
) -> Result:
    """Run the attempt in a transaction, and repeat it until it gets its locks.

    Raises ClickException after PATIENCE seconds, which do not count while another run of migrate
    works. Between two attempts, the requests that queue behind the migration proceed.

    If ``patiently``, the attempt runs outside a transaction, and waits up to PATIENCE seconds for a
    lock, because no request waits for its statements or for their locks. CREATE INDEX CONCURRENTLY
    may wait for the transaction of another run, which waits for the lock of this run. PostgreSQL
    then ends one of the two.
    """
    end = monotonic() + PATIENCE
    watch = Watch(settings)
    lock_timeout = f"{PATIENCE * 1000:.0f}ms" if patiently else LOCK_TIMEOUT
    while True:
        try:
            with nullcontext() if patiently else connection.transaction():
                is_local = not patiently
                connection.run("migrate/begin", lock_timeout=lock_timeout, is_local=is_local)
                with watch.over(connection):
                    return attempt()
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
            if watch.sees_only_runs:
                end = monotonic() + PATIENCE
            if monotonic() > end:
                raise click.ClickException(
                    f"gave up after {PATIENCE} s: the migration waits for {watch.seen}"
                ) from None
            sleep(PAUSE)


def _wait_for_followers(connection: Connection) -> None:
    """Wait while a synchronous standby or the archive is more than BEHIND_BYTES behind.

    Raises ClickException after PATIENCE seconds. Without the role pg_read_all_stats, PostgreSQL
    does not say how far a standby is behind.
    """
    end, said = monotonic() + PATIENCE, ""
    while rows := connection.rows(Text, "migrate/behind", allowed_bytes=BEHIND_BYTES):
        text = " and ".join(row.text for row in rows)
        if monotonic() > end:
            raise click.ClickException(
                f"gave up after {PATIENCE} s: {text}; what is finished stays, so run migrate again"
            )
        if text != said:
            _say(f"waiting: {text}")
            said = text
        sleep(PAUSE)


def _say(text: str) -> None:
    # On a terminal, the escape codes replace the line of progress. Elsewhere, click removes them.
    click.echo(f"\033[G\033[K{text}", err=True)


class Watch:
    """Prints to stderr which processes a migration waits for, each time there is a new one.

    Another run of migrate is named again after each PATIENCE seconds, and without the statement
    that ends it: the other run is at work.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.seen = "a lock"
        # Whether the migration waits for nothing but other runs of migrate.
        self.sees_only_runs = False
        self._pids: set[int] = set()
        self._said_at = 0.0

    @contextmanager
    def over(self, connection: Connection) -> Iterator[None]:
        pid, ended = connection.row(Backend, "migrate/pid").pid, Event()
        # A daemon thread, so that the command can end while the thread waits.
        thread = Thread(target=self._watch, args=(pid, ended), daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()

    def _watch(self, pid: int, ended: Event) -> None:
        while not ended.wait(WATCH_INTERVAL):
            with suppress(psycopg.Error), connect(self.settings, "migrate") as connection:
                if blockers := connection.rows(Blocker, "migrate/blockers", pid=pid):
                    self._notice(blockers)

    def _notice(self, blockers: list[Blocker]) -> None:
        self.seen = " and ".join(blocker.description for blocker in blockers)
        runs = [blocker.run for blocker in blockers if blocker.run]
        self.sees_only_runs = len(runs) == len(blockers)
        pids, now = {blocker.pid for blocker in blockers}, monotonic()
        if self.sees_only_runs and now >= self._said_at + PATIENCE:
            _say(f"another migrate is at work: {runs[0]}; this one waits until it has ended")
            self._said_at = now
        elif not (self.sees_only_runs or pids <= self._pids):
            _say(f"waiting for {self.seen}")
        self._pids |= pids


@click.command("migrate")
@click.option(
    "--dry-run", is_flag=True, help="Print the names of the pending migrations, and apply none."
)
def migrate_database(dry_run: bool) -> None:
    """You may repeat this command, and run it on several hosts at the same time. Prints the name of
    each migration that it applies.
    """
    if dry_run:
        with connect(current_settings(), "migrate") as connection:
            names = pending_migrations(connection)
            refuse_half_a_schema(connection)
    else:
        # On an interrupt, psycopg cancels the running statement. PostgreSQL ends the statement of a
        # process that just died after two seconds (sql/migrate/begin.sql).
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            names = migrate(current_settings(), is_announced=True)
        except KeyboardInterrupt:
            text = "stopped: what is finished stays, and the next migrate continues from there"
            raise click.ClickException(text) from None
        with connect(current_settings(), "migrate") as connection:
            if fault := fault_of_locale(connection):
                click.echo(f"warning: {fault}", err=True)
            refuse_half_a_schema(connection)
    for name in names:
        click.echo(name)
    if not names:
        click.echo("nothing to do: the schema is up to date", err=True)
