"""Insert, read and count rows without the service."""

from hashlib import sha256
from weakref import WeakSet

from psycopg.rows import tuple_row
from support.project import blocks, replaced

# An id that no row has.
UNKNOWN = "01890000-0000-7000-8000-000000000000"


SESSION = "tmw_session_alice"


TOKENS = {name: f"tmw_api_{name}" for name in ("alice", "bob", "charlie")}


def insert(connection, table, **values):
    """Insert a row without the service, and return its id as the API shows it."""
    columns, marks = ", ".join(values), ", ".join(["%s"] * len(values))
    sql = f"INSERT INTO {table} ({columns}) VALUES ({marks}) RETURNING id"
    return str(connection.execute(sql, list(values.values())).fetchone()["id"])


def insert_member(connection, workspace_id, user_id, role="member"):
    connection.execute(
        "INSERT INTO members (workspace_id, user_id, role) VALUES (%s, %s, %s)",
        (workspace_id, user_id, role),
    )


def activate(connection, workspace_id, user_id):
    connection.execute(
        "UPDATE users SET active_workspace_id = %s WHERE id = %s", (workspace_id, user_id)
    )


def insert_token(
    connection,
    user_id,
    token,
    *,
    kind="api",
    scope="write",
    expires="infinity",
    revoked=None,
    workspace_id=None,
):
    """Insert a credential whose text the test chooses; return its id."""
    row = connection.execute(
        "INSERT INTO tokens (user_id, kind, scope, hash, expires_at, revoked_at, workspace_id)"
        " VALUES (%s, %s, %s, %s, nullif(%s::timestamptz, 'infinity'), %s, %s) RETURNING id",
        (user_id, kind, scope, sha256(token.encode()).digest(), expires, revoked, workspace_id),
    ).fetchone()
    return str(row["id"])


def row_of(connection, table, id):
    """Return the row with this id and, as ``xmin``, the transaction that wrote it; or None."""
    return connection.execute(
        f"SELECT *, xmin::text AS xmin FROM {table} WHERE id = %s", (id,)
    ).fetchone()


def count(connection, table, where="true"):
    return connection.execute(f"SELECT count(*) FROM {table} WHERE {where}").fetchone()["count"]


def grants(database, role):
    """Return the SQL that gives a role the rights of running.md and revokes all others."""
    (block,) = blocks("docs/operations/running.md", "sql")
    return (
        f"REVOKE ALL ON DATABASE {database} FROM PUBLIC;"
        "REVOKE ALL ON SCHEMA public FROM PUBLIC;"
        "REVOKE ALL ON ALL FUNCTIONS IN SCHEMA public FROM PUBLIC;"
    ) + replaced(block, (" service ", f" {database} "), (" app;", f" {role};"))


# This runs before each test. It is a function, so that PostgreSQL plans its statements only once
# per connection. A rollback after each test would not do, because tests need what happens at a
# commit. Deleting these rows also deletes the rows of the other tables.
CAST = """
CREATE TEMPORARY TABLE first_plans AS TABLE plans;
CREATE FUNCTION pg_temp.restore_cast() RETURNS TABLE (name text, id text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    DELETE FROM workspaces;
    DELETE FROM users;
    DELETE FROM deleted_users;
    DELETE FROM usage;
    DELETE FROM counters;
    DELETE FROM processes;
    -- Older releases do not have this table.
    IF to_regclass('pruning_clock') IS NOT NULL THEN
        DELETE FROM pruning_clock;
    END IF;
    DELETE FROM idempotency_keys;
    -- Few tests change the plans.
    IF EXISTS (
        (TABLE plans EXCEPT TABLE first_plans) UNION (TABLE first_plans EXCEPT TABLE plans)
    ) THEN
        DELETE FROM plans;
        INSERT INTO plans TABLE first_plans;
    END IF;
    INSERT INTO workspaces (name, slug, plan)
    VALUES ('Acme', 'acme', 'Team'), ('Globex', 'globex', 'Team');
    INSERT INTO users (name, email)
    SELECT name, lower(name) || '@example.com'
      FROM unnest(ARRAY['Alice', 'Bob', 'Charlie']) AS name;
    INSERT INTO members (workspace_id, user_id, role)
    SELECT workspace.id, person.id, CASE person.name WHEN 'Bob' THEN 'member' ELSE 'owner' END
      FROM users AS person
      JOIN workspaces AS workspace
        ON workspace.slug = CASE person.name WHEN 'Charlie' THEN 'globex' ELSE 'acme' END;
    UPDATE users SET active_workspace_id = workspace_id FROM members WHERE user_id = users.id;
    INSERT INTO tokens (user_id, kind, scope, hash)
    SELECT id, 'api', 'write', sha256(convert_to('tmw_api_' || lower(name), 'UTF8')) FROM users;
    -- Each member who joined has made a new version of the workspace.
    UPDATE workspaces SET version = 1;
    RETURN QUERY
    SELECT slug, id::text FROM workspaces UNION ALL SELECT lower(name), id::text FROM users;
END $$
"""


# The connections on which the function exists.
WITH_CAST = WeakSet()


def restore_cast(connection):
    """Delete all rows, and insert three users in two workspaces; return their ids by name.

    Also restore the plans.
    """
    if connection not in WITH_CAST:
        connection.execute(CAST)
        WITH_CAST.add(connection)
    cursor = connection.cursor(row_factory=tuple_row)
    return dict(cursor.execute("SELECT name, id FROM pg_temp.restore_cast()").fetchall())
