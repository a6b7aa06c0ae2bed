"""Start the service as a test double, for tests in any language: ``task-service dev --json``."""

import json
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from importlib.metadata import version
from pathlib import Path
from secrets import token_hex

import click
import psycopg
from psycopg import conninfo

from service.commands.migrate import migrate
from service.database.pool import PROPERTIES, connect
from service.devkit.children import Children, Interrupt
from service.devkit.kept import Kept
from service.devkit.loopback import LOOPBACK
from service.devkit.postgres import Postgres, temporary_base
from service.settings import Settings
from task_service_double.cleanup import PREFIX, FirstProcess, fork, older, remove_abandoned, silence
from task_service_double.environment import Environment
from task_service_double.initial_state import InitialState
from task_service_double.statements import STATEMENTS

# How many lines of the log an error shows.
LAST_LINES = 20

# now() finds clock.now() before pg_catalog.now(). New tables are created in public.
SEARCH_PATH = "-c search_path=public,clock,pg_catalog"


def serve(
    listener: socket.socket,
    control: socket.socket,
    *,
    token: str | None,
    database: str | None,
    control_path: str | None,
    control_host_names: tuple[str, ...],
    json_file: Path | None,
    log_file: Path | None,
    keep: bool,
) -> None:
    """Serve until this process is stopped, or, without ``keep``, its parent ends.

    Then remove everything. The double creates a new database, on the server of the URL
    ``database``, or on an embedded server.
    """
    base = temporary_base()
    folder = base / f"{PREFIX}{token_hex(6)}"
    channel = fork(folder, keep=keep)
    interrupt = Interrupt()
    first = FirstProcess(channel, interrupt, keep=keep)
    remove_abandoned(*older(base))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        folder.mkdir()
        folder.chmod(0o711)
        if database:
            postgres = None
            url = stack.enter_context(new_database(database))
        else:
            postgres = stack.enter_context(closing(Postgres(folder, durable=False)))
            url = postgres.future_uri()
        key = token_hex(32)
        base_url = set_environment(listener, url, key)
        settings = Settings.read()
        control_url = f"http://127.0.0.1:{control.getsockname()[1]}/{control_path or token_hex(8)}"
        ready, preparing = os.pipe()
        environment = Environment(
            control_url, control.fileno(), ready, token, os.getpid(), [*control_host_names]
        )
        # To keep the output of a test runner readable, the log is on stderr only with LOG_FORMAT.
        quiet = keep or "LOG_FORMAT" not in os.environ
        log_path = log_file or (folder / "log" if quiet else None)
        with named(log_path):
            log = stack.enter_context(log_path.open("ab")) if log_path else None
        variables = {**os.environ, **environment.variables()}
        sockets = listener.fileno(), control.fileno(), ready
        children = Children(variables, interrupt, *sockets, at_once=True, log=log)
        stack.callback(children.close)
        # gunicorn imports the service while PostgreSQL starts. Both take about the same time.
        children.start_web(app="task_service_double.wsgi:app")
        if postgres:
            postgres.start(Kept("double", lambda _url: prepare(settings)))
        else:
            prepare(settings)
        interrupt.check()
        initial = InitialState(key, control_url, token)
        with connect(settings, "dev") as connection:
            initial.reset(connection)
        os.close(preparing)
        with end_of_log(log_path):
            children.wait_until_up(base_url)
        line = {
            "baseUrl": f"{base_url}/api",
            **initial.describe(),
            "databaseUrl": url,
            "pid": os.getpid(),
            "version": version("task-meeting-workspace-service"),
        }
        if json_file:
            stack.callback(json_file.unlink, missing_ok=True)
            with named(json_file):
                write(json_file, json.dumps(line))
        if keep:
            silence(log_path or folder / "log")
        first.print(json.dumps(line))
        with end_of_log(None if keep else log_path):
            children.wait()


def set_environment(listener: socket.socket, database_url: str, key: str) -> str:
    """Put the service's settings into the environment, and return the URL that it will have."""
    port = listener.getsockname()[1]
    os.environ.update(
        DATABASE_URL=conninfo.make_conninfo(database_url, options=SEARCH_PATH),
        HOST="127.0.0.1",
        PORT=str(port),
        WEB_CONCURRENCY="1",
        WEBHOOK_KEY=key,
        WEBHOOK_ALLOW=",".join(filter(None, (LOOPBACK, os.environ.get("WEBHOOK_ALLOW")))),
    )
    # Tests may block some threads on purpose.
    os.environ.setdefault("WEB_THREADS", "16")
    return f"http://127.0.0.1:{port}"


@contextmanager
def end_of_log(log: Path | None) -> Iterator[None]:
    """If the block fails, print the last lines of the log, to which its error refers."""
    try:
        yield
    except click.ClickException:
        if log:
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
            click.echo("\n".join(lines[-LAST_LINES:]), err=True)
        raise


def prepare(settings: Settings) -> None:
    """Create the clock, the schema for snapshots and the tables."""
    with connect(settings, "dev") as connection:
        for name in ("create_clock", "create_now", "create_snapshots"):
            connection.run(f"double/{name}")
    migrate(settings)


@contextmanager
def named(file: Path | None) -> Iterator[None]:
    """If the block cannot write the file, let the command print why in one line."""
    try:
        yield
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror}") from None


def write(path: Path, line: str) -> None:
    """Write the line to a file atomically. Other users cannot read the file."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.touch(mode=0o600)
    unfinished.write_text(f"{line}\n", encoding="utf-8")
    unfinished.replace(path)


@contextmanager
def new_database(server: str) -> Iterator[str]:
    """Yield the URL of a new database on this server, and drop the database afterwards."""
    name = f"task_service_{token_hex(6)}"
    execute("double/create_database", server, name)
    try:
        yield conninfo.make_conninfo(server, dbname=name)
    finally:
        execute("double/drop_database", server, name)


def execute(statement: str, server: str, name: str) -> None:
    """Run the statements that ``sql/<statement>.sql`` returns, on a new connection.

    The connection is new because an idle connection may be lost while tests run.
    """
    values = {"name": name, "properties": PROPERTIES}
    with psycopg.connect(server, autocommit=True) as connection:
        for (text,) in connection.execute(STATEMENTS[statement].source, values).fetchall():
            connection.execute(text)
