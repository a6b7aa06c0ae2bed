"""``task-service``: all commands, from any folder; also ``python -m service``."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from inspect import cleandoc
from typing import Any

import click

from service.output import open_output

# The commands in the order of --help: where each is defined below ``service``, and the first
# sentence of its help. The docstring of the command contains the remaining sentences.
COMMANDS = {
    "dev": (
        "devkit.dev.dev",
        "Run the service here with PostgreSQL and demo data, and reload changed code.",
    ),
    "migrate": ("commands.migrate.migrate_database", "Apply the pending migrations."),
    "check": (
        "commands.check.check",
        "Check settings, connection, encoding, schema, rights and key; exits with 1 if a check"
        " fails.",
    ),
    "web": ("commands.web.web", "Serve requests with gunicorn, in the foreground, until SIGTERM."),
    "worker": (
        "commands.worker.worker",
        "Deliver webhooks and prune old rows, until SIGTERM; you may run several workers.",
    ),
    "status": (
        "commands.status.show_status",
        "Show the state of database, processes and webhooks; exits with 1 if something is wrong.",
    ),
    "workspace": (
        "commands.workspaces.workspace",
        "Create, list, export and delete workspaces, and change their plans.",
    ),
    "user": (
        "commands.users.user",
        "Create, show, deactivate and delete users, and choose their active workspaces.",
    ),
    "member": ("commands.members.member", "Add members to workspaces, list and remove them."),
    "token": ("commands.tokens.token", "Create, list and revoke API tokens."),
    "session": (
        "commands.tokens.session",
        "Create session cookies; list and revoke the sessions of all users.",
    ),
    "plan": ("commands.plans.plan", "List plans and change their limits."),
    "webhook": (
        "commands.webhooks.webhook",
        "List webhooks and deliveries, deliver again, disable and enable, rotate secrets.",
    ),
    "load": (
        "commands.load.load",
        "Load workspaces and users, with everything in them, from files of JSON Lines.",
    ),
    "openapi": (
        "commands.document.print_document",
        "Print the OpenAPI 3.1 document of the API, as GET /openapi.json returns it; needs no"
        " database.",
    ),
}


def correct_python() -> None:
    """Start Python again, unless it has read docstrings and decodes arguments as UTF-8.

    ``--help`` and the document consist of docstrings, which ``PYTHONOPTIMIZE=2`` removes.
    """
    wanted = {}
    if sys.flags.optimize > 1:
        wanted["PYTHONOPTIMIZE"] = "1"
    if sys.getfilesystemencoding() != "utf-8":
        wanted["PYTHONUTF8"] = "1"
    # An option like -OO is stronger than its variable.
    if not wanted.items() <= os.environ.items():
        variables = {**os.environ, **wanted}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], variables)  # noqa: S606


class Commands(click.Group):
    """A group that imports a command only to run it; ``task-service --help`` imports no command."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> Any:
        """Run the command line; if its output cannot be written, exit with status 1."""
        if args is None:
            correct_python()
        open_output()
        return super().main(args, *rest, **options)

    def list_commands(self, _context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        """Import a command, and begin its help with its sentence from COMMANDS."""
        if name not in COMMANDS:
            return None
        place, sentence = COMMANDS[name]
        module, _, attribute = place.rpartition(".")
        command: click.Command = getattr(import_module(f"service.{module}"), attribute)
        if command.short_help is None:
            command.help = f"{sentence}\n\n{cleandoc(command.help or '')}".strip()
            command.short_help = sentence
        return command

    def invoke(self, context: click.Context) -> object:
        """Run a command. If it fails, print one line to stderr and exit with status 1."""
        try:
            return super().invoke(context)
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except Exception as error:
            # Imported late, because its libraries would slow down --help and usage errors.
            from service.commands.base import in_one_line

            if (text := in_one_line(error)) is None:
                raise
            raise click.ClickException(text) from None

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, sentence) for name, (_, sentence) in COMMANDS.items()])


def print_version(context: click.Context, _option: object, asked: bool) -> None:
    if asked:
        # Imported late, because reading the version takes longer than --help may take.
        from service.version import build

        click.echo(build())
        context.exit()


@click.group(cls=Commands)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=print_version,
    help="Show the version, and the Git hash of its source.",
)
def main() -> None:
    """Run and manage the Task, Meeting and Workspace service.

    \b
    To try it:    task-service dev
    In production, with DATABASE_URL set:
                  task-service migrate
                  task-service check
                  task-service web
                  task-service worker
                  task-service status
    """


if __name__ == "__main__":
    main()
