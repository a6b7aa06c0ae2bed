"""The migrations that name the author as the last editor of what was never changed.

Each batch has 5000 objects, and the position of the next batch is a setting of the session.
"""

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg.rows import dict_row
from support.processes import wait_until
from support.rows import restore_cast

from service.commands.migrate import migrate
from service.database.statements import STATEMENTS, migrations
from service.settings import Settings

BATCH = 5000
COLUMNS = {"tasks": "", "meetings": ", start_time, end_time"}
VALUES = {"tasks": "", "meetings": ", now(), now() + interval '1 hour'"}

each_table = pytest.mark.parametrize("table", COLUMNS)


def file_of(table):
    (name,) = (name for name in migrations() if name.endswith(f"-authors-of-{table}"))
    return name


@pytest.fixture
def released(empty, monkeypatch):
    """Yield a connection to a database with the migrations of release 1.0.0."""
    names = [name for name in migrations() if name < file_of("tasks")]
    with monkeypatch.context() as patch:
        patch.setattr("service.commands.migrate.migrations", lambda: names)
        patch.setattr("service.commands.migrate.pending_functions", lambda connection: [])
        assert migrate(Settings.read({"DATABASE_URL": empty})) == names
    with psycopg.connect(empty, autocommit=True, row_factory=dict_row) as connection:
        yield connection


def add(connection, cast, table, number, version=1, changed="0 seconds"):
    """Add this many objects by Alice, with ids in the order of insertion."""
    connection.execute(
        f"INSERT INTO {table} (workspace_id, id, title, created_by, version, created_at,"
        f" updated_at{COLUMNS[table]})"
        " SELECT %s, new_id(), 'Old', %s, %s, now_ms(), now_ms() + %s::interval"
        f" {VALUES[table]} FROM generate_series(1, %s)",
        (cast["acme"], cast["alice"], version, changed, number),
    )


def shown(connection, table):
    """Count the objects by version and by who is shown as their last editor."""
    name = "task_json" if table == "tasks" else "meeting_json"
    query = f"""
        SELECT version, {name}(item) ->> 'updatedBy' AS editor, count(*)::integer AS number
          FROM {table} AS item GROUP BY 1, 2 ORDER BY 1, 2
    """
    return [tuple(row.values()) for row in connection.execute(query)]


@pytest.mark.slow
@each_table
def test_only_objects_that_were_never_changed_get_their_author(released, empty, table):
    """The first batches have nothing to change, and must not end the run."""
    cast = restore_cast(released)
    add(released, cast, table, BATCH + 1, version=2)
    # An import set another time of the last change, and nobody knows who made the change.
    add(released, cast, table, 3, changed="1 day")
    add(released, cast, table, 2 * BATCH + 7)
    kept = f"SELECT id, version, updated_at FROM {table} ORDER BY id"
    before = released.execute(kept).fetchall()
    migrate(Settings.read({"DATABASE_URL": empty}))
    assert shown(released, table) == [
        (1, cast["alice"], 2 * BATCH + 7),
        (1, None, 3),
        (2, None, BATCH + 1),
    ]
    assert released.execute(kept).fetchall() == before
    assert released.execute("SELECT FROM events").fetchall() == []


@pytest.mark.slow
@each_table
def test_a_change_during_the_batches_keeps_its_user(released, empty, table):
    cast = restore_cast(released)
    add(released, cast, table, 3)
    waits = "SELECT FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))"
    settings = Settings.read({"DATABASE_URL": empty})
    name = file_of(table)
    migrate(settings)
    # Run the file again, as if an earlier run had been interrupted before its first batch.
    released.execute("SET service.keeps_versions TO 'on'")
    released.execute(f"UPDATE {table} SET updated_by = NULL, updated_by_version = NULL")
    released.execute("DELETE FROM schema_migrations WHERE name = %s", (name,))
    with psycopg.connect(empty) as writer, ThreadPoolExecutor(1) as threads:
        writer.execute(
            f"UPDATE {table} SET title = 'New', version = 2, updated_by = %s,"
            f" updated_by_version = 2 WHERE id = (SELECT id FROM {table} ORDER BY id LIMIT 1)",
            (cast["bob"],),
        )
        running = threads.submit(migrate, settings)
        wait_until(lambda: released.execute(waits, (writer.info.backend_pid,)).fetchall())
        writer.commit()
        assert running.result(30) == [name]
    assert shown(released, table) == [(1, cast["alice"], 2), (2, cast["bob"], 1)]


@pytest.mark.slow
@each_table
def test_no_batch_searches_the_whole_table(released, empty, table):
    """PostgreSQL reads a batch by the primary key, even without statistics of the new columns."""
    cast = restore_cast(released)
    add(released, cast, table, 8 * BATCH)
    released.execute(f"ANALYZE {table}")
    migrate(Settings.read({"DATABASE_URL": empty}))
    source = STATEMENTS[f"schema/{file_of(table)}"].source.decode().partition(" */ ")[2]
    # The comments come first, and EXPLAIN stands before the statement.
    plan = released.execute(source.replace("\nWITH", "\nEXPLAIN WITH", 1)).fetchall()
    text = "\n".join(line["QUERY PLAN"] for line in plan)
    assert f"Seq Scan on {table}" not in text, text
    assert f"Index Scan using {table}_pkey" in text
    assert "Tid Scan" in text
