"""All commands of ``task-service`` and ``flask``: this file lists them."""

from flask import Flask

from service.commands import accounts
from service.commands.dev import dev
from service.commands.document import print_document
from service.commands.load import load
from service.commands.migrate import migrate_database
from service.commands.web import web
from service.commands.webhooks import webhook
from service.commands.worker import worker

COMMANDS = [
    dev,
    migrate_database,
    web,
    worker,
    accounts.workspace,
    accounts.user,
    accounts.member,
    accounts.token,
    accounts.session,
    webhook,
    load,
    print_document,
]


def init_app(app: Flask) -> None:
    """Register the commands."""
    for command in COMMANDS:
        app.cli.add_command(command)
