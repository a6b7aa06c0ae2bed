"""What a migration of a later release may do without stopping requests while it runs.

squawk checks the text of the statements. To know the locks as well, the tests run the file on the
schema of the last release and read the locks that PostgreSQL then holds.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from support.releases import released_migrations

from service.commands.migrate import IN_BATCHES, WITHOUT_TRANSACTION, File
from service.database.statements import STATEMENTS, Statement, migrations

# Rules of squawk that do not fit here: `migrate` itself sets the timeouts and wraps the file in a
# transaction, and the choice of types, lengths and domains is a matter of taste.
LEFT_OUT = (
    "require-lock-timeout,require-statement-timeout,prefer-robust-stmts,prefer-bigint-over-int,"
    "prefer-bigint-over-smallint,prefer-text-field,ban-create-domain-with-constraint,"
    "prefer-identity,ban-char-field,ban-alter-domain-with-add-constraint"
)

# Lists the locks that this transaction holds on tables that it has not created itself.
LOCKS = """
    SELECT DISTINCT lock.relation::regclass::text, lock.mode
      FROM pg_locks AS lock
      JOIN pg_class AS class ON class.oid = lock.relation
     WHERE lock.pid = pg_backend_pid()
       AND class.relkind IN ('r', 'p')
       AND class.relnamespace = current_schema()::regnamespace
       AND lock.relation::regclass::text <> ALL (%s)
       AND lock.mode <> 'AccessShareLock'
     ORDER BY 1, 2
"""
# Lists the tables with their files, and the constraints of these tables that PostgreSQL has checked
# for all rows.
FILES = "SELECT oid::regclass::text, pg_relation_filenode(oid) FROM pg_class WHERE relkind = 'r'"
CHECKED = """
    SELECT conrelid::regclass::text, conname FROM pg_constraint
     WHERE convalidated AND contype IN ('c', 'f') AND conrelid <> 0
"""
TABLES = "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p')"


def squawk(path, kind):
    """Return the messages of squawk about a file."""
    # Without --config, squawk lists every folder above the current one in search of a
    # configuration, and fails if the user may not list one of them.
    config = path.with_name("squawk.toml")
    config.touch()
    program = Path(sys.executable).with_name("squawk")
    if not program.exists():
        pytest.skip("squawk is missing: its wheels need glibc 2.28 or later, or macOS")
    command = [
        program,
        *("--config", config),
        *("--reporter", "json", "--pg-version", "15", "--exclude", LEFT_OUT),
        *([] if kind else ["--assume-in-transaction"]),
        path,
    ]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not outcome.stderr, outcome.stderr
    return [found["message"] for found in json.loads(outcome.stdout)]


def faults(source, connection, folder):
    """Return a sentence for each rule that the migration breaks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(STATEMENTS, "schema/9999-new", Statement(source))
        file = File("9999-new")
    path = folder / "9999-new.sql"
    path.write_bytes(source)
    found = squawk(path, file.kind)
    if b"ALTER TYPE" in source:
        found.append(
            "ALTER TYPE fails statements that have inlined a function which casts to it: a new type"
        )
    if functions_with_a_text(source):
        found.append("the text of a function stands in sql/functions, even that of a trigger")
    if file.kind == IN_BATCHES and not file.left:
        found.append("a migration in batches counts what is left: -- left: SELECT count(*) …")
    if file.kind == IN_BATCHES and b"LIMIT" not in source:
        found.append("a migration in batches changes a limited number of rows: LIMIT")
    repeatable = b"IF NOT EXISTS" in source or b"VALIDATE CONSTRAINT" in source
    if file.kind == WITHOUT_TRANSACTION and not repeatable:
        found.append("a statement without a transaction can be repeated: IF NOT EXISTS")
    if file.kind is None:
        found += faults_of_locks(source, connection)
    return found


def functions_with_a_text(source):
    """Return whether a migration creates a function that does anything.

    A trigger or a CHECK needs a function, which therefore has to be created before the trigger or
    the CHECK.
    """
    code = re.sub(rb"--[^\n]*", b"", source)
    return b"FUNCTION" in re.sub(
        rb"EXECUTE FUNCTION"
        rb"|CREATE FUNCTION \w+\(\) RETURNS trigger\s+LANGUAGE plpgsql\s+"
        rb"AS 'BEGIN RETURN (NEW|OLD|NULL); END'"
        rb"|CREATE FUNCTION \w+\([\w ]+\) RETURNS boolean\s+LANGUAGE plpgsql[A-Z\s]+"
        rb"AS 'BEGIN RETURN true; END'",
        b"",
        code,
    )


def faults_of_locks(source, connection):
    old = {name for (name,) in connection.execute(TABLES).fetchall()}
    files, checked = (connection.execute(query).fetchall() for query in (FILES, CHECKED))
    with connection.transaction(force_rollback=True):
        connection.execute(source)
        files_after, checked_after = (
            connection.execute(query).fetchall() for query in (FILES, CHECKED)
        )
        new = [name for (name,) in connection.execute(TABLES).fetchall() if name not in old]
        locks = connection.execute(LOCKS, [new]).fetchall()
    for table, _ in {*files_after} - {*files}:
        if table in old:
            yield f"it rewrites {table}, as a column of a domain with a CHECK does"
    for table, _ in {*checked_after} - {*checked}:
        if table in old:
            yield f"it reads all rows of {table} to check them: NOT VALID, and VALIDATE in a file"
    blocked = sorted({table for table, mode in locks if mode == "AccessExclusiveLock"})
    if len(blocked) > 1:
        yield f"one transaction locks one old table, not {' and '.join(blocked)}: use a file each"
    for table, mode in locks:
        if mode == "ShareLock":
            yield f"an index on {table} blocks its writes: use a file without a transaction"
        if mode == "RowExclusiveLock":
            yield f"a change of the rows of {table} keeps them locked: use a file in batches"


@pytest.fixture
def migrated(database_url):
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


GOOD = {
    "a column and its resource": b"""
        ALTER TABLE meetings ADD COLUMN example text;
        CREATE TYPE meeting_document_99 AS ("id" uuid, "example" text);
    """,
    "a column that must not be null, with a constant default": b"""
        ALTER TABLE meetings ADD COLUMN example text NOT NULL DEFAULT 'red';
    """,
    "a constraint that is validated later": b"""
        ALTER TABLE tasks ADD CONSTRAINT "title must not be x" CHECK (title <> 'x') NOT VALID;
    """,
    "a column of a new domain": b"""
        CREATE DOMAIN task_place AS text;
        ALTER TABLE tasks ADD COLUMN place task_place;
        ALTER DOMAIN task_place ADD CONSTRAINT "place must not be x" CHECK (value <> 'x') NOT VALID;
    """,
    "its validation": b"""-- migrate: without a transaction
        ALTER TABLE tasks VALIDATE CONSTRAINT "title must not be x";
    """,
    "an index": b"""-- migrate: without a transaction
        CREATE INDEX CONCURRENTLY IF NOT EXISTS tasks_by_title ON tasks (workspace_id, title);
    """,
    "a backfill": b"""-- migrate: in batches
        UPDATE tasks SET title = title WHERE id IN (SELECT id FROM tasks LIMIT 5000);
    """.replace(b"batches\n", b"batches\n-- left: SELECT count(*) FROM tasks\n"),
    "a trigger, whose function gets its text later": b"""
        CREATE FUNCTION check_place() RETURNS trigger
        LANGUAGE plpgsql
        AS 'BEGIN RETURN NEW; END';
        CREATE TRIGGER check_place BEFORE INSERT ON tasks FOR EACH ROW
            EXECUTE FUNCTION check_place();
    """,
    "a domain, whose function gets its text later": b"""
        CREATE FUNCTION is_place(place text) RETURNS boolean
        LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
        AS 'BEGIN RETURN true; END';
        CREATE DOMAIN place AS text CHECK (is_place(value));
    """,
    "a table with an index and rows": b"""
        CREATE TABLE colours (name text PRIMARY KEY, rank integer NOT NULL);
        CREATE INDEX colours_by_rank ON colours (rank);
        INSERT INTO colours VALUES ('red', 1);
    """,
}


@pytest.mark.parametrize("source", GOOD.values(), ids=GOOD)
def test_migrations_that_the_guide_recommends_pass_the_check(source, migrated, tmp_path):
    assert faults(source, migrated, tmp_path) == []


BAD = {
    "a function": (
        b"CREATE FUNCTION one() RETURNS integer LANGUAGE sql AS 'SELECT 1';",
        "the text of a function stands in sql/functions, even that of a trigger",
    ),
    "another attribute of a type that running statements use": (
        b"ALTER TYPE meeting_document ADD ATTRIBUTE location text;",
        "ALTER TYPE fails statements that have inlined a function which casts to it: a new type",
    ),
    "an index on an old table blocks its writes": (
        b"CREATE INDEX tasks_by_title ON tasks (title);",
        "an index on tasks blocks its writes: use a file without a transaction",
    ),
    "a CHECK reads the whole table under its lock": (
        b"""ALTER TABLE tasks ADD CONSTRAINT "x" CHECK (title <> 'x');""",
        "By default new constraints require a table scan and block writes to the table while"
        " that scan occurs.",
    ),
    "a column with a CHECK reads the whole table": (
        b"ALTER TABLE tasks ADD COLUMN place text CHECK (place <> 'x');",
        "it reads all rows of tasks to check them: NOT VALID, and VALIDATE in a file",
    ),
    "a column of a domain with a CHECK rewrites the whole table": (
        b"""CREATE DOMAIN task_place AS text CHECK (value <> 'x');
        ALTER TABLE tasks ADD COLUMN place task_place;""",
        "it rewrites tasks, as a column of a domain with a CHECK does",
    ),
    "a backfill in one transaction": (
        b"UPDATE tasks SET title = 'x';",
        "a change of the rows of tasks keeps them locked: use a file in batches",
    ),
    "two old tables": (
        b"ALTER TABLE tasks ADD x text; ALTER TABLE meetings ADD x text;",
        "one transaction locks one old table, not meetings and tasks: use a file each",
    ),
    "a column that old code does not fill": (
        b"ALTER TABLE tasks ADD x text NOT NULL;",
        "Adding a new column that is `NOT NULL` and has no default value to an existing table"
        " effectively makes it required.",
    ),
    "a column that old code needs": (
        b"ALTER TABLE tasks DROP COLUMN title;",
        "Dropping a column may break existing clients.",
    ),
    "a statement that cannot be repeated": (
        b"-- migrate: without a transaction\nCREATE INDEX CONCURRENTLY x ON tasks (title);",
        "a statement without a transaction can be repeated: IF NOT EXISTS",
    ),
    "batches without an end in sight": (
        b"-- migrate: in batches\nUPDATE tasks SET title = title;",
        "a migration in batches changes a limited number of rows: LIMIT",
    ),
}


@pytest.mark.parametrize(("source", "fault"), BAD.values(), ids=BAD)
def test_the_migration_check_rejects_whatever_would_block_requests_or_break_old_code(
    source, fault, migrated, tmp_path
):
    assert fault in faults(source, migrated, tmp_path)


def unreleased():
    """Return the names of the migrations since the last release; before the first one, none."""
    released = released_migrations()
    return [name for name in migrations() if name not in released] if released else []


def test_each_migration_since_the_last_release_passes_the_check(empty, tmp_path):
    found = {}
    with psycopg.connect(empty, autocommit=True) as connection:
        for name in migrations():
            # Without the name of the statement, so that the first line names the kind.
            source = STATEMENTS[f"schema/{name}"].source.partition(b" */ ")[2]
            if name in unreleased() and (wrong := faults(source, connection, tmp_path)):
                found[name] = wrong
            connection.execute(source)
    assert found == {}
