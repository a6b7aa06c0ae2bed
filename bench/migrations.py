"""``python -m bench.migrations``: what requests notice of each kind of migration.

A copy of the service gets one migration after the other, in the ways that CONTRIBUTING names, on a
database of its own with many tasks. Meanwhile clients send requests of every kind at a steady rate.
The table has a row for each migration.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from time import monotonic, sleep

import click
import psycopg

from bench.servers import ROOT, gunicorn
from bench.stage import database
from bench.upgrade import Nginx, Release, Story, two_hosts
from bench.visitors import Load

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
    paths = sorted((ROOT / "sql/schema").glob("*.sql"))
    text = "".join(path.read_text(encoding="utf-8") for path in paths)
    # The newest type.
    old, members = re.findall(r"(?ms)^CREATE TYPE (task_document\w*) AS \((.*?)\n\);", text)[-1]
    functions = (ROOT / "sql/functions/tasks.sql").read_text(encoding="utf-8")
    (function,) = re.findall(r"(?ms)^CREATE OR REPLACE FUNCTION task_json.*?\n\$\$;", functions)
    function = function.replace(
        f"\n               )::{old}\n",
        ",\n                   task.estimate\n               )::task_document_99\n",
    )
    return f'CREATE TYPE task_document_99 AS ({members},\n    "estimate" integer\n);\n{function}\n'


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

    def minute(self, words):
        """Return the row of a minute without a migration."""
        began = monotonic()
        sleep(60)
        return self.row(words, "", "", began, monotonic())

    def row(self, words, kind, seconds, began, ended, grown="", wal=""):
        """Return the row of the table for the requests that began within this time."""
        replies = self.load.between(began, ended)
        faults = Counter(f"{reply.kind}: {reply.detail}" for reply in replies if reply.fault)
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


def upgrade(name, tasks, rate, minute, say):
    """Print what requests notice of an upgrade from a release to this checkout."""
    with tempfile.TemporaryDirectory(prefix="service-upgrade-") as folder:
        folders = [Path(folder, part) for part in ("old", "nginx")]
        for part in folders:
            part.mkdir()
        old, new = Release.recorded(name, folders[0]), Release.of("this checkout", ROOT)
        say(f"seeding {tasks:,} tasks")
        with (
            database(tasks, lambda url: old.run(url, "migrate")) as (url, _),
            two_hosts(url) as hosts,
        ):
            front = Nginx(folders[1], hosts)
            for host in hosts:
                host.switch(old)
            load = Load(front.port, tasks, rate)
            story = Story(url, front, load, say)
            average = os.getloadavg()[0]
            with front.running(), load.running():
                # The clients begin, and the processes warm up.
                sleep(minute / 2)
                story.tell(old, new, minute)
            faults = [
                f"{reply.fault}: {reply.kind}: {reply.detail}"
                for reply in load.replies
                if reply.fault
            ]
            lost = [*load.lost(url)]
            wrong, updates = story.without_previous()
            found = conditions(url, average)
    click.echo("\n".join(story.lines))
    click.echo("\n".join(["", *story.notes, *faults[:20], *lost[:20]]))
    click.echo(f"of {updates} events of updates since then, {wrong} lack what was before")
    kinds = len({reply.kind for reply in load.replies})
    click.echo(
        f"\n{len(load.replies)} requests of {kinds} kinds, {len(faults)} with a fault;"
        f" {len(load.changes)} acknowledged changes of {len(load.known)} objects, {len(lost)} lost"
    )
    return found


@click.command(context_settings={"show_default": True})
@click.option("--tasks", type=click.IntRange(4000, 10_000_000), default=200_000)
@click.option("--rate", type=click.IntRange(1, 1000), default=16, help="Requests per second.")
@click.option("--upgrade-from", metavar="RELEASE", help="Show an upgrade of two hosts instead.")
@click.option("--minute", type=click.IntRange(5), default=60, help="Seconds between its steps.")
def main(tasks, rate, upgrade_from, minute):
    """What requests notice of each kind of migration, on a table of tasks of this size."""

    def say(text):
        click.echo(text, err=True)

    # End the servers and remove the files after SIGTERM, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if upgrade_from:
        version, average, after = upgrade(upgrade_from, tasks, rate, minute, say)
    else:
        version, average, after = each_kind(tasks, rate, say)
    click.echo(f"{tasks:,} tasks, {rate} requests a second, PostgreSQL {version}")
    click.echo(f"{os.cpu_count()} cores; load average before {average:.1f}, after {after:.1f}")


def conditions(url, average):
    """Return the version of PostgreSQL, and the load average before and after the measurement."""
    with psycopg.connect(url) as connection:
        version = connection.info.parameter_status("server_version")
    return version, average, os.getloadavg()[0]


def each_kind(tasks, rate, say):
    """Print what requests notice of each kind of migration."""
    say(f"seeding {tasks:,} tasks")
    with (
        tempfile.TemporaryDirectory(prefix="service-migrations-") as folder,
        database(tasks) as (url, _),
        gunicorn(url) as (port, _),
    ):
        load = Load(port, tasks, rate)
        stage = Stage(url, load, folder, say)
        lines = [
            "| migration | runs | seconds | requests | refused | longest | table | WAL |",
            "|---|---|" + "--:|" * 6,
        ]
        average = os.getloadavg()[0]
        with load.running():
            # The clients begin, and the processes warm up.
            sleep(30)
            lines.append(stage.minute("none, for a minute"))
            lines.append(stage.measure("the command, without a migration"))
            for words, text in MIGRATIONS:
                lines.append(stage.measure(words, text))
                if text == BACKFILL:
                    lines.append(stage.minute("none, for the minute after it"))
        found = conditions(url, average)
    click.echo("\n".join(lines) + "\n")
    return found


if __name__ == "__main__":
    main(prog_name="python -m bench.migrations")
