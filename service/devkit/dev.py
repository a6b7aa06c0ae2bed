"""The options of the command ``dev``; devkit/local.py runs the service."""

from importlib import metadata
from pathlib import Path
from typing import Any

import click

from service.devkit.postgres import default_folder
from service.version import version

JSON_OPTION = "--json"


class Dev(click.Command):
    """The command ``dev``. With ``--json`` the command of the test double runs instead."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        if JSON_OPTION not in args:
            return super().make_context(info_name, args, parent, **extra)
        others = [word for word in args if word != JSON_OPTION]
        return import_double().make_context(f"{info_name} {JSON_OPTION}", others, parent, **extra)


def import_double() -> click.Command:
    """Import the test double's command; raises ClickException if task-service-double is absent."""
    for found in metadata.entry_points(group="task_service.dev", name="json"):
        command: click.Command = found.load()
        return command
    raise click.ClickException(
        "the test double is not installed: in this environment,"
        f" pip install task_service_double-{version()}-py3-none-any.whl,"
        " or -e testkit/task_service_double in a checkout"
    )


port_option = click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="Port on 127.0.0.1; 0 takes any free port.",
)


@click.command("dev", cls=Dev)
@port_option
@click.option(
    "--data",
    "folder",
    type=click.Path(path_type=Path),
    default=default_folder,
    help="Folder for the data.",
    show_default=".data in a checkout, else ~/.local/share/task-service; for root in /var/lib",
)
@click.option("--reset", is_flag=True, help="Delete the data first.")
@click.option(
    "--limits",
    type=click.Choice(["on", "off"]),
    default="on",
    show_default=True,
    help="off: no rate limits in this run.",
)
@click.option(
    "--receiver",
    "receive",
    is_flag=True,
    help=(
        "Receive the webhook events of the demo workspace: verify each signature, print the event."
    ),
)
@click.option(
    JSON_OPTION,
    is_flag=True,
    expose_value=False,
    help="Run the test double instead, if it is installed; see dev --json --help.",
)
def dev(port: int, folder: Path, reset: bool, limits: str, receive: bool) -> None:
    """Prints the base URL, an API token and a session cookie of the demo owner, and three commands
    to try. Uses its own database, and ignores DATABASE_URL and PGHOST.

    If you are root, dev creates the system user pgserver to run PostgreSQL, and for each checkout a
    folder /var/lib/task-service-ID of about 40 MB. To remove them, run rm -r on the folder, and
    userdel pgserver.

    To start faster, dev and the test double keep up to four empty databases of about 40 MB each in
    ~/.cache/task-service.
    """
    # Imported late: checking the options and showing --help need no library of the service.
    from service.devkit.local import run

    run(port, folder, reset=reset, limits=limits, receive=receive)
