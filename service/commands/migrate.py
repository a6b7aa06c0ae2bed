"""``task-service migrate``: apply ``sql/schema/*.sql`` in order, each file in a transaction."""

import click
from flask import current_app

from service.commands.base import report_errors
from service.db import connect, migrations, statement
from service.settings import Settings

OUTDATED = (
    "this database was made by a development version before 1.0.0 and cannot be migrated:"
    " create a new one; if it is the one of the command dev, run dev --reset"
)


def migrate(settings: Settings) -> list[str]:
    """Bring the schema up to date; returns the names of the files that were applied.

    Two that run at once apply each file once: an advisory lock makes the second one wait.
    """
    with connect(settings) as connection:
        connection.execute(statement("migrations/lock"))
        if any(row.outdated for row in connection.execute(statement("migrations/is_outdated"))):
            raise click.ClickException(OUTDATED)
        connection.execute(statement("migrations/prepare"))
        applied = {row.name for row in connection.execute(statement("migrations/list"))}
        pending = [name for name in migrations() if name not in applied]
        for name in pending:
            with connection.transaction():
                connection.execute(statement(f"schema/{name}"), prepare=False)
                connection.execute(statement("migrations/record"), {"name": name})
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
