"""The sessions, locks, rights and sizes of a server, as ``status`` reads them."""

import os
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.receivers import announce, subscribe
from support.rows import grants
from support.statements import URL, run, until_waiting

from service.database.statements import schema_objects

# Several processes may run these tests on one server.
ROLE = f"limited_{uuid.uuid4().hex[:12]}"


def test_status_lists_the_sessions_that_lock_tables_and_the_longest_lock_comes_first(
    connection, connect
):
    named, silent, writer, idle, reader = (
        connect(application_name=name) for name in ("first", "", "writer", "idle", "reader")
    )
    idle.execute("SELECT FROM plans")
    named.execute("LOCK TABLE tasks, meetings, mail IN ACCESS EXCLUSIVE MODE")
    time.sleep(0.01)
    silent.execute("LOCK TABLE knowledge IN ACCESS EXCLUSIVE MODE")
    silent.execute(f"SELECT\n   '{'x' * 100}'")
    writer.execute("LOCK TABLE plans IN EXCLUSIVE MODE")
    with ThreadPoolExecutor(1) as threads, connection.transaction(force_rollback=True):
        late = threads.submit(reader.execute, "LOCK TABLE tasks IN ACCESS EXCLUSIVE MODE")
        until_waiting(connection, late)
        connection.execute("LOCK TABLE events IN ACCESS EXCLUSIVE MODE")
        connection.execute("LOCK TABLE pg_catalog.pg_description IN ACCESS EXCLUSIVE MODE")
        found = run(connection, "status/locks")
        seen = run(connect(autocommit=True), "status/locks")
        named.rollback()
        late.result(10)
    user = connection.info.user
    assert [(row["name"], row["tables"]) for row in found] == [
        ("first", ["mail", "meetings", "tasks"]), (user, ["knowledge"]), ("writer", ["plans"]),
    ]  # fmt: skip
    assert [row["waiting"] for row in found] == [1, 0, 0]
    # The other session sees the locks of this session, except the one on a table of the catalog.
    assert ["events"] in [row["tables"] for row in seen]
    first, second, _ = found
    assert first["process"] == named.info.backend_pid
    assert first["end"] == f"SELECT pg_terminate_backend({first['process']})"
    assert first["state"] == "idle in transaction"
    assert first["seconds"] > second["seconds"] >= 0
    # The statement is shown in one line of 60 characters.
    assert second["statement"] == f"SELECT '{'x' * 52}"


def test_a_migration_describes_what_it_waits_for_even_if_its_role_may_not_see_the_statement(
    connection, connect
):
    holder, waiter = connect(application_name="holder"), connect()
    holder.execute("LOCK TABLE plans IN SHARE MODE")
    pid = holder.info.backend_pid
    with ThreadPoolExecutor(1) as threads, connect() as asking:
        running = threads.submit(waiter.execute, "LOCK TABLE plans IN ROW EXCLUSIVE MODE")
        until_waiting(connection, running)
        waits = {"pid": waiter.info.backend_pid}
        (seen,) = run(asking, "migrate/blockers", **waits)
        asking.execute(f"CREATE ROLE {ROLE}")
        asking.execute(f"SET LOCAL ROLE {ROLE}")
        (hidden,) = run(asking, "migrate/blockers", **waits)
        asking.rollback()
        holder.rollback()
        running.result(10)
    waiter.rollback()
    assert (seen["pid"], hidden["pid"]) == (pid, pid)
    told = f"process {pid} (holder, %s for "
    end = f"; to end it: SELECT pg_terminate_backend({pid})"
    for row, state in ((seen, "idle in transaction"), (hidden, "active")):
        assert row["description"].startswith(told % state)
        assert row["description"].endswith(end)
    assert "LOCK TABLE plans IN SHARE MODE" in seen["description"]


def test_the_oldest_transaction_that_status_shows_belongs_to_another_session(connect):
    asking = connect()
    asking.execute("SELECT now()")
    time.sleep(0.02)
    (row,) = run(asking, "status/server")
    assert row["oldest_transaction_seconds"] == 0
    assert row["hidden_sessions"] == 0
    other = connect()
    other.execute("SELECT now()")
    # Within a transaction, pg_stat_activity always shows what it showed first.
    asking.rollback()
    (later,) = run(asking, "status/server")
    assert later["oldest_transaction_seconds"] > 0
    # On a server of others, their connections come and go.
    if "TEST_DATABASE_URL" not in os.environ:
        assert later["connections_used"] == row["connections_used"] + 1
    settings = [
        int(asking.execute(f"SHOW {name}").fetchone()[name])
        for name in ("max_connections", "superuser_reserved_connections")
    ]
    reserved = asking.execute("SELECT current_setting('reserved_connections', true) AS n")
    allowed = settings[0] - settings[1] - int(reserved.fetchone()["n"] or 0)
    assert row["connections_allowed"] == allowed


@pytest.mark.parametrize(
    ("kind", "name", "seconds"),
    [
        ("client backend", "psql", 3600),
        ("client backend", "pg_dump", 0),
        ("autovacuum worker", "", 0),
    ],
)
def test_transactions_of_autovacuum_and_pg_dump_do_not_count_as_the_oldest_transaction(
    connection, kind, name, seconds
):
    with connection.transaction(force_rollback=True):
        # PostgreSQL finds a temporary view before the view of the catalog.
        connection.execute(
            "CREATE TEMP VIEW pg_stat_activity AS"
            " SELECT datname, 0 AS pid, now() - interval '1 hour' AS xact_start, query,"
            f" '{kind}'::text AS backend_type, '{name}'::text AS application_name"
            " FROM pg_catalog.pg_stat_activity WHERE pid = pg_backend_pid()"
        )
        (row,) = run(connection, "status/server")
    assert row["oldest_transaction_seconds"] == pytest.approx(seconds, abs=60)


# Lists the rights that the role has on objects of the schema.
RIGHTS = f"""
SELECT CASE relkind WHEN 'S' THEN 'sequence' ELSE 'table' END AS kind, relname AS name,
       oid::regclass::text AS item, privilege_type AS right
  FROM pg_class, aclexplode(relacl) AS acl
 WHERE acl.grantee = '{ROLE}'::regrole
 UNION ALL
SELECT 'function', proname, oid::regprocedure::text, privilege_type
  FROM pg_proc, aclexplode(proacl) AS acl
 WHERE acl.grantee = '{ROLE}'::regrole
 UNION ALL
SELECT 'schema', nspname, nspname, privilege_type
  FROM pg_namespace, aclexplode(nspacl) AS acl
 WHERE acl.grantee = '{ROLE}'::regrole
"""


@pytest.mark.slow
def test_status_names_each_object_on_which_the_role_lacks_a_right(connect):
    """The rights come from the catalogue, so a new kind of object is tested too."""
    still = connect()
    still.execute(f"CREATE ROLE {ROLE}")
    still.execute(grants(still.info.dbname, ROLE))
    rights = still.execute(RIGHTS).fetchall()
    assert {right["kind"] for right in rights} == {"table", "sequence", "function", "schema"}
    assert unusable(still) == []
    for right in rights:
        revoke = f"REVOKE {right['right']} ON {right['kind']} {right['item']} FROM {ROLE}"
        expected = {"kind": right["kind"], "name": right["name"], "owner": still.info.user}
        found = [item for item in unusable(still, revoke) if item["owner"]]
        if right["kind"] == "schema":
            expected["owner"] = "pg_database_owner"
        assert found == [expected], revoke
    missing = unusable(still, "ALTER SEQUENCE event_positions RENAME TO renamed")
    assert missing == [{"kind": "sequence", "name": "event_positions", "owner": None}]
    still.rollback()


def unusable(connection, change="SELECT"):
    """Return the objects that the role may not use after a change; then undo the change."""
    with connection.transaction(force_rollback=True):
        connection.execute(change)
        connection.execute(f"SET LOCAL ROLE {ROLE}")
        return run(connection, "status/unusable", **schema_objects())


def test_status_shows_the_age_of_the_oldest_rows_and_how_long_they_are_kept(connect, cast):
    still = connect()
    rows = {row["kind"]: row for row in run(still, "status/oldest", keep=3)}
    assert {kind: row["seconds"] for kind, row in rows.items()} == dict.fromkeys(rows, 0)
    kept = {kind: row["kept_seconds"] for kind, row in rows.items()}
    assert kept == {"event": 3 * 3600, "idempotency key": 24 * 3600, "usage": 48 * 3600}
    still.execute(
        "INSERT INTO events SELECT %s, new_id(), 'x', '', now() - days * interval '1 day'"
        " FROM generate_series(1, 2) AS days",
        (cast["acme"],),
    )
    still.execute(
        "INSERT INTO idempotency_keys (workspace_id, user_id, key, fingerprint, created_at)"
        " VALUES (%s, %s, 'k', '', now() - interval '3 days')",
        (cast["acme"], cast["alice"]),
    )
    still.execute(
        "INSERT INTO usage VALUES (%s, 'x', now(), 1, now() - interval '4 days', 1, true)",
        (cast["acme"],),
    )
    # An older event stays while its delivery waits.
    subscribe(still, cast["acme"], URL)
    announce(still, cast["acme"])
    still.execute(
        "UPDATE events SET created_at = now() - interval '9 days' WHERE type = 'task.created'"
    )
    days = [row["seconds"] / 86400 for row in run(still, "status/oldest", keep=3)]
    assert days == [2, 3, 4]
