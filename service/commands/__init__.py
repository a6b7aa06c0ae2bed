"""All commands of ``task-service``; ``flask`` in a checkout has the same."""

from importlib import import_module

import click
from flask import Flask
from flask.cli import AppGroup

# Where each command is. A command imports what it needs when it runs, and no deployment imports
# what only developers run.
COMMANDS = {
    "dev": "service.devkit.dev:dev",
    "migrate": "service.commands.migrate:migrate_database",
    "web": "service.commands.web:web",
    "worker": "service.commands.worker:worker",
    "workspace": "service.commands.accounts:workspace",
    "user": "service.commands.accounts:user",
    "member": "service.commands.accounts:member",
    "token": "service.commands.accounts:token",
    "session": "service.commands.accounts:session",
    "webhook": "service.commands.webhooks:webhook",
    "load": "service.commands.load:load",
    "openapi": "service.commands.document:print_document",
}


class Commands(AppGroup):
    """A group that imports a command when it is asked for."""

    def list_commands(self, _context: click.Context) -> list[str]:
        """Return the names, in the order of ``--help``."""
        return list(COMMANDS)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        """Import a command; None if there is none of this name."""
        if name not in COMMANDS:
            return None
        module, _, variable = COMMANDS[name].partition(":")
        command: click.Command = getattr(import_module(module), variable)
        return command


def init_app(app: Flask) -> None:
    """Give ``flask`` the commands."""
    app.cli = Commands()
