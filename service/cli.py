"""All ``flask`` commands: this file lists them."""

import click
from flask import current_app
from flask.cli import with_appcontext

from service import accounts, openapi
from service.commands import told
from service.dev import dev
from service.load import load
from service.migrations import migrate
from service.webhook_commands import webhook


def init_app(app):
    for command in (
        dev,
        migrate_database,
        accounts.workspace,
        accounts.user,
        accounts.member,
        accounts.token,
        accounts.session,
        webhook,
        load,
        print_document,
    ):
        app.cli.add_command(command)


@click.command("migrate")
@told
def migrate_database():
    """Bring the database's schema up to date. Repeatable; safe when two run at once."""
    for name in migrate(current_app.config["SETTINGS"]):
        click.echo(name)


@click.command("openapi")
@with_appcontext
def print_document():
    """Print the interface as OpenAPI 3.1, what GET /openapi.json answers; needs no database."""
    click.echo(openapi.document())
