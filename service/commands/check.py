"""``task-service check``: check everything that the service needs to start."""

import os
import re
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import click
import psycopg

from service.commands.base import connect, current_settings, describe, printable
from service.commands.status import certificate, database, schema, webhooks
from service.commands.status.section import Problem, Reader
from service.database.pool import UnusableDatabase, encoding_of, fault_of_locale
from service.database.remedies import kind_of
from service.database.statements import Connection
from service.settings import InvalidSetting, Settings
from service.version import POSTGRESQL, PYTHON, numbers_of

# DEPLOY: the files of this release for a host. PLACES: where the script `install` puts the files
# that are not units of systemd.
DEPLOY = Path(__file__).parents[1] / "deploy"
UNITS = Path("/etc/systemd/system")
PLACES = {
    "task-service": "/usr/local/sbin/task-service",
    "task-service-metrics": "/usr/local/sbin/task-service-metrics",
    "10-task-service.conf": f"{UNITS}/task-service-.service.d/10-task-service.conf",
    "journald.conf": "/etc/systemd/journald.conf.d/task-service.conf",
    "nginx.conf": "/etc/nginx/conf.d/task-service.conf",
}
# If this unit is installed, systemd opens the listening socket, instead of the service.
SOCKET = UNITS / "task-service-web.socket"


class Finding(NamedTuple):
    name: str
    text: str
    problems: Sequence[Problem] = ()


@click.command("check")
@click.option(
    "--start",
    is_flag=True,
    help="Ignore problems from which a running service recovers: a database that does not answer or"
    " is read-only, a missing webhook key.",
)
def check(start: bool) -> None:
    """Prints one line per check; the line of a failed check also says what to do.

    Changes nothing.
    """
    ignored = {"tolerable", "warning"} if start else {"warning"}
    failed = False
    for name, text, problems in findings():
        prevents = any(problem.level not in ignored for problem in problems)
        word = ("ERROR " if prevents else "warning ") if problems else ""
        shown = "; ".join(map(str, problems)) or text
        click.echo(f"{name:<12}{word}{printable(shown)}")
        failed = failed or prevents
    if failed:
        raise SystemExit(1)


def findings() -> Iterator[Finding]:
    """Yield the findings in order, and stop after one that prevents the remaining checks."""
    try:
        current = current_settings()
        current.require_database()
    except InvalidSetting as error:
        yield Finding("settings", "", [Problem(str(error))])
        return
    changed = " ".join(f"{name}={value}" for name, value in Settings.changed().items())
    yield Finding("settings", f"ok: {changed}", [*without_effect()])
    if not SOCKET.exists():
        family = socket.AF_INET6 if ":" in current.host else socket.AF_INET
        try:
            socket.create_server((current.host, 0), family=family).close()
        except OSError as error:
            yield Finding("settings", "", [Problem(f"HOST={current.host!r}: {error.strerror}")])
    if files := ", ".join(map(str, of_another_release())):
        text, remedy = f"{files} not as in this release", f"as root run sh {DEPLOY}/install"
        yield Finding("files", "", [Problem(text, remedy, "warning")])
    if problems := certificate.read_certificate().problems:
        yield Finding("certificate", "", problems)
    python = ".".join(map(str, sys.version_info[:2]))
    if problem := newer("Python", python, *PYTHON):
        yield Finding("python", "", [problem])
    try:
        with connect() as connection:
            yield from of_database(connection, current)
    except UnusableDatabase as error:
        name = "encoding" if error.name == "wrong_encoding" else "connection"
        yield Finding(name, "", [Problem(str(error))])
    except psycopg.Error as error:
        # An error with FATAL means that PostgreSQL has rejected the connection. Any other error
        # means that PostgreSQL has not answered.
        waits = "FATAL" not in str(error) or kind_of(error) in ("53300", "limit", "57P03")
        text = describe(error)
        # These characters break the URL in some tools.
        if re.match("postgres(ql)?://[^:/@]*:[^/@]*[][?#][^/@]*@", current.require_database()):
            text += "; write the characters :/?#[]@% of a password as %XX, like %2F for /"
        yield Finding("connection", "", [Problem(text, level="tolerable" if waits else "error")])


def newer(program: str, version: str, *tested: str) -> Problem | None:
    """Return a warning if the version is newer than the tested versions of the program."""
    if numbers_of(version) <= numbers_of(tested[-1]):
        return None
    text = f"{program} {version} is newer than {tested[0]} to {tested[-1]}, the tested versions"
    return Problem(text, "test it, or use one of these", "warning")


def without_effect() -> Iterator[Problem]:
    """Yield a problem for each environment variable that is set but has no effect."""
    for variable, nearest in Settings.misspelled().items():
        yield Problem(f"{variable} is not a setting", f"write {nearest}", "tolerable")
    # A process with TASK_SERVICE_ENV has its own file of settings, and does not use the socket.
    if SOCKET.exists() and not os.environ.get("TASK_SERVICE_ENV"):
        for variable in sorted({"HOST", "PORT"} & set(Settings.changed())):
            address = f"ListenStream of {SOCKET} is the address"
            yield Problem(f"{variable} has no effect", address, "tolerable")


def of_another_release() -> Iterator[Path]:
    """Yield the installed files that differ from this release."""
    for path in sorted(DEPLOY.iterdir()):
        place = Path(PLACES.get(path.name, UNITS / path.name))
        # Skip what is not installed.
        with suppress(OSError):
            if place.read_bytes() != path.read_bytes():
                yield place


def of_database(connection: Connection, settings: Settings) -> Iterator[Finding]:
    reader = Reader(connection, settings)
    server, missing_keys = database.read_database(reader), webhooks.read_keys(reader)
    # Only to notice whether a function of the schema is missing: the statement calls one.
    webhooks.read_webhooks(reader)
    problems = [*server.problems, *database.read_connections(reader).problems]
    major = connection.info.server_version // 10_000
    if problem := newer("PostgreSQL", str(major), *map(str, POSTGRESQL)):
        problems.append(problem)
    yield Finding("connection", f"ok: {dict(server.lines)['database']}", problems)
    fault = fault_of_locale(connection)
    problems = [Problem(fault, level="tolerable")] if fault else []
    yield Finding("encoding", f"ok: {encoding_of(connection)}", problems)
    applied = f"ok: {reader.migrations.applied} migrations"
    yield Finding("schema", applied, schema.read_schema(reader).problems)
    yield Finding("rights", f"ok: {connection.info.user}", schema.read_rights(reader).problems)
    known = len(settings.webhook_keys)
    key = f"ok: {known}" if known else "WEBHOOK_KEY is not set: webhook events wait"
    yield Finding("key", key, missing_keys.problems)
