"""The database rejects what the schemas reject, whoever writes the row."""

import psycopg
import pytest
from derived import settable
from world import World

from service import fields
from service.commands.load.lines import TYPES, UserRef

SAME_NAME = {"mail", "knowledge"}


def too_large_or_small(field):
    """Values that the field of a schema rejects and its column must reject too."""
    match field:
        case fields.Enum():
            return ["other", ""]
        case fields.StringList():
            return [["a@example.com"] * (field.max + 1), ["x" * (field.inner.max + 1)]]
        case fields.Timezone():
            return ["Europe/Atlantis", "UTC-with-a-name" * 10]
        case fields.Text():
            return ["x" * (field.max + 1), *(["x" * (field.min - 1)] if field.min else [])]
        case fields.Timestamp():
            return ["1899-12-31T23:59:59.999Z", "9999-01-01T00:00:00Z"]
    return []


def largest_and_smallest(field):
    """Values at the limits of a field, which its column must take too."""
    match field:
        case fields.StringList():
            items = [f"a{n}@example.com" for n in range(field.max)]
            longest = [value for value in largest_and_smallest(field.inner) if value]
            return [items, *([value] for value in longest)]
        case fields.Email():
            return [f"{'x' * 64}@{'x' * 63}.{'x' * 63}.{'x' * 61}", "a@b.co"]
        case fields.Text() if not isinstance(field, fields.Timezone):
            return ["x" * field.max, "x" * field.min]
    return []


# Ids and the names of rows have types and foreign keys in the database.
BOUNDED = [
    (kind if kind in SAME_NAME else f"{kind}s", field)
    for kind, schema in TYPES.items()
    for field in settable(schema)
    if not isinstance(field, UserRef) and field.name not in ("workspace_id", "id", "plan")
]
# Columns that no schema of a resource has.
OTHERS = [
    ("plans", "name", ""),
    ("plans", "name", "x" * 129),
    ("plans", "per_minute", 0),
    ("plans", "per_day", 0),
    ("tokens", "kind", "other"),
    ("tokens", "scope", "admin"),
    ("tokens", "name", "x" * 121),
    ("tokens", "hash", b"x" * 31),
    ("idempotency_keys", "key", ""),
    ("idempotency_keys", "key", "x" * 256),
    ("webhooks", "url", "x" * 2049),
    ("webhooks", "events", ["task.finished"]),
    ("deliveries", "state", "other"),
]


# The longest values of columns that no schema of a line has.
LARGEST = [
    ("tokens", "name", "x" * fields.MAX_NAME),
    ("webhooks", "url", "x" * fields.MAX_URL),
    ("idempotency_keys", "key", "x" * 255),
]


@pytest.fixture
def full(connection, cast):
    """One workspace with a row in every table."""
    World(connection, cast["acme"], cast["alice"]).fill("alice")
    # Only a completed meeting may have an outcome.
    connection.execute("UPDATE meetings SET status = 'completed'")


def reject(connection, table, column, value):
    with pytest.raises((psycopg.errors.CheckViolation, psycopg.errors.DataError)):
        connection.execute(f"UPDATE {table} SET {column} = %s", (value,))


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize(
    ("table", "field"), BOUNDED, ids=[f"{table} {field.name}" for table, field in BOUNDED]
)
def test_a_column_has_the_limits_of_its_field(connection, table, field):
    for value in too_large_or_small(field):
        reject(connection, table, field.name, value)
    row = f"(SELECT ctid FROM {table} LIMIT 1)"
    for value in largest_and_smallest(field):
        connection.execute(f"UPDATE {table} SET {field.name} = %s WHERE ctid = {row}", (value,))


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize(("table", "column", "value"), OTHERS)
def test_a_column_without_a_field_has_its_limits(connection, table, column, value):
    reject(connection, table, column, value)


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize(("table", "column", "value"), LARGEST)
def test_a_column_without_a_field_takes_the_longest_value_of_the_api(
    connection, table, column, value
):
    connection.execute(f"UPDATE {table} SET {column} = %s", (value,))


@pytest.mark.usefixtures("full")
def test_every_check_of_the_schema_rejects_a_row(connection):
    """The tests above, and those of dates and of outcomes, name every column that has a check."""
    rows = connection.execute(
        "SELECT DISTINCT conrelid::regclass::text AS name, attname AS column"
        " FROM pg_constraint JOIN pg_attribute ON attrelid = conrelid AND attnum = ANY (conkey)"
        " WHERE contype = 'c' AND connamespace = 'public'::regnamespace"
    ).fetchall()
    tried = {(table, field.name) for table, field in BOUNDED}
    tried |= {(table, column) for table, column, _ in OTHERS}
    elsewhere = {("tasks", "id"), ("tasks", "parent_id")}
    missing = {(row["name"], row["column"]) for row in rows} - tried - elsewhere
    assert not missing, f"add to OTHERS in {__file__}: {sorted(missing)}"
