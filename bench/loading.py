"""``task-service load`` of a file of tasks, beside a bare COPY of the same rows."""

import json
import os
import subprocess
import sys
import tempfile
from time import perf_counter

import psycopg

from bench.servers import ROOT
from bench.stage import SQL, WORKSPACES, cluster, row_id

MOMENT = "2026-03-01T09:00:00.000Z"


def rows(count):
    """The tasks as lines, for all workspaces in turn; their numbers are new."""
    for number in range(count):
        yield {
            "type": "task",
            "workspace": f"workspace-{number % WORKSPACES}",
            "id": row_id(100_000_000 + number),
            "title": f"Prepare the release notes, part {number}",
            "description": f"What changed since the last release; number {number}",
            "status": "todo",
            "priority": ("low", "medium", "high")[number % 3],
            "dueDate": MOMENT,
            "projectId": f"project-{number % 50}",
            "createdBy": "user-0@example.com",
            "createdAt": MOMENT,
        }


def loading(count, *, say):
    """Seconds and peak megabytes of the command, seconds of COPY, both on an empty table."""
    with cluster() as postgres, tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        say(f"writing {count:,} lines")
        for row in rows(count):
            file.write(json.dumps(row) + "\n")
        file.flush()
        say("task-service load")
        url = postgres.database("load", 0)
        before = perf_counter()
        command = [sys.executable, "-m", "service", "load", file.name]
        process = subprocess.Popen(  # noqa: S603
            command, cwd=ROOT, env={**os.environ, "DATABASE_URL": url}
        )
        _, status, used = os.wait4(process.pid, 0)
        if status:
            raise RuntimeError("task-service load failed; it says why above")
        loaded = perf_counter() - before
        say("COPY")
        url = postgres.database("copied", 0)
        before = perf_counter()
        copy(url, count)
        return loaded, used.ru_maxrss / 1024, perf_counter() - before


def copy(url, count):
    statement = (SQL / "copy_tasks.sql").read_text(encoding="utf-8").rstrip("; \n")
    with psycopg.connect(url) as connection, connection.cursor().copy(statement) as target:
        for number, row in enumerate(rows(count)):
            target.write_row(
                (
                    row_id(number % WORKSPACES),
                    row["id"],
                    *(row[name] for name in ("title", "description", "status", "priority")),
                    *(row["dueDate"], row["projectId"], row_id(0), MOMENT, MOMENT),
                )
            )
