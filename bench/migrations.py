"""``python -m bench.migrations``: what requests notice of each kind of migration.

A copy of the service gets one migration after the other, in the ways that CONTRIBUTING names, on a
database of its own with many tasks. Meanwhile clients send requests of every kind at a steady rate.
The table has a row for each migration.
"""

import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from random import Random
from threading import Event, Lock, Thread
from time import monotonic, sleep
from typing import NamedTuple

import click
import psycopg

from bench.cases import NEW
from bench.servers import ROOT, gunicorn
from bench.stage import WORKSPACES, database, row_id

CLIENTS = 32
# Seconds before and after each migration whose requests count, too.
MARGIN = 3

WITHOUT = "-- migrate: without a transaction\n"
CHECK = "estimate must be at most 1000"
BACKFILL = """-- migrate: in batches
-- left: SELECT count(*) FROM tasks WHERE estimate IS NULL
UPDATE tasks
   SET estimate = 1
 WHERE (workspace_id, id) IN (
           SELECT workspace_id, id FROM tasks WHERE estimate IS NULL LIMIT 5000
       );
"""


def resource():
    """Return the statements that add the new column to the documents of tasks."""
    text = (ROOT / "sql/schema/0003-tasks.sql").read_text(encoding="utf-8")
    (members,) = re.findall(r"(?ms)^CREATE TYPE task_document AS \((.*?)\n\);", text)
    (function,) = re.findall(r"(?ms)^CREATE (FUNCTION task_json.*?\n\$\$;)", text)
    function = function.replace(
        "task.version\n", "task.version,\n                   task.estimate\n"
    )
    function = function.replace("::task_document", "::task_document_2")
    return (
        f'CREATE TYPE task_document_2 AS ({members},\n    "estimate" integer\n);\n'
        f"CREATE OR REPLACE {function}\n"
    )


# The migrations, in their order: the words of the table, and the file.
MIGRATIONS = (
    ("a column", "ALTER TABLE tasks ADD COLUMN estimate integer;"),
    ("another member of tasks: a new type, `task_json`", resource()),
    (
        "a CHECK, `NOT VALID`",
        f'ALTER TABLE tasks ADD CONSTRAINT "{CHECK}" CHECK (estimate <= 1000) NOT VALID;',
    ),
    ("its `VALIDATE CONSTRAINT`", f'{WITHOUT}ALTER TABLE tasks VALIDATE CONSTRAINT "{CHECK}";'),
    ("new values in all rows", BACKFILL),
    (
        "an index of all rows",
        f"{WITHOUT}CREATE INDEX CONCURRENTLY IF NOT EXISTS tasks_by_estimate"
        " ON tasks (workspace_id, estimate, id);",
    ),
)


MEETING = {
    "title": "Weekly",
    "startTime": "2036-05-05T09:00:00Z",
    "endTime": "2036-05-05T10:00:00Z",
}


def visits(user, tasks, random):
    """Yield the requests of one user without end; the caller sends back the JSON of a response."""
    workspace = row_id(user % WORKSPACES)
    page = yield "GET", "/api/events", None
    cursor = page.get("nextCursor")
    lists = ["/api/tasks", "/api/tasks?status=todo&priority=high", "/api/tasks?sort=dueDate"]
    lists += ["/api/tasks?q=notes", "/api/meetings", "/api/workspaces", "/api/me", "/api/mail"]
    lists += [f"/api/workspaces/{workspace}/members", "/api/knowledge", "/api/ai/suggestions"]
    # Counting the million tasks of workspace 0 would take longer than a request may.
    lists += ["/api/dashboard/stats" if user % WORKSPACES else "/api/tasks", "/healthz"]
    while True:
        # An old task of this workspace, which the migrations change as well.
        number = user % WORKSPACES + WORKSPACES * random.randrange(tasks // 2 // WORKSPACES)
        old = f"/api/tasks/{row_id(2 * number)}"
        match random.randrange(5):
            case 0:
                yield "GET", old, None
                yield "PATCH", old, {"title": f"Another title, number {random.random()}"}
            case 1:
                path, body = random.choice([("/api/tasks", NEW), ("/api/meetings", MEETING)])
                made = yield "POST", path, body
                if "id" in made:
                    yield "GET", f"{path}/{made['id']}", None
                    yield "PATCH", f"{path}/{made['id']}", {"title": "Renamed"}
                    yield "DELETE", f"{path}/{made['id']}", None
            case 2 if cursor:
                page = yield "GET", f"/api/events?after={cursor}", None
                cursor = page.get("nextCursor", cursor)
            case _:
                yield "GET", random.choice(lists), None


class Reply(NamedTuple):
    kind: str
    began: float
    seconds: float
    # Empty if the response is as it should be.
    fault: str


class Load:
    """Clients that together send requests of every kind at a steady rate."""

    def __init__(self, port, tasks, rate):
        self.port, self.tasks, self.interval = port, tasks, CLIENTS / rate
        self.replies, self.errors = [], []
        self._stop, self._lock = Event(), Lock()
        self._threads = [Thread(target=self._run, args=(user,)) for user in range(CLIENTS)]

    @contextmanager
    def running(self):
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in self._threads:
                thread.join()
        if self.errors:
            raise self.errors[0]

    def _run(self, user):
        try:
            self._visit(user)
        except Exception as error:
            self.errors.append(error)

    def _visit(self, user):
        requests = visits(user, self.tasks, Random(user))  # noqa: S311
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        answer = None
        due = monotonic() + user * self.interval / CLIENTS
        while not self._stop.wait(max(0.0, due - monotonic())):
            # A client whose request took long leaves out the requests that it has missed.
            due = max(due + self.interval, monotonic())
            answer = self._send(connection, user, *requests.send(answer))
        connection.close()

    def _send(self, connection, user, method, path, body):
        headers = {"Authorization": f"Bearer bench-{user}", "Content-Type": "application/json"}
        kind = f"{method} {re.sub('[0-9a-f-]{36}', 'ID', path).partition('?')[0]}"
        began, fault, answer = monotonic(), "", {}
        try:
            connection.request(method, path, json.dumps(body) if body else None, headers)
            response = connection.getresponse()
            answer = json.loads(response.read() or b"{}")
            if response.status >= 300:
                fault = f"{response.status} {answer.get('message')}"
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            fault = f"no response: {error!r}"
        with self._lock:
            self.replies.append(Reply(kind, began, monotonic() - began, fault))
        return answer if isinstance(answer, dict) else {}

    def between(self, began, ended):
        return [reply for reply in self.replies.copy() if began <= reply.began <= ended]


class Stage:
    """A database under load, and a copy of the service that gets one migration after the other."""

    def __init__(self, url, load, folder, say):
        self.url, self.load, self.folder, self.say = url, load, Path(folder), say
        for name in ("service", "sql"):
            shutil.copytree(ROOT / name, self.folder / name, symlinks=True)

    def measure(self, words, text=None):
        """Apply a migration; return the row of the table. Without a text, nothing is pending."""
        kind = ""
        if text:
            number = 9000 + len(list(self.folder.glob("sql/schema/9*.sql")))
            (self.folder / f"sql/schema/{number}-bench.sql").write_text(text, encoding="utf-8")
            first, _, _ = text.partition("\n")
            kind = first.removeprefix("-- migrate: ") if first[:2] == "--" else "in a transaction"
        sleep(2 * MARGIN)
        before, began = self.sizes(), monotonic()
        command = [sys.executable, "-m", "service", "migrate"]
        environment = {**os.environ, "DATABASE_URL": self.url}
        subprocess.run(  # noqa: S603
            command, cwd=self.folder, env=environment, check=True, stdout=subprocess.DEVNULL
        )
        ended, after = monotonic(), self.sizes()
        # Requests that waited for the migration end after it.
        sleep(2 * MARGIN)
        grown, wal = (self.megabytes(old, new) for old, new in zip(before, after, strict=True))
        seconds = f"{ended - began:.1f}"
        return self.row(words, kind, seconds, began - MARGIN, ended + MARGIN, grown, wal)

    def row(self, words, kind, seconds, began, ended, grown="", wal=""):
        """Return the row of the table for the requests that began within this time."""
        replies = self.load.between(began, ended)
        faults = Counter(f"{reply.kind}: {reply.fault}" for reply in replies if reply.fault)
        for fault, number in faults.items():
            self.say(f"{words}: {number} of {fault}")
        longest = max(replies, key=lambda reply: reply.seconds)
        kinds = len({reply.kind for reply in replies})
        self.say(f"{words}: {kinds} kinds of requests, the longest was {longest.kind}")
        cells = (words, kind, seconds, len(replies), faults.total(), f"{longest.seconds:.2f}")
        line = f"| {' | '.join(map(str, (*cells, grown, wal)))} |"
        self.say(line)
        return line

    def sizes(self):
        with psycopg.connect(self.url) as connection:
            return connection.execute(
                "SELECT pg_total_relation_size('tasks'), (pg_current_wal_lsn() - '0/0')::bigint"
            ).fetchone()

    @staticmethod
    def megabytes(before, after):
        return f"{(after - before) / 1e6:,.0f} MB".replace(",", " ")


@click.command(context_settings={"show_default": True})
@click.option("--tasks", type=click.IntRange(4000, 10_000_000), default=200_000)
@click.option("--rate", type=click.IntRange(1, 1000), default=16, help="Requests per second.")
def main(tasks, rate):
    """What requests notice of each kind of migration, on a table of tasks of this size."""

    def say(text):
        click.echo(text, err=True)

    say(f"seeding {tasks:,} tasks")
    with (
        tempfile.TemporaryDirectory(prefix="service-migrations-") as folder,
        database(tasks) as (url, _),
        gunicorn(url) as (port, _),
    ):
        load = Load(port, tasks, rate)
        stage = Stage(url, load, folder, say)
        with psycopg.connect(url) as connection:
            version = connection.info.parameter_status("server_version")
        lines = [
            "| migration | runs | seconds | requests | refused | longest | table | WAL |",
            "|---|---|" + "--:|" * 6,
        ]
        average = os.getloadavg()[0]
        with load.running():
            # The clients begin, and the processes warm up.
            sleep(30)
            began = monotonic()
            sleep(60)
            lines.append(stage.row("none, for a minute", "", "", began, monotonic()))
            lines.append(stage.measure("the command, without a migration"))
            for words, text in MIGRATIONS:
                lines.append(stage.measure(words, text))
        after = os.getloadavg()[0]
    click.echo("\n".join(lines))
    click.echo(f"\n{tasks:,} tasks, {rate} requests a second, PostgreSQL {version}")
    click.echo(f"{os.cpu_count()} cores; load average before {average:.1f}, after {after:.1f}")


if __name__ == "__main__":
    main(prog_name="python -m bench.migrations")
