"""migrate: it can be repeated, even after a kill, and two may run at the same time."""

import os
import re
import signal
import subprocess
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import psycopg
import pytest
from click import ClickException
from click.testing import CliRunner
from psycopg.conninfo import make_conninfo
from support.commands import CommandRunner
from support.http import Client
from support.processes import wait_until
from support.rows import TOKENS, restore_cast

from service.__main__ import main
from service.commands.migrate import BEHIND_BYTES, LOCK_TIMEOUT, PATIENCE, PAUSE, File
from service.commands.migrate import migrate as run_migrate
from service.database.statements import STATEMENTS, Statement, function_files, migrations
from service.settings import Settings

PROJECT = Path(__file__).resolve().parents[2]
FILES = [*migrations(), *function_files()]
UP_TO_DATE = "nothing to do: the schema is up to date\n"


def run(database_url, *options, **settings):
    """Run the command in this process, which is faster; return its outcome."""
    variables = {**settings, "DATABASE_URL": database_url}
    return CliRunner().invoke(main, ["migrate", *options], env=variables)


def apply(database_url, *options):
    """Run the command in this process; require that it succeeds, and return its lines on stdout."""
    outcome = run(database_url, *options)
    names = outcome.stdout.splitlines()
    said = "".join(map(begins, names)) if not options else ""
    assert (outcome.exit_code, outcome.stderr) == (0, said if names else UP_TO_DATE)
    return names


def begins(name):
    """Return the line that says that a migration begins."""
    kind = File(name).kind
    return f"applying {name} {kind}\n" if kind else f"applying {name}\n"


@pytest.fixture
def later(monkeypatch):
    """Return the name of a migration of a later release, which adds a column to tasks."""
    source = b"ALTER TABLE tasks ADD estimate integer NOT NULL DEFAULT 1 CHECK (estimate > 0)"
    monkeypatch.setitem(STATEMENTS, "schema/9999-later", Statement(source))
    return "9999-later"


def upgrade(monkeypatch, name):
    """Let ``migrate`` behave like the command of a release that also has this migration."""
    monkeypatch.setattr("service.commands.migrate.migrations", lambda: [*migrations(), name])


def schema(database_url):
    with psycopg.connect(database_url) as connection:
        return connection.execute("""
            SELECT table_name || '.' || column_name || ' ' || data_type
              FROM information_schema.columns
             WHERE table_schema = 'public'
             UNION ALL
            SELECT conname || pg_get_constraintdef(oid) FROM pg_constraint
             WHERE connamespace = 'public'::regnamespace
             UNION ALL
            SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'
             UNION ALL
            SELECT proname || prosrc FROM pg_proc WHERE pronamespace = 'public'::regnamespace
             ORDER BY 1
        """).fetchall()


def test_migrate_prints_the_files_that_it_applies_and_applies_each_once(empty, database_url):
    before = schema(empty)
    assert apply(empty, "--dry-run") == FILES
    assert schema(empty) == before
    assert apply(empty) == FILES
    assert schema(empty) == schema(database_url)
    assert apply(empty) == apply(empty, "--dry-run") == []
    assert schema(empty) == schema(database_url)


def test_other_commands_say_that_migrations_are_missing(empty, start):
    runner = CommandRunner(start(Settings.read({"DATABASE_URL": empty})))
    for words in (["webhook", "list", "acme"], ["token", "create", "ada@example.com"]):
        outcome = runner.invoke(args=words)
        assert outcome.exit_code == 1
        line = r'Error: relation "\w+" does not exist: run the command migrate; if .*\n'
        assert re.fullmatch(line, outcome.stderr)


@pytest.mark.slow
def test_two_runs_of_migrate_at_the_same_time_apply_each_file_once(empty, database_url):
    settings = Settings.read({"DATABASE_URL": empty})
    with ThreadPoolExecutor(2) as threads:
        applied = list(threads.map(run_migrate, [settings, settings]))
    assert sorted(name for names in applied for name in names) == FILES
    assert schema(empty) == schema(database_url)


@pytest.mark.slow
def test_a_killed_run_of_migrate_keeps_the_finished_files_and_the_next_run_applies_the_rest(
    empty, database_url
):
    with psycopg.connect(empty) as blocker, psycopg.connect(empty, autocommit=True) as watcher:
        # The migration that makes this table waits for the uncommitted table of the same name.
        blocker.execute("CREATE TABLE meetings ()")
        killed = subprocess.Popen(
            [sys.executable, "-m", "service", "migrate"],
            cwd=PROJECT,
            env={**os.environ, "DATABASE_URL": empty},
            stdout=subprocess.DEVNULL,
        )
        waiting = "SELECT FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))"
        pid = blocker.info.backend_pid
        wait_until(lambda: watcher.execute(waiting, [pid]).fetchall(), killed)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        # The finished migrations are kept. PostgreSQL has rolled back the killed migration.
        blocker.rollback()
        assert apply(empty) == FILES[FILES.index("0004-meetings") :]
    assert schema(empty) == schema(database_url)
    assert apply(empty) == []


def test_migrate_refuses_a_database_of_another_release_says_what_to_do_and_changes_nothing(empty):
    apply(empty)
    with psycopg.connect(empty) as connection:
        connection.execute(
            "UPDATE schema_migrations SET name = '0002-other' WHERE name = '0002-accounts'"
        )
    before = schema(empty)
    for option in ([], ["--dry-run"]):
        outcome = run(empty, *option)
        assert (outcome.exit_code, outcome.stdout) == (1, "")
        assert outcome.stderr == (
            "Error: the database has migrations that this release lacks (0002-other), and lacks"
            " some of this release (0002-accounts): add the files 0002-other to this release,"
            " because every release must contain all migrations that were ever released; if they"
            " belong to another product, export each workspace with the release that made the"
            " database (workspace export), and load the files into a new database\n"
        )
    assert schema(empty) == before


def said(capsys, text):
    """Wait until this process has printed the text to stderr; return the line that contains it."""
    seen, end = "", time.monotonic() + 20
    while text not in seen:
        assert time.monotonic() < end, f"the migration has not said {text!r}: {seen}"
        time.sleep(0.02)
        seen += capsys.readouterr().err
    return next(line for line in seen.splitlines(keepends=True) if text in line)


@pytest.mark.slow
def test_while_a_long_reader_blocks_migrate_requests_go_on_and_migrate_names_the_reader(
    empty, later, monkeypatch, capsys
):
    """For example, the reader is a backup, which keeps its locks until it has read all tables."""
    assert apply(empty) == FILES
    for name, value in (("LOCK_TIMEOUT", "300ms"), ("PAUSE", 0.1), ("WATCH_INTERVAL", 0.1)):
        monkeypatch.setattr(f"service.commands.migrate.{name}", value)
    upgrade(monkeypatch, later)
    with psycopg.connect(empty, autocommit=True) as other:
        # This timeout, which the database sets for each connection, must not cancel the migration.
        other.execute(f"ALTER DATABASE {other.info.dbname} SET statement_timeout = '200ms'")
        with (
            ThreadPoolExecutor(1) as threads,
            psycopg.connect(empty, application_name="backup") as reader,
        ):
            reader.execute("LOCK TABLE tasks IN ACCESS SHARE MODE")
            running = threads.submit(run_migrate, Settings.read({"DATABASE_URL": empty}))
            line = said(capsys, "waiting for")
            assert line.startswith(
                f"waiting for process {reader.info.backend_pid} (backup, idle in transaction for "
            )
            assert line.endswith(
                "LOCK TABLE tasks IN ACCESS SHARE MODE;"
                f" to end it: SELECT pg_terminate_backend({reader.info.backend_pid})\n"
            )
            # This request waits behind the migration until the migration stops waiting for a while.
            other.execute("SET statement_timeout = '60s'")
            assert other.execute("SELECT count(*) FROM tasks").fetchone() == (0,)
            assert not running.done()
            # The reader still holds its lock, and the migration does not name it again.
            time.sleep(0.5)
            reader.execute("SELECT FROM tasks")
        assert running.result() == [later]
    assert f"process {line.split()[3]} " not in capsys.readouterr().err


@pytest.mark.slow
def test_migrate_names_the_session_that_holds_its_lock_and_gives_up_after_a_while(
    empty, monkeypatch, capsys
):
    """Between two attempts, migrate waits for no lock, so requests behind it can proceed."""
    for name, value in (("LOCK_TIMEOUT", "500ms"), ("WATCH_INTERVAL", 0.1), ("PATIENCE", 0.1)):
        monkeypatch.setattr(f"service.commands.migrate.{name}", value)
    settings, pauses = Settings.read({"DATABASE_URL": empty}), []
    with psycopg.connect(empty, autocommit=True, application_name="pooled") as session:

        def pause(seconds):
            pauses.append(seconds)
            session.execute("SELECT pg_advisory_unlock_all()")

        session.execute("SELECT pg_advisory_lock(hashtextextended('task-service migrate', 0))")
        with pytest.raises(ClickException, match=r"^gave up after 0.1 s: ") as caught:
            run_migrate(settings)
        pid = session.info.backend_pid
        named = f"process {pid} (pooled, idle for "
        assert named in caught.value.message
        assert caught.value.message.endswith(f"; to end it: SELECT pg_terminate_backend({pid})")
        # migrate looks for it several times, and names it once.
        assert capsys.readouterr().err.count(named) == 1
        monkeypatch.setattr("service.commands.migrate.PATIENCE", 20)
        monkeypatch.setattr("service.commands.migrate.sleep", pause)
        assert run_migrate(settings) == FILES
    assert pauses == [PAUSE]


@pytest.mark.nodatabase
def test_the_pages_say_how_long_a_migration_waits():
    page, guide = (
        " ".join((PROJECT / name).read_text(encoding="utf-8").split())
        for name in ("docs/operations/running.md", "CONTRIBUTING.md")
    )
    assert f"They wait {LOCK_TIMEOUT.removesuffix('s')} s for a lock, then let the requests" in page
    assert f"and try again every {PAUSE} s." in page
    assert f"gives up after {PATIENCE} s " in page
    assert f"is more than {BEHIND_BYTES // 1024**2} MB behind" in guide


def write_until(client, ended):
    """Create, complete and delete tasks until the event is set, and once after; return statuses."""
    statuses, last = [], False
    while not last:
        last = ended.is_set()
        for removed in (True, False):
            created = client.post("/tasks", {"title": "Write", "projectId": "p"})
            path = f"/tasks/{created.get_json()['id']}"
            statuses += [created.status_code, client.patch(path, {"status": "done"}).status_code]
            if removed:
                statuses.append(client.delete(path).status_code)
    return statuses


def test_all_writes_succeed_while_a_later_release_migrates_the_database(
    empty, later, start, monkeypatch
):
    settings = Settings.read({"DATABASE_URL": empty})
    run_migrate(settings)
    with psycopg.connect(empty, autocommit=True) as connection:
        restore_cast(connection)
        connection.execute("UPDATE plans SET per_minute = 1000000")
        app, ended = start(settings), Event()
        with ThreadPoolExecutor(3) as threads:
            clients = [Client(app, TOKENS["alice"]) for _ in range(3)]
            writers = [threads.submit(write_until, client, ended) for client in clients]
            try:
                written = "SELECT FROM tasks OFFSET 9"
                wait_until(lambda: connection.execute(written).fetchall())
                upgrade(monkeypatch, later)
                assert run_migrate(settings) == [later]
            finally:
                ended.set()
            statuses = [status for writer in writers for status in writer.result(timeout=60)]
        assert len(statuses) > 50
        assert set(statuses) == {200, 201, 204}


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_migrate_rejects_a_database_that_is_not_utf_8_and_says_what_to_do(encoding, database_url):
    name = f"test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(database_url, autocommit=True) as server:
        server.execute(
            f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0"
        )
        url = make_conninfo(database_url, dbname=name)
        try:
            outcome = run(url)
            tables = schema(url)
        finally:
            server.execute(f"DROP DATABASE {name} WITH (FORCE)")
    assert (outcome.exit_code, outcome.stdout) == (1, "")
    assert outcome.stderr == (
        f"Error: the database has the encoding {encoding}: create another one with"
        " CREATE DATABASE name ENCODING 'UTF8' LOCALE 'C.UTF-8' TEMPLATE template0\n"
    )
    assert tables == []
