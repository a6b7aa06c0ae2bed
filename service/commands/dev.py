"""``flask dev``: the whole service on this machine, with PostgreSQL and demo data."""

import os
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

import click
import urllib3
from flask import current_app

from service import db
from service.commands import dev_json, embedded_postgres
from service.commands.accounts import new_token
from service.commands.base import query, report_errors
from service.commands.load import load_file
from service.commands.migrate import migrate
from service.commands.web import gunicorn
from service.settings import Settings

OWNER = "ada@example.com"
DEMO = Path(__file__).with_name("demo.jsonl")

# Secrets of webhooks must outlive a restart; these protect nothing but this machine's own data.
WEBHOOK_KEY = "flask-dev-is-for-this-machine-only"

JSON = "-H 'Content-Type: application/json'"

WELCOME = """
Base URL        {base}
Reference page  {docs}
API token       {token}
Session cookie  session={cookie}
Data folder     {folder}

curl -H 'Authorization: Bearer {token}' '{base}/tasks?limit=2'
curl -H 'Authorization: Bearer {token}' {json} -d '{{"title": "Try"}}' {base}/tasks
curl -H 'Cookie: session={cookie}' {base}/workspaces

Ctrl-C stops it; the data stay. For other commands, in another shell:

export {exports}
"""


@click.command("dev")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True)
@click.option(
    "--data",
    "folder",
    type=click.Path(path_type=Path),
    default=embedded_postgres.default_folder,
    help="Where the data are.",
    show_default=".data in a checkout, else ~/.local/share/task-service; for root in /var/lib",
)
@click.option("--reset", is_flag=True, help="Remove the data first.")
@click.option("--json", "for_tests", is_flag=True, help="Be a test double; print one JSON line.")
@click.option(
    "--token", callback=dev_json.check_token, help="With --json: the API token of the owner."
)
@click.option("--database", metavar="URL", help="With --json: the PostgreSQL server to use.")
@report_errors
def dev(
    port: int,
    folder: Path,
    reset: bool,
    for_tests: bool,
    token: str | None,
    database: str | None,
) -> None:
    """Run everything here: PostgreSQL, demo data and gunicorn, reloading what you change.

    Prints the base URL, a token and a cookie of the demo owner, and three commands to begin with.
    The database is its own; DATABASE_URL is ignored.
    """
    if for_tests:
        dev_json.reject("folder", "reset")
        dev_json.serve(port, token, database)
        return
    dev_json.reject("token", "database")
    postgres = click.get_current_context().with_resource(embedded_postgres.Server(folder))
    require_free_port(port)
    # Ends like Ctrl-C does, so that PostgreSQL is stopped too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if reset:
        postgres.erase()
    postgres.start()
    environment = {
        **os.environ,
        "DATABASE_URL": postgres.get_uri(),
        "HOST": "127.0.0.1",
        "PORT": str(port),
        "WEB_CONCURRENCY": "1",
        "WEBHOOK_KEY": os.environ.get("WEBHOOK_KEY", WEBHOOK_KEY),
        "WEBHOOK_ALLOW": os.environ.get("WEBHOOK_ALLOW", "localhost,127.0.0.0/8,::1"),
        "DOCS": "on",
    }
    # From here on, commands talk to this database.
    current_app.config["SETTINGS"] = Settings.read(environment)
    migrate(current_app.config["SETTINGS"])
    if not query("accounts/any_workspace")[0].exists:
        load_file(current_app.config["SETTINGS"], DEMO)
    token = new_token("api", OWNER, expires_in=30, name="flask dev")
    cookie = new_token("session", OWNER, expires_in=30, name="flask dev")
    reloaded = [f"--reload-extra-file={path}" for path in db.SQL.rglob("*.sql")]
    server = start(environment, *gunicorn("--reload", *reloaded))
    worker = start(environment, sys.executable, "-m", "service", "worker")
    try:
        wait_until_up(server, port)
        address = f"http://127.0.0.1:{port}"
        exports = " ".join(
            f"{name}={shlex.quote(environment[name])}"
            for name in ("DATABASE_URL", "WEBHOOK_KEY", "WEBHOOK_ALLOW")
        )
        click.echo(
            WELCOME.format(
                base=f"{address}/api",
                docs=f"{address}/docs",
                json=JSON,
                token=token,
                cookie=cookie,
                folder=folder,
                exports=exports,
            )
        )
        sys.exit(server.wait())
    except KeyboardInterrupt:
        pass
    finally:
        for process in (server, worker):
            process.terminate()
            process.wait()


def start(environment: dict[str, str], *command: str) -> subprocess.Popen[bytes]:
    """Start a command where this package lies, whatever the folder here has in it."""
    return subprocess.Popen(command, cwd=Path(db.__file__).parents[1], env=environment)  # noqa: S603


def require_free_port(port: int) -> None:
    """Raise ClickException if something else listens on the port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise click.ClickException(
                f"port {port}: {error.strerror}; choose another with --port"
            ) from None


def wait_until_up(server: subprocess.Popen[bytes], port: int) -> None:
    """Return once the service answers; raises ClickException if it does not within 15 s."""
    deadline = monotonic() + 15
    while server.poll() is None and monotonic() < deadline:
        try:
            urllib3.request("GET", f"http://127.0.0.1:{port}/healthz", retries=False, timeout=1)
            return
        except urllib3.exceptions.HTTPError:
            sleep(0.05)
    raise click.ClickException("gunicorn did not start; it says why above")
