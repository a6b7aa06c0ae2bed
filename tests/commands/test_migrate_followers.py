"""A migration in batches waits for the synchronous standby and for the WAL archive."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from click import ClickException
from faults.cluster import pair_of_servers
from faults.documents import configuration
from support import front
from support.processes import wait_until
from support.project import replaced
from support.rows import restore_cast

from service.commands.migrate import migrate
from service.database.statements import STATEMENTS, Statement, migrations
from service.settings import Settings

pytestmark = [pytest.mark.nodatabase, pytest.mark.proof]

NAME = "9999-backfill"
BACKFILL = b"""-- migrate: in batches
UPDATE users SET name = 'Changed' WHERE id IN (SELECT id FROM users WHERE name <> 'Changed' LIMIT 1)
"""


WRITE = "CREATE TABLE written (); DROP TABLE written"
ARCHIVES = "SELECT FROM pg_stat_archiver WHERE last_archived_wal IS NOT NULL"
FAILS = "SELECT FROM pg_stat_archiver WHERE last_failed_time > last_archived_time"


@pytest.fixture(scope="module")
def pair():
    with pair_of_servers() as servers:
        yield servers


@pytest.fixture
def run(pair, monkeypatch):
    """Yield a function that runs the migration in a thread; it has three users to change."""
    monkeypatch.setitem(STATEMENTS, f"schema/{NAME}", Statement(BACKFILL))
    names = [*migrations(), NAME]
    monkeypatch.setattr("service.commands.migrate.migrations", lambda: names)
    monkeypatch.setattr("service.commands.migrate.PAUSE", 0.05)
    # One segment of WAL: the current one is always still to be archived.
    monkeypatch.setattr("service.commands.migrate.BEHIND_BYTES", 16 * 1024 * 1024)
    primary, _ = pair
    with primary.connect() as connection, ThreadPoolExecutor(1) as threads:
        restore_cast(connection)
        connection.execute("DELETE FROM schema_migrations WHERE name = %s", [NAME])
        yield lambda url=primary.url: threads.submit(migrate, Settings.read({"DATABASE_URL": url}))


def said(capsys, text, running):
    """Wait until the migration prints a text to stderr."""
    seen = []

    def happened():
        seen.append(capsys.readouterr().err)
        return text in "".join(seen)

    wait_until(happened, running)


def changed(connection):
    return connection.execute("SELECT count(*) FROM users WHERE name = 'Changed'").fetchone()


def count(row):
    return next(iter(row.values())) if isinstance(row, dict) else row[0]


def test_a_migration_in_batches_waits_until_the_synchronous_standby_has_caught_up(
    pair, run, capsys, monkeypatch
):
    primary, standby = pair
    monkeypatch.setattr("service.commands.migrate.BEHIND_BYTES", 0)
    with standby.connect() as there, primary.connect() as connection:
        there.execute("SELECT pg_wal_replay_pause()")
        try:
            connection.execute(WRITE)
            running = run()
            said(capsys, "waiting: the standby standby is", running)
            assert count(changed(connection)) == 0
        finally:
            there.execute("SELECT pg_wal_replay_resume()")
        assert running.result(60) == [NAME]
        assert count(changed(connection)) == 3


def test_a_migration_in_batches_waits_until_the_archive_has_caught_up(pair, run, capsys):
    primary, _ = pair
    with primary.connect() as connection:
        connection.execute("ALTER SYSTEM SET archive_mode = on")
        connection.execute("ALTER SYSTEM SET archive_command = 'true'")
    primary.pg_ctl("stop", "-m", "fast")
    primary.start()
    primary.wait_for("standby")
    with primary.connect() as connection:
        restore_cast(connection)
        connection.execute(WRITE)
        connection.execute("SELECT pg_switch_wal()")
        wait_until(lambda: connection.execute(ARCHIVES).fetchall())
        connection.execute("ALTER SYSTEM SET archive_command = 'false'")
        connection.execute("SELECT pg_reload_conf()")
        try:
            connection.execute(WRITE)
            connection.execute("SELECT pg_switch_wal()")
            # PostgreSQL begins the next segment when it writes something.
            connection.execute(WRITE)
            wait_until(lambda: connection.execute(FAILS).fetchall())
            running = run()
            said(capsys, "waiting: the archive of WAL has ", running)
            assert count(changed(connection)) == 0
        finally:
            connection.execute("ALTER SYSTEM SET archive_command = 'true'")
            connection.execute("SELECT pg_reload_conf()")
        assert running.result(60) == [NAME]


@pytest.mark.needs("pgbouncer")
def test_a_migration_in_batches_refuses_a_connection_pooler(pair, run, readable):
    primary, _ = pair
    text = replaced(
        configuration("pgbouncer.ini"),
        ("host=10.0.0.21 port=5432", f"host=127.0.0.1 port={primary.port}"),
        ("dbname=service", "dbname=postgres user=postgres"),
        ("auth_type = scram-sha-256", "auth_type = trust"),
        ("/etc/pgbouncer", str(readable)),
        ("default_pool_size = 20", "default_pool_size = 4\nunix_socket_dir ="),
    )
    (readable / "userlist.txt").write_text('"postgres" ""\n')
    with front.pgbouncer(readable, text, primary.account) as port:
        running = run(f"postgresql://postgres@127.0.0.1:{port}/service")
        with pytest.raises(
            ClickException, match="cannot run through a connection pooler: run migrate"
        ):
            running.result(60)
