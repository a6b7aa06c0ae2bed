"""``flask migrate``: apply ``sql/schema/*.sql`` in order, each file once and in one transaction."""

import click
from flask import current_app

from service.commands.base import report_errors
from service.db import SQL, connect, statement
from service.settings import Settings


def migration_names() -> list[str]:
    """The names of all migrations, in order."""
    return sorted(path.stem for path in (SQL / "schema").glob("*.sql"))


def migrate(settings: Settings) -> list[str]:
    """Bring the schema up to date; returns the names of the files that were applied.

    Two that run at once apply each file once: an advisory lock makes the second one wait.
    """
    with connect(settings) as connection:
        connection.execute(statement("migrations/lock"))
        connection.execute(statement("migrations/prepare"))
        applied = {row.name for row in connection.execute(statement("migrations/list"))}
        pending = [name for name in migration_names() if name not in applied]
        for name in pending:
            with connection.transaction():
                connection.execute(statement(f"schema/{name}"), prepare=False)
                connection.execute(statement("migrations/record"), {"name": name})
        return pending


@click.command("migrate")
@report_errors
def migrate_database() -> None:
    """Bring the database's schema up to date. Repeatable; safe when two run at once."""
    for name in migrate(current_app.config["SETTINGS"]):
        click.echo(name)
