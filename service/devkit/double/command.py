"""``task-service dev --json``: the service as a test double, for any language."""

import os
import re
import signal
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

import click
import psycopg
from click.core import ParameterSource
from psycopg import conninfo, sql

from service.commands.load import load_lines
from service.commands.migrate import migrate
from service.devkit.postgres import Postgres
from service.settings import Settings

# Where webhooks may go.
LOOPBACK = "localhost,127.0.0.0/8,::1"

SIGNALS = signal.SIGTERM, signal.SIGINT, signal.SIGHUP

TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{16,200}", re.ASCII)


def check_token(_context: click.Context, _option: click.Parameter, token: str | None) -> str | None:
    """Return a token that the service can find in a header."""
    if token is not None and not TOKEN.fullmatch(token):
        raise click.BadParameter("must have 16 to 200 of the characters A-Z a-z 0-9 . _ ~ + / = -")
    return token


def reject(*names: str) -> None:
    """Raise UsageError if one of these parameters was given: it does not go with the others."""
    context = click.get_current_context()
    for option in context.command.params:
        source = context.get_parameter_source(option.name or "")
        if option.name in names and source is ParameterSource.COMMANDLINE:
            word = "without" if option.name in ("token", "database") else "with"
            raise click.UsageError(f"{option.opts[0]} cannot be used {word} --json")


def serve(listener: socket.socket, token: str | None, database: str | None) -> None:
    """Serve until SIGTERM or until the parent ends, and leave nothing behind.

    The database is a new one, on the server of the URL ``database`` or on one of its own.
    """
    # Until gunicorn handles them: what has been started is then stopped in order.
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    # Here, as no other command imports it.
    from service.app import create_app
    from service.devkit.double.server import Server

    with new_database(database) if database else own_server() as url:
        os.environ.update(
            DATABASE_URL=url,
            HOST="127.0.0.1",
            PORT=str(listener.getsockname()[1]),
            WEBHOOK_KEY=token_hex(32),
            WEBHOOK_ALLOW=",".join(filter(None, (LOOPBACK, os.environ.get("WEBHOOK_ALLOW")))),
        )
        # Tests may make some of them wait on purpose.
        os.environ.setdefault("WEB_THREADS", "16")
        settings = Settings.read()
        migrate(settings)
        Server(create_app, settings, load_lines, listener=listener, token=token).run()


@contextmanager
def own_server() -> Iterator[str]:
    """Start a PostgreSQL in a temporary folder; yields the URL of its database."""
    with tempfile.TemporaryDirectory(prefix="task-service-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o711)
        with Postgres(folder, durable=False) as postgres:
            postgres.start()
            yield postgres.get_uri()


@contextmanager
def new_database(server: str) -> Iterator[str]:
    """Create a database on this server; yields its URL, and drops it in the end."""
    name = sql.Identifier(f"task_service_{token_hex(6)}")
    execute(server, sql.SQL("CREATE DATABASE {}").format(name))
    try:
        yield conninfo.make_conninfo(server, dbname=name.as_string().strip('"'))
    finally:
        execute(server, sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))


def execute(server: str, statement: sql.Composed) -> None:
    """Run a statement on a connection of its own: an idle one may be lost while tests run."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(statement)
