"""The ways in which a migration can run: after each interruption, the next run continues."""

import os
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest
from click.testing import CliRunner
from support.processes import wait_until
from support.rows import grants, restore_cast

from service.__main__ import main
from service.commands.migrate import migrate
from service.database.statements import STATEMENTS, Statement, migrations
from service.settings import Settings

# The migrations of a later release: one for each way to run.
COLUMN = "9001-column", b"""ALTER TABLE tasks ADD COLUMN IF NOT EXISTS estimate integer;"""
INDEX = (
    "9002-index",
    b"""-- migrate: without a transaction
-- An operator may have tried CREATE INDEX CONCURRENTLY IF NOT EXISTS estimate.
CREATE INDEX CONCURRENTLY IF NOT EXISTS tasks_by_estimate ON tasks (workspace_id, estimate);""",
)
BACKFILL = (
    "9003-backfill",
    b"""-- migrate: in batches
-- left: SELECT count(*) FROM tasks WHERE estimate IS NULL
UPDATE tasks
   SET estimate = 1
 WHERE (workspace_id, id) IN (
           SELECT workspace_id, id FROM tasks WHERE estimate IS NULL ORDER BY id LIMIT 10
       );""",
)
KINDS = COLUMN, INDEX, BACKFILL
NAMES = [name for name, _ in KINDS]
BEGIN = [
    "applying 9001-column\n",
    "applying 9002-index without a transaction\n",
    "applying 9003-backfill in batches\n",
]
TASKS = 35

# Finds the process that runs the statement of a migration.
RUNNING = """
    SELECT pid FROM pg_stat_activity
     WHERE datname = current_database() AND query LIKE '%%schema/' || %s || '%%'
       AND state <> 'idle' AND pid <> pg_backend_pid()
"""
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL]


@pytest.fixture
def watcher(other):
    """Yield a connection to a migrated database with some tasks."""
    with psycopg.connect(other, autocommit=True) as connection:
        cast = restore_cast(connection)
        connection.execute(
            "INSERT INTO tasks (workspace_id, created_by, title)"
            " SELECT %s, %s, 'Task ' || number FROM generate_series(0, %s) AS number",
            [cast["acme"], cast["alice"], TASKS - 1],
        )
        yield connection


@pytest.fixture
def run(copied, other):
    """Yield a function that starts ``migrate`` of a later release as a process."""
    for name, source in KINDS:
        (copied / f"sql/schema/{name}.sql").write_bytes(source)

    started = []

    def start(*ignored):
        process = subprocess.Popen(
            [sys.executable, "-m", "service", "migrate"],
            cwd=copied,
            env={**os.environ, "DATABASE_URL": other},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A run below nohup ignores SIGHUP, and one in the background of a script ignores
            # SIGINT, as they should; these runs must get both.
            preexec_fn=lambda: [
                signal.signal(each, signal.SIG_IGN if each in ignored else signal.SIG_DFL)
                for each in SIGNALS[:3]
            ],
        )
        started.append(process)
        return process

    yield start
    # A test that fails may leave a run behind.
    for process in started:
        process.kill()
        process.communicate()


def finish(process):
    """Wait until a run ends; return its exit status, its lines on stdout, and its stderr."""
    out, err = process.communicate(timeout=60)
    return process.returncode, out.splitlines(), err


def estimates(watcher):
    return watcher.execute("SELECT estimate, count(*) FROM tasks GROUP BY 1 ORDER BY 1").fetchall()


def index_is_valid(watcher):
    found = watcher.execute(
        "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('tasks_by_estimate')"
    ).fetchone()
    return found and found[0]


@pytest.mark.slow
def test_a_migration_of_each_kind_is_applied_once_and_in_its_own_way(run, watcher):
    known = "SELECT id, version, updated_at FROM tasks ORDER BY id"
    before = watcher.execute(known).fetchall()
    assert finish(run()) == (0, NAMES, "".join(BEGIN))
    # For clients the objects have not changed: an ETag and a copy of a task stay valid.
    assert watcher.execute(known).fetchall() == before
    assert index_is_valid(watcher)
    assert estimates(watcher) == [(1, TASKS)]
    # Each batch of ten rows has had its own transaction.
    transactions = watcher.execute("SELECT count(DISTINCT xmin::text) FROM tasks").fetchone()
    assert transactions == (4,)
    assert finish(run()) == (0, [], "nothing to do: the schema is up to date\n")


@pytest.mark.slow
def test_an_ordinary_migration_after_one_in_batches_changes_versions_again(run, watcher, copied):
    """A connection that migrates keeps versions only in the transactions of batches."""
    name = "9004-titles"
    (copied / f"sql/schema/{name}.sql").write_bytes(b"UPDATE tasks SET title = 'New';")
    known = "SELECT id, version FROM tasks ORDER BY id"
    before = watcher.execute(known).fetchall()
    assert finish(run())[:2] == (0, [*NAMES, name])
    assert watcher.execute(known).fetchall() == [(id, version + 1) for id, version in before]


@pytest.mark.slow
def test_migrate_says_that_a_migration_begins_before_it_ends(run, watcher, copied, other):
    """A log of a pipeline would otherwise show nothing until all migrations are applied."""
    with blocked(BACKFILL[0], run, watcher, copied, other) as process:
        assert process.stderr.readline() == BEGIN[-1]
        assert process.poll() is None
    assert finish(process)[:2] == (0, [BACKFILL[0]])


@pytest.mark.slow
def test_after_a_migration_in_batches_its_table_is_vacuumed(run, watcher):
    """The batches have made PostgreSQL forget which pages are visible to all transactions.

    The test does not count the rows that an index reads from the table: where a worker of
    autovacuum has a snapshot at that moment, VACUUM leaves some pages to the next one.
    """
    vacuumed = "SELECT last_vacuum > %s FROM pg_stat_user_tables WHERE relname = 'tasks'"
    (before,) = watcher.execute("SELECT clock_timestamp()").fetchone()
    assert finish(run())[0] == 0
    assert watcher.execute(vacuumed, [before]).fetchone() == (True,)


@pytest.mark.slow
def test_a_second_run_waits_as_long_as_the_first_one_works_and_does_not_say_how_to_end_it(
    run, watcher, copied, other, monkeypatch, capsys
):
    for name, value in (("PATIENCE", 0.1), ("PAUSE", 0.1), ("WATCH_INTERVAL", 0.05)):
        monkeypatch.setattr(f"service.commands.migrate.{name}", value)
    monkeypatch.setattr("service.commands.migrate.LOCK_TIMEOUT", "200ms")
    names = [*migrations(), *NAMES]
    monkeypatch.setattr("service.commands.migrate.migrations", lambda: names)
    for name, source in KINDS:
        monkeypatch.setitem(STATEMENTS, f"schema/{name}", Statement(source))
    with (
        ThreadPoolExecutor(1) as threads,
        blocked(BACKFILL[0], run, watcher, copied, other) as first,
    ):
        second = threads.submit(migrate, Settings.read({"DATABASE_URL": other}))
        said = ""

        def has_waited_for_more_than_its_patience():
            nonlocal said
            said += capsys.readouterr().err
            return said.count("another migrate is at work: ") > 2

        wait_until(has_waited_for_more_than_its_patience, first)
        assert not second.done()
        line = rf"another migrate is at work: \S+:{first.pid} \(\S+\); this one waits until"
        assert all(re.match(line, each) for each in said.splitlines()), said
        assert "pg_terminate_backend" not in said
    assert finish(first)[:2] == (0, [BACKFILL[0]])
    assert second.result(60) == []


def test_a_role_that_does_not_own_the_table_migrates_in_batches_and_is_told_that_nobody_vacuumed(
    stranger, other, monkeypatch
):
    role, url = stranger
    name, source = (
        "9003-names",
        b"""-- migrate: in batches
UPDATE plans SET per_minute = 7 WHERE per_minute <> 7""",
    )
    names = [*migrations(), name]
    monkeypatch.setattr("service.commands.migrate.migrations", lambda: names)
    monkeypatch.setitem(STATEMENTS, f"schema/{name}", Statement(source))
    with psycopg.connect(other, autocommit=True) as owner:
        owner.execute(grants(owner.info.dbname, role))
        owner.execute(f"GRANT INSERT ON schema_migrations TO {role}")
        ran = CliRunner().invoke(main, ["migrate"], env={"DATABASE_URL": url})
        assert (ran.exit_code, ran.stdout) == (0, f"{name}\n")
        # Releases of PostgreSQL word this in their own ways.
        assert re.search('(?m)^PostgreSQL warns: .*"plans".* vacuum|vacuum "plans"', ran.stderr)
        assert owner.execute("SELECT DISTINCT per_minute FROM plans").fetchall() == [(7,)]


@pytest.mark.slow
def test_two_runs_at_the_same_time_apply_a_migration_of_each_kind_once(run, watcher):
    runs = [run(), run()]
    with ThreadPoolExecutor(2) as threads:
        outcomes = list(threads.map(finish, runs))
    assert [status for status, _, _ in outcomes] == [0, 0], outcomes
    assert sorted(name for _, names, _ in outcomes for name in names) == NAMES
    assert (index_is_valid(watcher), estimates(watcher)) == (True, [(1, TASKS)])


# By migration: the statement with which another session takes a lock that the migration waits for.
BLOCKED = {
    # An open transaction that has read the table.
    COLUMN[0]: "SELECT FROM tasks",
    # CREATE INDEX CONCURRENTLY waits for an open transaction that has written to the table.
    INDEX[0]: "UPDATE tasks SET title = 'Blocked' WHERE title = 'Task 0'",
    # A row of the third batch.
    BACKFILL[0]: "UPDATE tasks SET title = 'Blocked' WHERE title = 'Task 25'",
}


@contextmanager
def blocked(name, run, watcher, copied, other):
    """Start a run that waits for a lock within this migration; yield its process."""
    later = [copied / f"sql/schema/{each}.sql" for each in NAMES[NAMES.index(name) :]]
    for path in later:
        path.rename(path.with_suffix(".later"))
    # The earlier migrations are applied before the blocker takes its lock.
    assert finish(run())[0] == 0
    for path in later:
        path.with_suffix(".later").rename(path)
    with psycopg.connect(other) as blocker:
        blocker.execute(BLOCKED[name])
        process = run()
        waits = "SELECT FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))"
        wait_until(lambda: watcher.execute(waits, [blocker.info.backend_pid]).fetchall(), process)
        wait_until(lambda: watcher.execute(RUNNING, [name]).fetchall(), process)
        yield process
        blocker.rollback()


@pytest.mark.slow
def test_a_run_that_waits_for_the_lock_of_another_run_does_not_make_its_index_fail(
    run, watcher, copied, other
):
    """PostgreSQL takes this for a deadlock, and ends either of the two.

    CREATE INDEX CONCURRENTLY waits for the transaction of the second run, which waits for the lock
    of the first one. Here, only the first one looks for deadlocks.
    """
    with psycopg.connect(other) as second, ThreadPoolExecutor(1) as threads:
        with blocked(INDEX[0], run, watcher, copied, other) as first:
            second.execute("SET deadlock_timeout TO '1h'; SET lock_timeout TO '4s'")
            waiting = threads.submit(second.execute, STATEMENTS["migrate/lock"].source)
            waits = "SELECT FROM pg_locks WHERE pid = %s AND NOT granted"
            wait_until(lambda: watcher.execute(waits, [second.info.backend_pid]).fetchall())
        assert finish(first)[:2] == (0, [INDEX[0], BACKFILL[0]])
        with pytest.raises(psycopg.errors.LockNotAvailable):
            waiting.result(60)
    assert index_is_valid(watcher)


@pytest.mark.proof
@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize("name", NAMES)
def test_after_a_signal_ended_a_run_no_statement_is_left_and_the_next_run_goes_on(
    name, number, run, watcher, copied, other
):
    with blocked(name, run, watcher, copied, other) as process:
        process.send_signal(number)
        status, _, err = finish(process)
        if number in (signal.SIGHUP, signal.SIGKILL):
            assert (status, err.count("Error")) == (-number, 0)
        else:
            assert status == 1
            assert err.endswith(
                "Error: stopped: what is finished stays, and the next migrate continues from"
                " there\n"
            )
        # The blocker still holds its lock, so the statement cannot have finished by itself.
        wait_until(lambda: not watcher.execute(RUNNING, [name]).fetchall())
    if name == BACKFILL[0]:
        assert estimates(watcher) == [(1, 20), (None, TASKS - 20)]
    status, names, err = finish(run())
    assert (status, names[-1]) == (0, NAMES[-1])
    assert err.endswith(BEGIN[-1])
    assert (index_is_valid(watcher), estimates(watcher)) == (True, [(1, TASKS)])


@pytest.mark.slow
def test_the_statement_of_a_killed_run_ends_in_the_server_too(copied, watcher, run):
    """The statement would take ten minutes.

    PostgreSQL checks every two seconds whether its client still exists.
    """
    slow = "9000-slow"
    (copied / f"sql/schema/{slow}.sql").write_text("SELECT pg_sleep(600);")
    process = run()
    wait_until(lambda: watcher.execute(RUNNING, [slow]).fetchall(), process)
    process.kill()
    assert finish(process)[0] == -signal.SIGKILL
    wait_until(lambda: not watcher.execute(RUNNING, [slow]).fetchall())


@pytest.mark.proof
@pytest.mark.parametrize("name", NAMES)
def test_a_run_that_loses_its_connection_says_so_and_the_next_run_goes_on(
    name, run, watcher, copied, other
):
    with blocked(name, run, watcher, copied, other) as process:
        (pid,) = watcher.execute(RUNNING, [name]).fetchone()
        watcher.execute("SELECT pg_terminate_backend(%s)", [pid])
        status, _, err = finish(process)
        assert (status, err.count("Traceback")) == (1, 0), err
        assert "Error: terminating connection due to administrator command" in err
    assert finish(run())[0] == 0
    assert (index_is_valid(watcher), estimates(watcher)) == (True, [(1, TASKS)])


@pytest.mark.parametrize("command", [["migrate"], ["migrate", "--dry-run"], ["check"], ["status"]])
def test_a_migration_that_was_changed_after_it_was_applied_is_named(command, other, watcher):
    """The checksum ignores line ends, because Git on Windows may have changed them."""
    watcher.execute("UPDATE schema_migrations SET sha256 = repeat('0', 64) WHERE name LIKE '0003%'")
    outcome = CliRunner().invoke(main, command, env={"DATABASE_URL": other})
    assert outcome.exit_code == 1
    assert (
        "the database was made with another text of 0003-tasks than this release has, and a"
        " released migration never changes" in outcome.output
    )


@pytest.mark.slow
def test_migrate_refuses_a_file_with_an_unknown_way_to_run_before_it_applies_anything(
    run, copied, watcher
):
    path = copied / "sql/schema/9002-index.sql"
    path.write_text("-- migrate: concurrently\nSELECT 1;")
    before = watcher.execute("SELECT name FROM schema_migrations").fetchall()
    status, names, err = finish(run())
    assert (status, names) == (1, [])
    assert err == (
        "Error: 9002-index: the first line says '-- migrate: concurrently', but the ways to run"
        " are 'without a transaction' and 'in batches'\n"
    )
    assert watcher.execute("SELECT name FROM schema_migrations").fetchall() == before


@pytest.mark.slow
def test_a_run_that_nohup_started_goes_on_after_a_hangup(run, watcher, other):
    with psycopg.connect(other) as blocker:
        blocker.execute(BLOCKED[COLUMN[0]])
        process = run(signal.SIGHUP)
        waits = "SELECT FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))"
        wait_until(lambda: watcher.execute(waits, [blocker.info.backend_pid]).fetchall(), process)
        process.send_signal(signal.SIGHUP)
        blocker.rollback()
    status, names, _ = finish(process)
    assert (status, names) == (0, NAMES)


@pytest.mark.slow
def test_migrate_replaces_its_own_invalid_index_and_keeps_those_of_the_operator(run, watcher):
    """The operator's indexes have names that are words of the migration, or are elsewhere."""
    watcher.execute("ALTER TABLE tasks ADD COLUMN estimate integer")
    watcher.execute("CREATE SCHEMA elsewhere CREATE TABLE tasks (title text)")
    names = ["elsewhere.tasks_by_estimate", "estimate", "tasks_by_estimate", "workspace_id"]
    for name in names:
        schema, _, index = name.rpartition(".")
        watcher.execute(f"CREATE INDEX {index} ON {schema or 'public'}.tasks (title)")
    query = "UPDATE pg_index SET indisvalid = false WHERE indexrelid = ANY (%s::regclass[])"
    watcher.execute(query, [names])
    assert finish(run())[0] == 0
    assert index_is_valid(watcher)
    query = "SELECT name FROM unnest(%s::text[]) AS name WHERE to_regclass(name) IS NULL"
    assert not watcher.execute(query, [names]).fetchall()
