"""``task-service migrate``: apply ``sql/schema/*.sql`` in order, each file in a transaction."""

from typing import NamedTuple

import click
from flask import current_app

from service.commands.base import report_errors
from service.db import connect
from service.settings import Settings
from service.statements import STATEMENTS, migrations

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


def migrate(settings: Settings) -> list[str]:
    """Bring the schema up to date; returns the names of the files that were applied.

    Two that run at once apply each file once: an advisory lock makes the second one wait.
    """
    with connect(settings) as connection:
        connection.run("migrations/lock", {})
        if any(row.outdated for row in connection.rows(Age, "migrations/is_outdated", {})):
            raise click.ClickException(OUTDATED)
        connection.run("migrations/prepare", {})
        applied = {row.name for row in connection.rows(Migration, "migrations/list", {})}
        pending = [name for name in migrations() if name not in applied]
        for name in pending:
            with connection.transaction():
                # A script of many statements, which libpq takes only without parameters.
                connection.execute(STATEMENTS[f"schema/{name}"].source)
                connection.run("migrations/record", {"name": name})
        return pending


@click.command("migrate")
@report_errors
def migrate_database() -> None:
    """Bring the database's schema up to date. Repeatable; safe when two run at once."""
    applied = migrate(current_app.config["SETTINGS"])
    for name in applied:
        click.echo(name)
    if not applied:
        click.echo("nothing to do: the schema is up to date", err=True)
