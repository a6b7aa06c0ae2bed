"""``task-service dev --json``: the options of the command; ``serving`` runs it."""

import re
from pathlib import Path
from typing import TypedDict, Unpack

import click

from service.devkit.dev import port_option
from service.devkit.loopback import LIBPQ, SERVERS, forget, listen

TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{16,200}", re.ASCII)
CONTROL_PATH = re.compile(r"[A-Za-z0-9._~-]{1,100}", re.ASCII)


class DoubleOptions(TypedDict):
    """The options, beside the port."""

    token: str | None
    database: str | None
    control_port: int
    control_path: str | None
    json_file: Path | None
    log_file: Path | None
    keep: bool


def check_token(_context: click.Context, _option: click.Parameter, token: str | None) -> str | None:
    """Return the token if a header can carry it; raises BadParameter."""
    if token is not None and not TOKEN.fullmatch(token):
        raise click.BadParameter("must have 16 to 200 of the characters A-Z a-z 0-9 . _ ~ + / = -")
    return token


def check_path(_context: click.Context, _option: click.Parameter, path: str | None) -> str | None:
    """Return the path if it is one segment; raises BadParameter."""
    if path is not None and not CONTROL_PATH.fullmatch(path):
        raise click.BadParameter("must have 1 to 100 of the characters A-Z a-z 0-9 . _ ~ -")
    return path


@click.command()
@port_option
@click.option("--token", callback=check_token, help="The API token of the owner.")
@click.option("--database", metavar="URL", help="The PostgreSQL server to use.")
@click.option(
    "--control-port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port of the control URL; 0 is any free port.",
    show_default=True,
)
@click.option(
    "--control-path", callback=check_path, help="Path of the control URL.", show_default="random"
)
@click.option(
    "--json-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the line to this file too; the double removes it at its end.",
)
@click.option(
    "--log-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the log to this file.",
    show_default="stderr if LOG_FORMAT is set, else no log",
)
@click.option(
    "--keep", is_flag=True, help="Return once the double serves; POST /stop or SIGTERM ends it."
)
def run_double(port: int, **options: Unpack[DoubleOptions]) -> None:
    """Run the service as a test double, with a control URL and no demo data; print one JSON line.

    The double ends with its parent process, or with --keep by POST /stop or SIGTERM. It ignores
    DATABASE_URL and PGHOST, PGUSER, ...
    """
    forget(LIBPQ, *SERVERS)
    listeners = listen(port), listen(options["control_port"], "--control-port")
    # The options are checked, and --help is shown, without the libraries of the service.
    from task_service_double.serving import serve

    serve(*listeners, options)
