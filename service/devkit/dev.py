"""``dev``: the whole service on this machine, with PostgreSQL and demo data."""

import os
import shlex
import socket
import sys
from contextlib import ExitStack
from importlib import metadata, util
from pathlib import Path
from typing import Any, NamedTuple

import click
from psycopg.conninfo import make_conninfo

from service.commands.base import connect, current_settings, one_row, query
from service.commands.load import load_file
from service.commands.migrate import migrate
from service.commands.tokens import new_token
from service.commands.webhooks import new_webhook
from service.commands.workspaces import FoundWorkspace
from service.devkit.postgres import Postgres, default_folder
from service.devkit.printer import URL_PATTERN, Printer, printing
from service.devkit.processes import Children, Interrupt
from service.settings import Settings
from service.version import version

JSON_OPTION = "--json"

OWNER, WORKSPACE = "ada@example.com", "demo"
DEMO = Path(__file__).with_name("demo.jsonl")

# A constant, so that secrets of webhooks outlive a restart; they protect demo data only. Its text
# stays that of the first release: with another one, webhooks of existing data would lack their key.
WEBHOOK_KEY = "flask-dev-is-for-this-machine-only"

# The hosts that webhooks may reach.
LOOPBACK = "localhost,127.0.0.0/8,::1"

WITHOUT_DOCS = "not here: it needs the package flask-swagger-ui, which the extra dev has"

JSON = "-H 'Content-Type: application/json'"

WELCOME = """
Base URL        {base}
Reference page  {docs}
Workspace       {workspace}
API token       {token}
Session cookie  session={cookie}
Data folder     {folder}
{notes}
curl -H 'Authorization: Bearer {token}' '{base}/tasks?limit=2'
curl -H 'Authorization: Bearer {token}' {json} -d '{{"title": "Try"}}' {base}/tasks
curl -H 'Cookie: session={cookie}' {base}/workspaces

Ctrl-C stops it; the data stay. For other commands (--help lists them), in another shell:

export {exports}
"""


class Existence(NamedTuple):
    """The row that tells whether a workspace exists."""

    exists: bool


class Dev(click.Command):
    """The command ``dev``; with ``--json``, the command of the test double, if it is installed."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Return the context of the command that these arguments are for."""
        if JSON_OPTION not in args:
            return super().make_context(info_name, args, parent, **extra)
        others = [word for word in args if word != JSON_OPTION]
        return import_double().make_context(f"{info_name} {JSON_OPTION}", others, parent, **extra)


def import_double() -> click.Command:
    """Return the command of the distribution task-service-double; raises ClickException."""
    for found in metadata.entry_points(group="task_service.dev", name="json"):
        command: click.Command = found.load()
        return command
    raise click.ClickException(
        "the test double is not installed: in this environment,"
        f" pip install task_service_double-{version()}-py3-none-any.whl,"
        " or -e task_service_double in a checkout"
    )


port_option = click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="Port on 127.0.0.1; 0 is any free port.",
)


@click.command("dev", cls=Dev)
@port_option
@click.option(
    "--data",
    "folder",
    type=click.Path(path_type=Path),
    default=default_folder,
    help="Folder of the data.",
    show_default=".data in a checkout, else ~/.local/share/task-service; for root in /var/lib",
)
@click.option("--reset", is_flag=True, help="Remove the data first.")
@click.option(
    "--limits",
    type=click.Choice(["on", "off"]),
    default="on",
    show_default=True,
    help="off: no rate limits until the next start.",
)
@click.option(
    "--receiver",
    "receive",
    is_flag=True,
    help="Print the webhooks of the demo workspace, and verify their signatures.",
)
@click.option(
    JSON_OPTION,
    is_flag=True,
    expose_value=False,
    help="Run the test double instead, if it is installed; dev --json --help lists its options.",
)
def dev(port: int, folder: Path, reset: bool, limits: str, receive: bool) -> None:
    """Run the service here with PostgreSQL and demo data, and reload changed code.

    Prints the base URL, a token and a cookie of the demo owner, and three commands to begin with.
    The command has a database of its own, and ignores DATABASE_URL and PGHOST, PGUSER, ...
    """
    forget_libpq()
    interrupt = Interrupt()
    with ExitStack() as stack:
        postgres = stack.enter_context(Postgres(folder))
        listener = stack.enter_context(listen(port))
        port = listener.getsockname()[1]
        address = f"http://127.0.0.1:{port}"
        postgres.describe_owner(f"{os.getpid()}, which serves {address}")
        if reset:
            postgres.erase()
        interrupt.check()
        postgres.start()
        interrupt.check()
        variables = environment(postgres.get_uri(), port)
        # From here on, all statements of this command run on this database.
        click.get_current_context().find_root().obj = Settings.read(variables)
        execute("unlimited/drop")
        migrate(current_settings())
        if not query(Existence, "workspaces/any")[0].exists:
            load_file(current_settings(), DEMO)
        execute("webhooks/remove", slug=WORKSPACE, pattern=URL_PATTERN)
        notes = ""
        if receive:
            printer = stack.enter_context(printing())
            if variables["WEBHOOK_ALLOW"] != LOOPBACK:
                variables["WEBHOOK_ALLOW"] += ",127.0.0.1"
            subscribe(printer)
            notes += f"Webhooks        printed here; the demo workspace sends to {printer.url}\n"
        served = dict(variables)
        if limits == "off":
            served["DATABASE_URL"] = without_limits(variables["DATABASE_URL"])
            notes += "Rate limits     off\n"
        interrupt.check()
        children = stack.enter_context(Children(served, interrupt, listener.fileno()))
        children.start_web()
        children.start_worker()
        token = new_token("api", OWNER, expires_in=30, name="dev")
        cookie = new_token("session", OWNER, expires_in=30, name="dev")
        exports = ("DATABASE_URL", "WEBHOOK_KEY", "WEBHOOK_ALLOW")
        click.echo(
            WELCOME.format(
                base=f"{address}/api",
                docs=f"{address}/docs" if current_settings().docs else WITHOUT_DOCS,
                workspace=WORKSPACE,
                json=JSON,
                token=token,
                cookie=cookie,
                folder=folder,
                notes=notes,
                exports=" ".join(f"{name}={shlex.quote(variables[name])}" for name in exports),
            )
        )
        # Not before the banner: the log has a line for each request to /healthz. Until the service
        # is up, requests wait at its port.
        children.wait_until_up(address)
        children.run()


def execute(name: str, /, **values: object) -> None:
    """Run ``sql/<name>.sql``, which returns no rows."""
    with connect() as connection:
        connection.run(name, values)


def forget_libpq() -> None:
    """Remove the variables that would change where and how libpq connects."""
    for name in [name for name in os.environ if name.startswith("PG")]:
        del os.environ[name]


def listen(port: int, option: str = "--port") -> socket.socket:
    """Return a socket that listens on the port; raises ClickException if the port is taken."""
    try:
        return socket.create_server(("127.0.0.1", port), backlog=2048)
    except OSError as error:
        raise click.ClickException(
            f"port {port}: {os.strerror(error.errno or 0)}; choose another with {option}"
        ) from None


def environment(database_url: str, port: int) -> dict[str, str]:
    """Return the environment variables of the service and of its commands."""
    own = {
        "DATABASE_URL": database_url,
        "HOST": "127.0.0.1",
        "PORT": str(port),
        "WEB_CONCURRENCY": "1",
        "DOCS": "on" if util.find_spec("flask_swagger_ui") else "off",
    }
    defaults = {
        "WEBHOOK_KEY": WEBHOOK_KEY,
        "WEBHOOK_ALLOW": LOOPBACK,
        "LOG_FORMAT": "text" if sys.stderr.isatty() else "json",
    }
    return {**defaults, **os.environ, **own}


def subscribe(printer: Printer) -> None:
    """Send the events of the demo workspace to the printer."""
    absent = f"there is no workspace {WORKSPACE} to receive from: start with --reset"
    one_row(FoundWorkspace, "workspaces/find", absent, slugs=[WORKSPACE])
    _, printer.secret = new_webhook(WORKSPACE, printer.url, [])


def without_limits(database_url: str) -> str:
    """Return a URL of the same database whose connections find plans without limits."""
    execute("unlimited/create")
    return make_conninfo(database_url, options="-c search_path=unlimited,public")
