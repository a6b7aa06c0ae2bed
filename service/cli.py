"""All ``flask`` commands: this file lists them."""

import click
from flask import current_app

from service import accounts
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
    ):
        app.cli.add_command(command)


@click.command("migrate")
@told
def migrate_database():
    """Bring the database's schema up to date. Repeatable; safe when two run at once."""
    for name in migrate(current_app.config["SETTINGS"]):
        click.echo(name)
