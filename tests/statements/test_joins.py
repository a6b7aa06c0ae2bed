"""Statements that join several tables: each row is shown with the rows that belong to it."""

import psycopg
import pytest
from support.receivers import announce, deliveries, subscribe
from support.statements import URL, run


def test_the_parent_of_a_task_is_looked_up_in_the_workspace_of_the_task(connection, insert_into):
    """``load`` may give the same id to tasks of two workspaces.

    One of them may be a subtask while the other one is not.
    """
    above = insert_into("tasks", "globex", "charlie")
    shared = insert_into("tasks", "globex", "charlie", parent_id=above)
    insert_into("tasks", id=shared)
    assert insert_into("tasks", parent_id=shared)
    below = insert_into("tasks", "globex", "charlie")
    insert_into("tasks", "globex", "charlie", parent_id=below)
    other = insert_into("tasks")
    insert_into("tasks", id=below, parent_id=other)
    with pytest.raises(psycopg.errors.CheckViolation) as caught:
        insert_into("tasks", parent_id=below)
    assert caught.value.diag.constraint_name == "parentId must not be the id of a subtask"


@pytest.fixture
def crossed(connection, cast):
    """Return the deliveries of two events to two webhooks, newest first, by webhook.

    The second webhook is disabled. One delivery of the first one has two attempts.
    """
    hooks = [subscribe(connection, cast["acme"], URL) for _ in range(2)]
    announce(connection, cast["acme"], 2)
    connection.execute("UPDATE webhooks SET disabled_at = now() WHERE id = %s", (hooks[1],))
    connection.execute(
        "UPDATE webhooks SET backoff_until = '2099-01-01T00:00Z' WHERE id = %s", (hooks[0],)
    )
    rows = {hook: [] for hook in hooks}
    for row in reversed(deliveries(connection)):
        rows[str(row["webhook_id"])].append(row)
    for number, status, at in ((2, 503, "2026-01-02"), (1, 500, "2026-01-01")):
        connection.execute(
            "INSERT INTO attempts (workspace_id, delivery_id, number, milliseconds, status, at)"
            " VALUES (%s, %s, %s, 1, %s, %s)",
            (cast["acme"], rows[hooks[0]][1]["id"], number, status, at),
        )
    return rows


NEXT = "2099-01-01T00:00:00.000Z"


def test_a_delivery_is_shown_with_its_own_event_webhook_and_attempts(connection, cast, crossed):
    everything = []
    for (hook, rows), next_at in zip(crossed.items(), (NEXT, None), strict=True):
        ours = {"webhook_id": hook, "workspace_id": cast["acme"], "user_id": None}
        page = {"after_id": None, "state": None, "limit": 9}
        listed = [row["body"] for row in run(connection, "deliveries/list", **ours, **page)]
        assert [delivery["id"] for delivery in listed] == [str(row["id"]) for row in rows]
        for delivery, row in zip(listed, rows, strict=True):
            assert delivery["eventId"] == f"evt_{row['event_id'].hex}"
            assert delivery["nextAttemptAt"] == next_at
            tried = [500, 503] if next_at and row is rows[1] else []
            assert [attempt["status"] for attempt in delivery["attempts"]] == tried
            (one,) = run(connection, "deliveries/get", **ours, id=row["id"])
            assert one["body"] == {**delivery, "body": row["body"]}
            everything.append((row["id"], row["webhook_id"], next_at, tried))
    everything.sort(reverse=True)
    found = run(connection, "deliveries/attempts", id=None, about=None, limit=9)
    assert [
        (row["id"], row["webhook_id"], row["next_attempt_at"], row["status"]) for row in found
    ] == [
        (id, hook, next_at, status)
        for id, hook, next_at, tried in everything
        for status in tried or [None]
    ]


def test_a_webhook_is_listed_with_its_deliveries_and_its_last_attempt(connection, cast, crossed):
    hooks = [*crossed]
    connection.execute(
        "UPDATE deliveries SET due_at = '2098-01-01T00:00Z' WHERE id = %s",
        (crossed[hooks[0]][0]["id"],),
    )
    connection.execute(
        "UPDATE deliveries SET state = 'failed' WHERE id = %s", (crossed[hooks[1]][0]["id"],)
    )
    rows = run(connection, "webhooks/list", workspace_id=cast["acme"], user_id=None)
    assert [row["body"]["waiting"] for row in rows] == [2, 1]
    assert [row["body"]["nextAttemptAt"] for row in rows] == [NEXT, None]
    assert [row["backoff_until"] for row in rows] == [NEXT, None]
    assert [row["last_status"] for row in rows] == ["503", None]
    assert [row["last_attempt_at"] for row in rows] == ["2026-01-02T00:00:00.000Z", None]

    hook = hooks[0]
    for row, expected in zip(crossed[hook], ((1, NEXT), (0, None)), strict=True):
        connection.execute("UPDATE deliveries SET state = 'failed' WHERE id = %s", (row["id"],))
        (shown,) = run(connection, "webhooks/get", workspace_id=cast["acme"], user_id=None, id=hook)
        assert (shown["body"]["waiting"], shown["body"]["nextAttemptAt"]) == expected
