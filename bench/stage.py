"""The databases of the benchmark, filled by ``bench/sql``, and the names of their rows."""

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
    """The id that ``bench_id(number)`` gives in the database."""
    return str(UUID(f"{1_700_000_000_000 + number:012x}70008000000000000000"))


def token(user):
    return f"bench-{user}"


# Readers and writers have workspaces of their own: no write changes a page that is read.
READERS = [user for user in range(USERS) if user % WORKSPACES < WORKSPACES // 2]
WRITERS = [user for user in range(USERS) if user % WORKSPACES >= WORKSPACES // 2]


@contextmanager
def cluster():
    """A PostgreSQL of its own, thrown away afterwards."""
    with tempfile.TemporaryDirectory(prefix="service-bench-", ignore_cleanup_errors=True) as folder:
        # PostgreSQL runs as another user when this one is root.
        os.chmod(folder, 0o711)  # noqa: S103
        postgres = embedded.start(folder)
        try:
            yield Cluster(postgres)
        finally:
            postgres.cleanup()


class Cluster:
    """Where the databases of one run live."""

    def __init__(self, postgres):
        self.server = postgres.get_uri()
        self.pid = postgres.get_pid()
        # pgbench lies beside the server that runs.
        self.bin = Path(f"/proc/{self.pid}/exe").resolve().parent

    def database(self, name, tasks):
        """A new database with so many tasks, migrated and settled; returns its URL."""
        with psycopg.connect(self.server, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        url = psycopg.conninfo.make_conninfo(self.server, dbname=name)
        migrate(Settings.read({"DATABASE_URL": url}))
        sizes = {"workspaces": WORKSPACES, "users": USERS, "tasks": tasks}
        # As a replica, so without triggers and foreign keys: a million rows in seconds.
        options = "-c session_replication_role=replica"
        with psycopg.connect(url, autocommit=True, options=options) as connection:
            for step in (
                *("functions", "plans", "workspaces", "users", "members", "tokens"),
                *("tasks", "settle", "checkpoint"),
            ):
                run(connection, step, sizes)
        return url


def run(connection, name, sizes):
    text = (SQL / f"{name}.sql").read_text(encoding="utf-8")
    return connection.execute(text, sizes if "%(" in text else None)
