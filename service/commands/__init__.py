"""All commands of ``task-service``; ``flask`` in a checkout has the same."""

import ast
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    # Only for types: each import takes longer than ``--help`` may take.
    from flask import Flask

    from service.settings import Settings

# The module and the function of each command. A deployment never imports ``service.devkit``.
COMMANDS = {
    "dev": "service.devkit.dev:dev",
    "migrate": "service.commands.migrate:migrate_database",
    "check": "service.commands.check:check",
    "web": "service.commands.web:web",
    "worker": "service.commands.worker:worker",
    "status": "service.commands.status:show_status",
    "workspace": "service.commands.workspaces:workspace",
    "user": "service.commands.users:user",
    "member": "service.commands.members:member",
    "token": "service.commands.tokens:token",
    "session": "service.commands.sessions:session",
    "plan": "service.commands.plans:plan",
    "webhook": "service.commands.webhooks:webhook",
    "load": "service.commands.load:load",
    "openapi": "service.commands.document:print_document",
}

# The name of the settings in the context of a command.
SETTINGS_KEY = "service.settings"


class Commands(click.Group):
    """A group that imports a command when it is called; ``--help`` imports none.

    Without ``settings``, a command reads those of the environment.
    """

    def __init__(self, *arguments: Any, settings: "Settings | None" = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.settings = settings

    def list_commands(self, _context: click.Context) -> list[str]:
        """Return the names, in the order of ``--help``."""
        return list(COMMANDS)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        """Import and return the command of this name; return None if there is none."""
        if name not in COMMANDS:
            return None
        module, _, function = COMMANDS[name].partition(":")
        command: click.Command = getattr(import_module(module), function)
        return command

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the name of each command and the first sentence of its help."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary(place)) for name, place in COMMANDS.items()])

    def invoke(self, context: click.Context) -> Any:
        """Run a command with the settings of this group, and return its value."""
        if self.settings:
            context.meta[SETTINGS_KEY] = self.settings
        return super().invoke(context)


def summary(place: str) -> str:
    """Return the first sentence of the docstring of a function whose module is not imported."""
    module, _, function = place.partition(":")
    found = find_spec(module)
    if found is None or found.origin is None:
        raise ImportError(module)
    for node in ast.parse(Path(found.origin).read_bytes()).body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            paragraph = " ".join((ast.get_docstring(node) or "").partition("\n\n")[0].split())
            return paragraph.partition(". ")[0].removesuffix(".") + "."
    raise ImportError(place)


def init_app(app: "Flask") -> None:
    """Give ``flask`` the commands."""
    app.cli = Commands(settings=app.config["SETTINGS"])
