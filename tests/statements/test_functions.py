"""Functions and triggers of the schema, whoever writes a row."""

import uuid
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from support.rows import insert


def test_an_id_is_a_uuid_7_that_has_the_given_time_and_62_random_bits(connection):
    for text in ("2026-01-02T03:04:05.678901Z", "1970-01-01T00:00:00.001Z", "2500-01-01T00:00Z"):
        at = datetime.fromisoformat(text)
        made = "SELECT new_id(%s) AS id FROM generate_series(1, 50)"
        ids = [row["id"] for row in connection.execute(made, (at,))]
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


def test_only_workspaces_whose_members_change_get_a_new_version(connection, cast):
    connection.execute("DELETE FROM members WHERE user_id = %s", (cast["bob"],))
    rows = connection.execute("SELECT slug, version FROM workspaces").fetchall()
    assert {row["slug"]: row["version"] for row in rows} == {"acme": 2, "globex": 1}


@pytest.mark.parametrize(("later", "taken"), [(0, True), (1, False)])
def test_only_a_task_created_before_the_deactivation_may_have_a_deactivated_assignee(
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
