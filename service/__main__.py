"""``task-service``: all commands, from any folder; also ``python -m service``."""

import signal

# Ctrl-C during the imports below ends the process without a traceback.
ON_INTERRUPT = signal.getsignal(signal.SIGINT)
if ON_INTERRUPT is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import click  # noqa: E402

from service.commands import Commands  # noqa: E402

signal.signal(signal.SIGINT, ON_INTERRUPT)


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
    """Print the version, and end."""
    # Reading the version takes longer than --help may take.
    from service.version import build

    click.echo(build())
    context.exit()


if __name__ == "__main__":
    main()
