"""For the tests of all folders: what tests/support/selection.py chooses, on a PostgreSQL."""

import fcntl
import os
from contextlib import closing

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from support.statements import copied_database, migrated_database

from service.commands.migrate import migrate
from service.database.pool import PROPERTIES
from service.settings import Settings

pytest_plugins = ["support.selection"]

# The database from which the others of an embedded server are copied.
MIGRATED = "migrated"


@pytest.fixture(scope="session")
def template(request, tmp_path_factory):
    """Yield the URL of a migrated database that no test uses, so that others can be copied from it.

    It is on the server of TEST_DATABASE_URL, or on an embedded one for each process. Of several
    processes, the first one makes the data of the embedded server, and the others copy them.
    """
    server = os.environ.get("TEST_DATABASE_URL")
    if server:
        try:
            psycopg.connect(server).close()
        except psycopg.Error as error:
            pytest.exit(f"TEST_DATABASE_URL: {error}", returncode=pytest.ExitCode.USAGE_ERROR)
        with migrated_database(server) as url:
            yield url
        return
    from support.selection import FOLDER

    from service.devkit.kept import Kept
    from service.devkit.postgres import Postgres

    kept = Kept("tests", make_migrated)
    # Nobody needs the data after a crash of the machine, so do not wait for the disk.
    with closing(Postgres(request.config.stash[FOLDER], durable=False)) as postgres:
        # One of several processes makes the data, unless an earlier run has kept them.
        with (tmp_path_factory.getbasetemp().parent / "postgres.lock").open("w") as lock:
            if hasattr(request.config, "workerinput"):
                fcntl.flock(lock, fcntl.LOCK_EX)
            postgres.start(kept)
            kept.wait()
        yield make_conninfo(postgres.get_uri(), dbname=MIGRATED)


def make_migrated(server):
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {MIGRATED} {PROPERTIES}")
    migrate(Settings.read({"DATABASE_URL": make_conninfo(server, dbname=MIGRATED)}))


@pytest.fixture(scope="session")
def database_url(template):
    """Yield the URL of the database that all tests of this process use."""
    with copied_database(template) as url:
        yield url
