"""The database of the benchmark, which ``bench/sql`` fills, and the ids of its rows."""

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import psycopg

from service.commands.migrate import migrate
from service.devkit import postgres as embedded
from service.settings import Settings

SQL = Path(__file__).with_name("sql")

WORKSPACES, USERS = 20, 200


def row_id(number):
    """Return the id that ``bench_id(number)`` returns in the database."""
    return str(UUID(f"{1_700_000_000_000 + number:012x}70008000000000000000"))


# Readers and writers use different workspaces, so that no write changes a list that is read.
READERS = [user for user in range(USERS) if user % WORKSPACES < WORKSPACES // 2]
WRITERS = [user for user in range(USERS) if user % WORKSPACES >= WORKSPACES // 2]


@contextmanager
def database(tasks, migrated=None):
    """Yield the URL and the pid of a PostgreSQL with this number of tasks; remove it afterwards.

    ``migrated`` makes the tables, by default those of this checkout.
    """
    with tempfile.TemporaryDirectory(prefix="service-bench-", ignore_cleanup_errors=True) as folder:
        # If this user is root, PostgreSQL runs as another user, who must be able to enter.
        os.chmod(folder, 0o711)  # noqa: S103
        postgres = embedded.Postgres(folder).start()
        try:
            url = postgres.get_uri()
            (migrated or create_tables)(url)
            fill(url, {"workspaces": WORKSPACES, "users": USERS, "tasks": tasks})
            yield url, postgres.get_pid()
        finally:
            postgres.close()


def create_tables(url):
    migrate(Settings.read({"DATABASE_URL": url}))


def fill(url, sizes):
    # With this setting, PostgreSQL runs no triggers and checks no foreign keys, so that inserting a
    # million rows takes only seconds.
    options = "-c session_replication_role=replica"
    with psycopg.connect(url, autocommit=True, options=options) as connection:
        for step in ("functions", "fill", "settle", "checkpoint"):
            text = (SQL / f"{step}.sql").read_text(encoding="utf-8")
            connection.execute(text, sizes if "%(" in text else None)
