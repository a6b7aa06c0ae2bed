"""``task-service migrate``: apply ``sql/schema/*.sql`` in order, each file in a transaction."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from time import monotonic, sleep
from typing import NamedTuple

import click
import psycopg

from service.commands.base import current_settings, progress
from service.database.pool import connect
from service.database.statements import STATEMENTS, Connection, migrations
from service.settings import Settings

# How long a migration waits for a lock; then the requests that queue behind it go on.
LOCK_TIMEOUT = "2s"
# Seconds between two attempts, seconds after which the command gives up, and seconds between two
# queries for the processes that hold the lock.
PAUSE, PATIENCE, WATCH_INTERVAL = 5, 300, 0.5


class Migration(NamedTuple):
    name: str


class Comparison(NamedTuple):
    # How many migrations the database has had.
    applied: int
    # The migrations to apply, in order.
    pending: list[str]
    # Migrations of a newer release, which this release does not have.
    newer: list[str]

    @property
    def conflict(self) -> str | None:
        """Why no migration of this release can be applied, and the way out; None if they can."""
        if not (self.pending and self.newer):
            return None
        return (
            f"the database has migrations that this release lacks ({', '.join(self.newer)}), and"
            f" lacks some of this release ({', '.join(self.pending)}): with the release that made"
            " it run workspace export for each workspace, then load the files into a new database"
        )


def pending_migrations(connection: Connection) -> list[str]:
    """Name the migrations to apply; raises ClickException if another release made the schema."""
    found = compare(connection)
    if found.conflict:
        raise click.ClickException(found.conflict)
    return found.pending


def compare(connection: Connection) -> Comparison:
    applied: set[str] = set()
    # Without its table, the command has never run.
    with suppress(psycopg.errors.UndefinedTable):
        applied = {row.name for row in connection.rows(Migration, "migrate/list", {})}
    known = migrations()
    pending = [name for name in known if name not in applied]
    return Comparison(len(applied), pending, sorted(applied.difference(known)))


class Backend(NamedTuple):
    pid: int


class Blocker(NamedTuple):
    pid: int
    # The process in words, with the statement that ends it.
    description: str


def migrate(settings: Settings) -> list[str]:
    """Apply all pending migrations, and return their names.

    Two parallel runs apply each file once: an advisory lock makes the second run wait.
    """
    with connect(settings, "migrate") as connection:
        pending = pending_migrations(connection)
        done = []
        with progress("migrate", len(pending), shown=bool(pending)) as step:
            for name in pending:
                if _apply(connection, name, settings):
                    done.append(name)
                step(1)
        return done


def _apply(connection: Connection, name: str, settings: Settings) -> bool:
    """Apply a migration once its locks are free; return False if another process has done so."""
    end = monotonic() + PATIENCE
    watch = Watch(settings)
    while True:
        try:
            with connection.transaction():
                connection.run("migrate/begin", {"lock_timeout": LOCK_TIMEOUT})
                with watch.over(connection):
                    return _apply_in_transaction(connection, name)
        except psycopg.errors.LockNotAvailable:
            if monotonic() > end:
                raise click.ClickException(
                    f"gave up after {PATIENCE} s: the migration waits for {watch.seen}"
                ) from None
            sleep(PAUSE)


def _apply_in_transaction(connection: Connection, name: str) -> bool:
    connection.run("migrate/lock", {})
    connection.run("migrate/prepare", {})
    # Another process may have applied it since the first comparison.
    if name not in pending_migrations(connection):
        return False
    # libpq runs a script of many statements only without parameters.
    connection.execute(STATEMENTS[f"schema/{name}"].source)
    connection.run("migrate/record", {"name": name})
    return True


class Watch:
    """Prints to stderr which processes a migration waits for, each time there is a new one."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.seen = "a lock"
        self._pids: set[int] = set()

    @contextmanager
    def over(self, connection: Connection) -> Iterator[None]:
        (backend,) = connection.rows(Backend, "migrate/pid", {})
        ended = Event()
        # A daemon thread, so that the command can end while the thread waits.
        thread = Thread(target=self._watch, args=(backend.pid, ended), daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()

    def _watch(self, pid: int, ended: Event) -> None:
        while not ended.wait(WATCH_INTERVAL):
            with suppress(psycopg.Error), connect(self.settings, "migrate") as connection:
                blockers = connection.rows(Blocker, "migrate/blockers", {"pid": pid})
                if blockers:
                    self._notice(blockers)

    def _notice(self, blockers: list[Blocker]) -> None:
        self.seen = " and ".join(blocker.description for blocker in blockers)
        pids = {blocker.pid for blocker in blockers}
        if not pids <= self._pids:
            # On a terminal this replaces the line of progress; elsewhere click removes the codes.
            click.echo(f"\033[G\033[Kwaiting for {self.seen}", err=True)
        self._pids |= pids


@click.command("migrate")
@click.option("--dry-run", is_flag=True, help="Print the pending migrations, and apply none.")
def migrate_database(dry_run: bool) -> None:
    """The command is repeatable, and runs may overlap. Prints the name of each migration."""
    if dry_run:
        with connect(current_settings(), "migrate") as connection:
            names = pending_migrations(connection)
    else:
        names = migrate(current_settings())
    for name in names:
        click.echo(name)
    if not names:
        click.echo("nothing to do: the schema is up to date", err=True)
