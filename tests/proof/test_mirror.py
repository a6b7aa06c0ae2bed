"""The program docs/examples/mirror.py: its copy equals the database whatever happens."""

import json
import os
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing, contextmanager, suppress
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from threading import Event, Thread
from typing import ClassVar
from uuid import UUID, uuid4

import pytest
from support.processes import call, free_port, serving, wait_until
from support.project import PROJECT
from support.rows import TOKENS, insert_token

pytestmark = pytest.mark.proof

READER = "tmw_api_reader"
PROGRAM = PROJECT / "docs/examples/mirror.py"
TASKS, MEETINGS = 20_000, 300


@contextmanager
def mirroring(folder, port, **options):
    """Run the program with a token for Acme; which workspace Alice chooses has no effect on it."""
    variables = {"URL": f"http://127.0.0.1:{port}", "TOKEN": READER, "PAUSE": "0.05"}
    program = subprocess.Popen(
        [sys.executable, str(PROGRAM), str(folder / "copy.db")],
        env={**os.environ, **variables},
        **options,
    )
    try:
        yield program
    finally:
        program.kill()
        program.wait()


def copied(folder):
    with closing(sqlite3.connect(folder / "copy.db", timeout=60)) as copy:
        sql = "SELECT kind, id, body FROM copies WHERE kind <> 'cursor'"
        rows = copy.execute(sql).fetchall()
    return {(kind, id): json.loads(body)["version"] for kind, id, body in rows}


def stored(connection, cast):
    rows = connection.execute(
        "SELECT 'task' AS kind, id::text, version FROM tasks WHERE workspace_id = %(acme)s"
        " UNION ALL"
        " SELECT 'meeting', id::text, version FROM meetings WHERE workspace_id = %(acme)s",
        cast,
    )
    return {(row["kind"], row["id"]): row["version"] for row in rows.fetchall()}


@contextmanager
def writing(port):
    """Let Alice and Bob create, change and delete tasks and meetings until the block ends."""
    stop = Event()
    writers = [
        Thread(target=write, args=(port, TOKENS[name], stop), daemon=True)
        for name in ("alice", "bob")
    ]
    for writer in writers:
        writer.start()
    try:
        yield
    finally:
        stop.set()
        for writer in writers:
            writer.join()


def write(port, token, stop):
    times = {"startTime": "2030-01-01T10:00:00Z", "endTime": "2030-01-01T11:00:00Z"}
    series = uuid4().int >> 64
    for number in count():
        if stop.is_set():
            return
        path, more = [("/api/tasks", {}), ("/api/meetings", times)][number % 2]
        # The service stops and starts meanwhile.
        with suppress(OSError, HTTPException):
            # A task and the next meeting have the same id.
            id = str(UUID(int=series << 64 | number // 2))
            body = {"id": id, "title": "New", **more}
            status, created = call(port, "POST", path, token, body)
            if status == 201 and number % 3:
                call(port, "PATCH", f"{path}/{created['id']}", token, {"title": "Changed"})
            if status == 201 and number % 5 == 0:
                call(port, "DELETE", f"{path}/{created['id']}", token)


@pytest.mark.usefixtures("unlimited")
def test_the_copy_that_the_sync_program_keeps_equals_the_database(
    database_url, connection, cast, initech, tmp_path
):
    insert_token(connection, cast["alice"], READER, scope="read", workspace_id=cast["acme"])
    connection.execute(
        "INSERT INTO tasks (workspace_id, title, created_by)"
        " SELECT %(acme)s, 'Task ' || n, %(alice)s FROM generate_series(1, %(tasks)s) AS n",
        {**cast, "tasks": TASKS},
    )
    connection.execute(
        "INSERT INTO meetings (workspace_id, title, start_time, end_time, created_by)"
        " SELECT %(acme)s, 'Meeting', now_ms(), now_ms() + interval '1 hour', %(alice)s"
        "   FROM generate_series(1, %(meetings)s)",
        {**cast, "meetings": MEETINGS},
    )
    port = free_port()

    def equal():
        return copied(tmp_path) == stored(connection, cast)

    with serving(database_url, port=port):
        with mirroring(tmp_path, port) as reader:
            requests = "SELECT FROM usage HAVING sum(minute_count) > 20"
            wait_until(lambda: connection.execute(requests).fetchall(), reader)
        # The program was killed while it listed, so the copy has nothing of that list.
        assert copied(tmp_path) == {}
        with mirroring(tmp_path, port) as reader, writing(port):
            wait_until(lambda: len(copied(tmp_path)) > TASKS, reader, seconds=60)
    # The program already runs and waits when the service starts again.
    with mirroring(tmp_path, port) as reader, serving(database_url, port=port):
        with writing(port):
            chosen, _ = call(port, "PATCH", "/api/me", TOKENS["alice"], {"workspaceId": initech})
            assert chosen == 200
        wait_until(equal, reader, seconds=60)
        # A member who leaves changes the tasks that were assigned to them.
        connection.execute(
            "UPDATE tasks SET assignee_id = %(bob)s WHERE id IN"
            " (SELECT id FROM tasks WHERE workspace_id = %(acme)s LIMIT 50)",
            cast,
        )
        connection.execute("DELETE FROM members WHERE user_id = %(bob)s", cast)
        wait_until(
            lambda: stored(connection, cast).items() - copied(tmp_path).items() == set(),
            reader,
            seconds=60,
        )
        # The cursor is lost, as after a crash of PostgreSQL, so the program makes the copy again.
        connection.execute("TRUNCATE event_cursors")
        connection.execute(
            "UPDATE tasks SET title = 'Unheard', version = version + 1 WHERE id ="
            " (SELECT id FROM tasks WHERE workspace_id = %(acme)s LIMIT 1)",
            cast,
        )
        connection.execute(
            "DELETE FROM tasks WHERE id = (SELECT max(id::text)::uuid FROM tasks"
            "  WHERE workspace_id = %(acme)s AND title <> 'Unheard')",
            cast,
        )
        wait_until(equal, reader, seconds=60)
        # The command load makes no events for tasks, so the program makes the copy again.
        author = {"workspace": "acme", "createdBy": "alice@example.com"}
        line = json.dumps({"type": "task", "title": "Loaded", **author})
        subprocess.run(
            [sys.executable, "-m", "service", "load", "-"],
            input=f"{line}\n",
            env={**os.environ, "DATABASE_URL": database_url},
            cwd=PROJECT,
            text=True,
            check=True,
            capture_output=True,
        )
        wait_until(equal, reader, seconds=60)


class Trouble(BaseHTTPRequestHandler):
    """A service that answers each path with every kind of temporary error first."""

    PAGE = {"data": [{"id": "a", "version": 1}], "nextCursor": None}
    FEED = {"nextCursor": "1", "hasMore": False}
    GOOD = {
        "/api/me": {"workspace": {"id": "w"}},
        "/api/tasks": PAGE,
        "/api/meetings": {**PAGE, "data": []},
        "/api/events": {**FEED, "data": []},
    }
    WRONG = (429, b"{}"), (502, b"<html>"), (503, b"{}"), (504, b""), (200, b"{"), (500, b"<html>")
    seen: ClassVar[Counter] = Counter()

    def do_GET(self):
        path = self.path.partition("?")[0]
        number = self.seen[path]
        self.seen[path] += 1
        good = json.dumps(self.GOOD[path]).encode()
        status, body = [*self.WRONG, (200, good[:-9]), (200, good)][min(number, 7)]
        if path == "/api/events" and number > 9:
            status, body = 401, b'{"message": "This token is revoked"}'
        self.send_response(status)
        self.send_header("Content-Length", str(len(good if number == 6 else body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.mark.nodatabase
def test_the_sync_program_retries_temporary_errors_and_ends_with_the_message_of_any_other(tmp_path):
    with ThreadingHTTPServer(("127.0.0.1", 0), Trouble) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        with mirroring(tmp_path, server.server_port, stderr=subprocess.PIPE, text=True) as reader:
            (_, said) = reader.communicate(timeout=120)
        server.shutdown()
    assert reader.returncode == 1
    assert said.splitlines()[-1] == "This token is revoked"
    assert copied(tmp_path) == {("task", "a"): 1}
    assert {path: min(number, 8) for path, number in Trouble.seen.items()} == dict.fromkeys(
        Trouble.GOOD, 8
    )
