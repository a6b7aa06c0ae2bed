"""flask migrate: as often as you like, by two at once, and again after it was killed."""

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from service import db

PROJECT = Path(__file__).resolve().parents[2]
FILES = sorted(path.stem for path in (db.SQL / "schema").glob("*.sql"))


@pytest.fixture
def empty(database_url):
    """The address of a new database without any schema."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(database_url, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")
        yield make_conninfo(database_url, dbname=name)
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def migrate(database_url, **settings):
    return subprocess.Popen(
        [sys.executable, "-m", "flask", "migrate"],
        cwd=PROJECT,
        env={**os.environ, "DATABASE_URL": database_url, **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def printed(process):
    """The lines on stdout of a command that went well, and said nothing else."""
    stdout, stderr = process.communicate(timeout=20)
    assert (process.returncode, stderr) == (0, "")
    return stdout.splitlines()


def shape(database_url):
    """Every column, constraint, index and function of the schema."""
    with psycopg.connect(database_url) as connection:
        return connection.execute("""
            SELECT table_name || '.' || column_name || ' ' || data_type FROM information_schema.columns
             WHERE table_schema = 'public' AND table_name NOT LIKE '%yoyo%'
             UNION ALL
            SELECT conname || pg_get_constraintdef(oid) FROM pg_constraint
             WHERE connamespace = 'public'::regnamespace AND conname NOT LIKE '%yoyo%'
             UNION ALL
            SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' AND tablename NOT LIKE '%yoyo%'
             UNION ALL
            SELECT proname || prosrc FROM pg_proc WHERE pronamespace = 'public'::regnamespace
             ORDER BY 1
        """).fetchall()


def test_it_prints_what_it_applied_and_does_nothing_the_next_time(empty, database_url):
    assert printed(migrate(empty)) == FILES
    assert shape(empty) == shape(database_url)
    assert printed(migrate(empty)) == []
    assert shape(empty) == shape(database_url)


def test_two_at_once_are_fine_and_each_file_is_applied_once(empty, database_url):
    both = [migrate(empty), migrate(empty)]
    assert sorted(line for process in both for line in printed(process)) == FILES
    assert shape(empty) == shape(database_url)


def test_one_that_was_killed_midway_can_be_repeated(empty, database_url):
    with psycopg.connect(empty) as blocker, psycopg.connect(empty, autocommit=True) as watcher:
        # An uncommitted table of the same name: the migration that makes it has to wait.
        blocker.execute("CREATE TABLE meetings ()")
        killed = migrate(empty)
        end = time.monotonic() + 15
        waiting = "SELECT pid FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))"
        while not watcher.execute(waiting, [blocker.info.backend_pid]).fetchall():
            assert killed.poll() is None
            assert time.monotonic() < end
        killed.send_signal(signal.SIGKILL)
        killed.communicate()
        # What it had finished is kept, what it was at is not.
        blocker.rollback()
        assert printed(migrate(empty)) == FILES[FILES.index("0004-meetings") :]
    assert shape(empty) == shape(database_url)
    assert printed(migrate(empty)) == []


@pytest.mark.nodatabase
@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"DATABASE_URL": ""}, "Error: DATABASE_URL is not set"),
        ({"DATABASE_URL": "rubbish"}, "Error: "),
        ({"DATABASE_URL": "host=/nowhere dbname=x"}, "Error: "),
        ({"DATABASE_URL": "host=/nowhere", "PORT": "http"}, "PORT='http': must be"),
        ({"DATABASE_URL": "host=/nowhere", "WEB_THREADS": "0"}, "WEB_THREADS='0': must be"),
    ],
)
def test_without_a_usable_database_or_setting_it_stops_and_says_why(settings, told):
    process = migrate(settings.pop("DATABASE_URL"), **settings)
    stdout, stderr = process.communicate(timeout=20)
    assert process.returncode != 0
    assert stdout == ""
    assert told in stderr
    assert "Traceback" not in stderr
