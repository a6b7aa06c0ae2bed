"""Functions and triggers of the schema, whoever writes a row."""

import uuid
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from client import insert
from receivers import subscribe


def value(connection, expression, *values):
    (result,) = connection.execute(f"SELECT {expression}", values).fetchone().values()
    return result


def test_an_id_is_a_uuid_7_of_its_time_whose_last_62_bits_are_random(connection):
    for text in ("2026-01-02T03:04:05.678901Z", "1970-01-01T00:00:00.001Z", "2500-01-01T00:00Z"):
        at = datetime.fromisoformat(text)
        ids = [value(connection, "new_id(%s)", at) for _ in range(50)]
        micros = (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        for id in ids:
            assert (id.version, id.variant) == (7, uuid.RFC_4122)
            fractions = (id.int >> 80) * 4096 + (id.int >> 64 & 0xFFF)
            assert 0 <= fractions - micros * 4096 // 1000 <= 1
        random = 2**62 - 1
        seen = [id.int & random for id in ids]
        ones, zeros = 0, 0
        for bits in seen:
            ones, zeros = ones | bits, zeros | ~bits & random
        assert (ones, zeros) == (random, random)


@pytest.mark.parametrize("table", ["tasks", "meetings", "workspaces", "webhooks"])
def test_only_a_change_makes_a_new_version(connection, cast, insert_into, table):
    if table == "webhooks":
        subscribe(connection, cast["acme"], "https://example.com/")
    elif table != "workspaces":
        insert_into(table)
    column = {"workspaces": "name", "webhooks": "url"}.get(table, "title")
    for changed, version in ((f"{column}", 1), (f"{column} || 'x'", 2), (f"{column}", 2)):
        connection.execute(f"UPDATE {table} SET {column} = {changed}")
        rows = connection.execute(f"SELECT DISTINCT version FROM {table}").fetchall()
        assert rows == [{"version": version}]
    if table == "webhooks":
        connection.execute("UPDATE webhooks SET failing_since = now()")
        assert value(connection, "version FROM webhooks") == 2


def test_only_workspaces_whose_members_change_get_a_new_version(connection, cast):
    connection.execute("DELETE FROM members WHERE user_id = %s", (cast["bob"],))
    rows = connection.execute("SELECT slug, version FROM workspaces").fetchall()
    assert {row["slug"]: row["version"] for row in rows} == {"acme": 2, "globex": 1}


@pytest.mark.parametrize(("later", "taken"), [(0, True), (1, False)])
def test_a_task_that_is_older_than_the_deactivation_keeps_its_assignee(
    connection, cast, later, taken
):
    left = datetime(2026, 1, 1, tzinfo=UTC)
    connection.execute(
        "UPDATE users SET deactivated_at = %s WHERE id IN (%s, %s)",
        (left, cast["bob"], cast["charlie"]),
    )
    task = {"workspace_id": cast["acme"], "title": "x", "created_by": cast["alice"]}
    created = left + timedelta(milliseconds=later)
    insert(connection, "tasks", **task, assignee_id=cast["alice"], created_at=created)
    if taken:
        id = insert(connection, "tasks", **task, assignee_id=cast["bob"], created_at=created)
        connection.execute("UPDATE tasks SET assignee_id = assignee_id WHERE id = %s", (id,))
        return
    with pytest.raises(psycopg.errors.CheckViolation) as caught:
        insert(connection, "tasks", **task, assignee_id=cast["bob"], created_at=created)
    assert "deactivated" in caught.value.diag.constraint_name
