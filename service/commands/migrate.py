"""``task-service migrate``: apply ``sql/schema/*.sql`` in order, each file in a transaction."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from time import monotonic, sleep
from typing import NamedTuple

import click
import psycopg
from flask import current_app

from service.commands.base import report_errors
from service.db import connect
from service.settings import Settings
from service.statements import STATEMENTS, Connection, migrations

# How long a migration waits for a lock before it lets the requests behind it pass.
LOCK_TIMEOUT = "2s"
# Seconds until the next attempt, seconds after which there is none, and seconds between two looks
# at what a migration waits for.
PAUSE, PATIENCE, WATCH_INTERVAL = 5, 300, 0.5

OUTDATED = (
    "this database was made by a development version before 1.0.0 and cannot be migrated:"
    " create a new one; if it is the one of the command dev, run dev --reset"
)


class History(NamedTuple):
    """The row that tells what has happened to the database."""

    # By a development version, with another table of migrations.
    outdated: bool
    # Whether the table of migrations exists.
    prepared: bool


class Migration(NamedTuple):
    """The row of a migration that was applied."""

    name: str


class Backend(NamedTuple):
    """The row of a process of PostgreSQL."""

    pid: int


class Blocker(NamedTuple):
    """The row of a process that holds a lock."""

    pid: int
    # In words, with the statement that ends it.
    description: str


def migrate(settings: Settings) -> list[str]:
    """Bring the schema up to date; returns the names of the files that were applied.

    Two that run at once apply each file once: an advisory lock makes the second one wait.
    """
    applied = []
    with connect(settings) as connection:
        while pending(connection):
            name = _apply_next(connection, settings)
            if name:
                applied.append(name)
    return applied


def pending(connection: Connection) -> list[str]:
    """Return the names of the migrations that this database has not had, in order."""
    (history,) = connection.rows(History, "migrations/inspect", {})
    if history.outdated:
        raise click.ClickException(OUTDATED)
    rows = connection.rows(Migration, "migrations/list", {}) if history.prepared else []
    applied = {row.name for row in rows}
    return [name for name in migrations() if name not in applied]


def _apply_next(connection: Connection, settings: Settings) -> str | None:
    """Apply one migration, as soon as no other process is in the way; None if none is pending."""
    end = monotonic() + PATIENCE
    watch = Watch(settings)
    while True:
        try:
            with connection.transaction():
                connection.run("migrations/begin", {"lock_timeout": LOCK_TIMEOUT})
                with watch.over(connection):
                    return _apply_in_transaction(connection)
        except psycopg.errors.LockNotAvailable:
            if monotonic() > end:
                raise click.ClickException(
                    f"gave up after {PATIENCE} s: the migration waits for {watch.seen}"
                ) from None
            sleep(PAUSE)


def _apply_in_transaction(connection: Connection) -> str | None:
    connection.run("migrations/lock", {})
    connection.run("migrations/prepare", {})
    # Another process may have applied some meanwhile.
    for name in pending(connection)[:1]:
        # A script of many statements, which libpq takes only without parameters.
        connection.execute(STATEMENTS[f"schema/{name}"].source)
        connection.run("migrations/record", {"name": name})
        return name
    return None


class Watch:
    """Says on stderr which processes a migration waits for, when they change."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.seen = "a lock"
        self._pids: set[int] = set()

    @contextmanager
    def over(self, connection: Connection) -> Iterator[None]:
        """Watch the transaction of a connection."""
        (backend,) = connection.rows(Backend, "migrations/pid", {})
        ended = Event()
        # A daemon: it must not keep the command from ending.
        thread = Thread(target=self._watch, args=(backend.pid, ended), daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()

    def _watch(self, pid: int, ended: Event) -> None:
        if ended.wait(WATCH_INTERVAL):
            return
        with suppress(psycopg.Error), connect(self.settings) as connection:
            while not ended.is_set():
                blockers = connection.rows(Blocker, "migrations/blockers", {"pid": pid})
                if blockers:
                    self._notice(blockers)
                ended.wait(WATCH_INTERVAL)

    def _notice(self, blockers: list[Blocker]) -> None:
        self.seen = " and ".join(blocker.description for blocker in blockers)
        pids = {blocker.pid for blocker in blockers}
        if not pids <= self._pids:
            click.echo(f"waiting for {self.seen}", err=True)
        self._pids |= pids


@click.command("migrate")
@report_errors
def migrate_database() -> None:
    """Bring the database's schema up to date. Repeatable; safe when two run at once."""
    applied = migrate(current_app.config["SETTINGS"])
    for name in applied:
        click.echo(name)
    if not applied:
        click.echo("nothing to do: the schema is up to date", err=True)
