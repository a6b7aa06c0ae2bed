"""``task-service migrate``: apply ``sql/schema/*.sql`` in order, each file in a transaction."""

from typing import NamedTuple

import click
from psycopg import errors

from service.commands.base import report_errors, settings
from service.db import connect
from service.settings import Settings
from service.statements import STATEMENTS, Connection, migrations

OUTDATED = (
    "this database was made by a development version before 1.0.0 and cannot be migrated:"
    " create a new one; if it is the one of the command dev, run dev --reset"
)


class Age(NamedTuple):
    """The row that tells whether a development version made the database."""

    outdated: bool


class Migration(NamedTuple):
    """The row of a migration that was applied."""

    name: str


class Comparison(NamedTuple):
    """The migrations of this release and those of the database, compared."""

    # How many the database has had.
    applied: int
    pending: list[str]
    # Those of a newer release, which this one does not know.
    newer: list[str]


def compare(connection: Connection) -> Comparison:
    """Compare the migrations; a database without any has all of them pending."""
    try:
        applied = {row.name for row in connection.rows(Migration, "migrations/list", {})}
    except errors.UndefinedTable:
        reject_outdated(connection)
        applied = set()
    known = migrations()
    pending = [name for name in known if name not in applied]
    return Comparison(len(applied), pending, sorted(applied.difference(known)))


def reject_outdated(connection: Connection) -> None:
    """Raise ClickException if a development version made the database."""
    if any(row.outdated for row in connection.rows(Age, "migrations/is_outdated", {})):
        raise click.ClickException(OUTDATED)


def migrate(settings: Settings) -> list[str]:
    """Bring the schema up to date; returns the names of the files that were applied.

    Two that run at once apply each file once: an advisory lock makes the second one wait.
    """
    with connect(settings, "migrate") as connection:
        connection.run("migrations/lock", {})
        reject_outdated(connection)
        connection.run("migrations/prepare", {})
        pending = compare(connection).pending
        for name in pending:
            with connection.transaction():
                # A script of many statements, which libpq takes only without parameters.
                connection.execute(STATEMENTS[f"schema/{name}"].source)
                connection.run("migrations/record", {"name": name})
        return pending


@click.command("migrate")
@click.option("--dry-run", is_flag=True, help="Print the pending migrations, and apply none.")
@report_errors
def migrate_database(dry_run: bool) -> None:
    """Bring the database's schema up to date. Repeatable; safe when two run at once.

    Prints the name of each migration that it applies.
    """
    if dry_run:
        with connect(settings(), "migrate") as connection:
            names = compare(connection).pending
    else:
        names = migrate(settings())
    for name in names:
        click.echo(name)
    if not names:
        click.echo("nothing to do: the schema is up to date", err=True)
