"""``task-service``: all commands, from any folder; also ``python -m service``."""

import signal

# Ctrl-C ends the process without a traceback until click can handle it.
ON_INTERRUPT = signal.getsignal(signal.SIGINT)
if ON_INTERRUPT is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from importlib import import_module  # noqa: E402

import click  # noqa: E402

# The commands in the order of --help, each with the first sentence of its own help.
COMMANDS = {
    "dev": "Run the service here with PostgreSQL and demo data, and reload changed code.",
    "migrate": "Apply the pending migrations.",
    "check": "Check settings, connection, encoding, schema, rights and key; exits with 1 if one is"
    " wrong.",
    "web": "Serve requests by gunicorn, in the foreground, until SIGTERM.",
    "worker": "Deliver webhooks and prune old rows, until SIGTERM; any number of workers may run.",
    "status": "Show the state of database, processes and webhooks; exits with 1 if something is"
    " wrong.",
    "workspace": "Create, list, export and delete workspaces, and change their plan.",
    "user": "Create, show, deactivate and delete users, and choose their active workspace.",
    "member": "Add members to workspaces, list and remove them.",
    "token": "Create, list and revoke API tokens.",
    "session": "Create session cookies, list and revoke the sessions of all users.",
    "plan": "List plans and change their limits.",
    "webhook": "List webhooks and deliveries, deliver again, stop and resume, rotate secrets.",
    "load": "Load JSON Lines: an object a line, with its type and the API's fields; - is standard"
    " input.",
    "openapi": "Print the interface as OpenAPI 3.1, like GET /openapi.json; needs no database.",
}

# Where each command is, below ``service``.
PLACES = {
    "dev": "devkit.dev.dev",
    "migrate": "commands.migrate.migrate_database",
    "check": "commands.check.check",
    "web": "commands.web.web",
    "worker": "commands.worker.worker",
    "status": "commands.status.show_status",
    "workspace": "commands.workspaces.workspace",
    "user": "commands.users.user",
    "member": "commands.members.member",
    "token": "commands.tokens.token",
    "session": "commands.tokens.session",
    "plan": "commands.plans.plan",
    "webhook": "commands.webhooks.webhook",
    "load": "commands.load.load",
    "openapi": "commands.document.print_document",
}


class Commands(click.Group):
    """A group that imports a command when it is called; ``--help`` imports none."""

    def list_commands(self, _context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        """Import and return the command of this name; return None if there is none."""
        if name not in PLACES:
            return None
        module, _, attribute = PLACES[name].rpartition(".")
        command: click.Command = getattr(import_module(f"service.{module}"), attribute)
        return command

    def invoke(self, context: click.Context) -> object:
        """Run a command; each error is one line on stderr, with exit status 1."""
        try:
            return super().invoke(context)
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except Exception:
            # This needs libraries that --help and the rejection of an option do not.
            from service.commands.base import errors_in_one_line

            with errors_in_one_line():
                raise

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the name of each command and the first sentence of its help."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=Commands)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda context, _option, asked: print_version(context) if asked else None,
    help="Show the version, and what of the repository it was built from.",
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


def print_version(context: click.Context) -> None:
    # Reading the version takes longer than --help may take.
    from service.version import build

    click.echo(build())
    context.exit()


signal.signal(signal.SIGINT, ON_INTERRUPT)

if __name__ == "__main__":
    main()
