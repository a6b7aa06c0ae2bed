"""Run the whole service on this machine, with PostgreSQL and demo data, for ``dev``."""

import os
import shlex
import sys
from contextlib import ExitStack, closing
from importlib import util
from pathlib import Path

import click
from psycopg.conninfo import make_conninfo

from service.callers import OPERATOR
from service.commands.base import (
    FoundWorkspace,
    connect,
    current_settings,
    one_row,
)
from service.commands.load import load_file
from service.commands.migrate import migrate
from service.commands.tokens import new_session, new_token
from service.commands.workspaces import ListedWorkspace
from service.devkit.children import Children, Interrupt
from service.devkit.kept import Kept
from service.devkit.loopback import LIBPQ, LOOPBACK, SERVERS, forget, listen
from service.devkit.postgres import Postgres
from service.devkit.printer import URL_PATTERN, Printer, printing
from service.settings import Settings
from service.webhooks.secrets import CreatedWebhook, derive_secret, fingerprint

OWNER, WORKSPACE = "ada@example.com", "demo"
DEMO = Path(__file__).with_name("demo.jsonl")

# A constant, so that a restart does not change the secrets of webhooks. The secrets protect only
# demo data.
WEBHOOK_KEY = "task-service-dev-for-this-machine-only"

WITHOUT_DOCS = "off: it needs the package flask-swagger-ui, which the extra dev installs"

WELCOME = """
Base URL        {base}
Reference page  {docs}
Workspace       {workspace}
API token       {token}
Session cookie  session={cookie}
Data folder     {folder}
{notes}
curl -H 'Authorization: Bearer {token}' '{base}/tasks?limit=2'
curl -H 'Authorization: Bearer {token}' -H 'Content-Type: application/json' \
-d '{{"title": "Try"}}' {base}/tasks
curl -H 'Cookie: session={cookie}' {base}/workspaces

Ctrl-C stops everything and keeps the data. If dev is killed with -9, PostgreSQL keeps running:
start and stop dev once more to end it.
To run other commands (task-service --help lists them), paste this into another shell:

{unset}export {exports}
"""


def run(port: int, folder: Path, *, reset: bool, limits: str, receive: bool) -> None:
    """Run the service with these options of ``dev`` until a signal ends it."""
    if sys.stderr is None:
        # The parent closed stderr. Write to stdout instead, and occupy descriptor 2, so that no
        # file or socket gets it.
        os.dup2(1, 2)
        sys.stderr = sys.stdout
    forget(*SERVERS)
    forgotten = forget(LIBPQ)
    interrupt = Interrupt()
    with ExitStack() as stack:
        postgres = stack.enter_context(closing(Postgres(folder)))
        listener = stack.enter_context(listen(port))
        port = listener.getsockname()[1]
        address = f"http://127.0.0.1:{port}"
        postgres.describe_owner(f"{os.getpid()}, which serves {address}")
        if reset:
            postgres.erase()
        interrupt.check()
        postgres.start(Kept("dev", migrate_at))
        interrupt.check()
        variables = environment(postgres.get_uri(), port)
        # From here on, connect() and query() use this database.
        click.get_current_context().find_root().obj = Settings.read(variables)
        with connect() as connection:
            connection.run("unlimited/drop")
        migrate(current_settings())
        with connect() as connection:
            if not connection.rows(ListedWorkspace, "workspaces/list_all"):
                load_file(current_settings(), DEMO)
            connection.run("webhooks/remove", slug=WORKSPACE, pattern=URL_PATTERN)
        notes = ""
        if receive:
            printer = stack.enter_context(printing())
            if variables["WEBHOOK_ALLOW"] != LOOPBACK:
                variables["WEBHOOK_ALLOW"] += ",127.0.0.1"
            subscribe(printer)
            notes = (
                f"Webhooks        printed here; the demo workspace sends them to {printer.url}\n"
            )
        served = dict(variables)
        if limits == "off":
            served["DATABASE_URL"] = without_limits(variables["DATABASE_URL"])
            notes += "Rate limits     off\n"
        interrupt.check()
        children = Children(served, interrupt, listener.fileno())
        stack.callback(children.close)
        children.start_web()
        children.start_worker()
        token = new_token(OWNER, scope="write", days=30, name="dev", workspace=WORKSPACE)
        cookie = new_session(OWNER)
        # Requests that arrive before gunicorn is ready wait at the socket.
        children.wait_until_up(address)
        exports = ("DATABASE_URL", "WEBHOOK_KEY", "WEBHOOK_ALLOW")
        click.echo(
            WELCOME.format(
                base=f"{address}/api",
                docs=f"{address}/docs" if current_settings().docs else WITHOUT_DOCS,
                workspace=WORKSPACE,
                token=token,
                cookie=cookie,
                folder=folder,
                notes=notes,
                unset=f"unset {' '.join(forgotten)}\n" if forgotten else "",
                exports=" ".join(f"{name}={shlex.quote(variables[name])}" for name in exports),
            )
        )
        children.run(postgres)


def migrate_at(url: str) -> None:
    migrate(Settings.read({"DATABASE_URL": url}))


def environment(database_url: str, port: int) -> dict[str, str]:
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
    absent = f"there is no workspace {WORKSPACE} whose events to receive: start dev with --reset"
    workspace = one_row(FoundWorkspace, "workspaces/find", absent, slugs=[WORKSPACE])
    key = current_settings().require_webhook_key()
    created = one_row(
        CreatedWebhook,
        "webhooks/create",
        f"the workspace {WORKSPACE} has 20 webhooks: delete one first",
        workspace_id=workspace.id,
        **OPERATOR,
        url=printer.url,
        events=[],
        key_fingerprint=fingerprint(key),
    )
    printer.secret = derive_secret(key, created.id, created.secret_number)


def without_limits(database_url: str) -> str:
    """Return a URL for the same database, in which no plan has a limit."""
    with connect() as connection:
        connection.run("unlimited/create")
    return make_conninfo(database_url, options="-c search_path=unlimited,public")
