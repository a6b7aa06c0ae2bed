"""``task-service dev --json``: the options of the command; ``serving`` runs it."""

import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from service.devkit.dev import port_option
from service.devkit.loopback import LIBPQ, SERVERS, forget, listen


def text_of(least: int, most: int, signs: str) -> Callable[..., str | None]:
    """Return an option's callback that accepts only letters, digits and these signs.

    The callback raises BadParameter for other characters, or if there are too few or too many.
    """

    def check(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
        if value is None or re.fullmatch(f"[A-Za-z0-9{signs}]{{{least},{most}}}", value, re.ASCII):
            return value
        allowed = f"{least} to {most} of the characters A-Z a-z 0-9 {' '.join(signs)}"
        raise click.BadParameter(f"must have {allowed}")

    return check


def host_name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,253}", text, re.ASCII):
        raise click.BadParameter(f"{text!r} must be a host name, without a port")
    return text.lower()


class NewFile(click.Path):
    """The path of a file that the double will write.

    Rejects a path in a folder that is missing or not writable before anything starts.
    """

    def __init__(self) -> None:
        super().__init__(path_type=Path, dir_okay=False, writable=True)

    def convert(
        self, value: Any, option: click.Parameter | None, context: click.Context | None
    ) -> Path:
        path = Path(os.fsdecode(super().convert(value, option, context)))
        try:
            if not path.exists():
                # Try another name: a reader of the file must not find it empty.
                tempfile.TemporaryFile(dir=path.parent).close()
        except OSError as error:
            self.fail(f"'{path}': {error.strerror}", option, context)
        return path


host_type = click.Choice(["127.0.0.1", "0.0.0.0"])  # noqa: S104


@click.command()
@port_option
@click.option(
    "--host",
    type=host_type,
    default="127.0.0.1",
    show_default=True,
    help="Address of the service; in a container, 0.0.0.0 lets others reach the double.",
)
@click.option(
    "--token",
    envvar="TASK_SERVICE_TOKEN",
    show_envvar=True,
    callback=text_of(16, 200, "._~+/=-"),
    help="The API token of the owner.",
)
@click.option("--database", metavar="URL", help="The PostgreSQL server to use.")
@click.option(
    "--control-port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port of the control URL; 0 is any free port.",
    show_default=True,
)
@click.option(
    "--control-host",
    type=host_type,
    default="127.0.0.1",
    show_default=True,
    help="Address of the control URL.",
)
@click.option(
    "--control-path",
    envvar="TASK_SERVICE_CONTROL_PATH",
    show_envvar=True,
    callback=text_of(1, 100, "._~-"),
    help="Path of the control URL.",
    show_default="random",
)
@click.option(
    "--control-host-name",
    "control_host_names",
    type=host_name,
    multiple=True,
    metavar="NAME",
    envvar="TASK_SERVICE_CONTROL_HOST_NAME",
    show_envvar=True,
    help="A host name by which clients reach the control URL, besides localhost and addresses; can"
    " be given several times.",
)
@click.option(
    "--json-file",
    type=NewFile(),
    help="Write the line to this file too; the double removes it at its end.",
)
@click.option(
    "--log-file",
    type=NewFile(),
    help="Write the log to this file.",
    show_default="stderr if LOG_FORMAT is set, else no log",
)
@click.option(
    "--keep", is_flag=True, help="Return once the double serves; POST /stop or SIGTERM ends it."
)
def run_double(host: str, port: int, control_host: str, control_port: int, **options: Any) -> None:
    """Run the service as a test double, with a control URL and no demo data; print one JSON line.

    The double ends with its parent process, or with --keep by POST /stop or SIGTERM. It ignores
    DATABASE_URL and PGHOST, PGUSER, ...
    """
    forget(LIBPQ, *SERVERS)
    listeners = (
        listen(port, host=host),
        listen(control_port, "--control-port", host=control_host),
    )
    # Imported here, so that a wrong option and --help need no libraries of the service.
    from task_service_double.serving import serve

    serve(*listeners, **options)
