"""The order of rows does not depend on how they are stored in their tables."""

import re
import uuid

import pytest
from support.receivers import subscribe
from support.rows import insert, insert_member
from support.statements import URL, run

from service.database.statements import STATEMENTS
from service.web.safe_writes import ANY_VERSION


def test_deleting_a_task_announces_its_newest_subtask_first_and_the_task_last(
    connection, cast, insert_into
):
    subscribe(connection, cast["acme"], URL)
    # A task can be younger than its subtask.
    older, parent = insert_into("tasks"), insert_into("tasks")
    connection.execute("UPDATE tasks SET parent_id = %s WHERE id = %s", (parent, older))
    family = [parent, older, *(insert_into("tasks", parent_id=parent) for _ in range(2))]
    # An update moves a row to the end of its table.
    for id in (family[1], parent):
        connection.execute("UPDATE tasks SET title = 'Moved' WHERE id = %s", (id,))
    shown = connection.execute("SELECT task_json(task)::text AS json FROM tasks AS task").fetchall()
    caller = {"workspace_id": cast["acme"], "user_id": cast["alice"]}
    values = {**caller, "id": parent, "versions": ANY_VERSION}
    (deleted,) = run(connection, "tasks/delete", **values)
    sent = connection.execute(
        "SELECT id, type, body::json #>> '{data,id}' AS task, body::json ->> 'data' AS json"
        "  FROM events ORDER BY id"
    ).fetchall()
    assert [event["task"] for event in sent] == family[::-1]
    assert {event["type"] for event in sent} == {"task.deleted"}
    assert {event["json"] for event in sent} == {row["json"] for row in shown}
    assert deleted["event_ids"] == [event["id"] for event in sent]


@pytest.fixture
def reversed_rows(connection, cast):
    """Insert three rows into each table, higher ids first; return their ids, lowest first."""
    ids = {}

    def add(kind, table, number, /, **values):
        id = str(uuid.UUID(int=number))
        insert(connection, table, id=id, **values)
        ids.setdefault(kind, []).insert(0, id)
        return id

    acme, year = {"workspace_id": cast["acme"]}, "2026-01-01T00:00Z"
    connection.execute("DELETE FROM users WHERE name <> 'Charlie'")
    for number in (9, 8, 7):
        user = add("user", "users", number, name="Dora", email=f"{number}@example.com")
        insert_member(connection, cast["acme"], user)
        mine = {**acme, "user_id": user, "sender": "a@example.com", "received_at": year}
        add("mail", "mail", number, **mine)
        made = {**acme, "title": "x", "created_by": user}
        times = {"start_time": year, "end_time": "2026-01-02T00:00Z"}
        add("meeting", "meetings", number, **made, **times)
        add("knowledge", "knowledge", number, **acme, title="x")
        add("suggestion", "suggestions", number, **acme, title="x", kind="k")
        gone = add("deleted_user", "deleted_users", 40 + number)
        add("task", "tasks", 40 + number, **{**made, "created_by": gone})
    for number, parent in ((12, 49), (11, 48), (10, 47)):
        parent_id = str(uuid.UUID(int=parent))
        values = {**acme, "title": "x", "created_by": ids["deleted_user"][0]}
        add("subtask", "tasks", number, **values, parent_id=parent_id)
    connection.execute("UPDATE members SET joined_at = '2026-01-01'")
    return ids


EXPORTED = ["user", "deleted_user", "task", "meeting", "mail", "knowledge", "suggestion"]


@pytest.mark.parametrize("kind", EXPORTED)
def test_an_export_lists_rows_in_the_order_of_ids_and_tasks_before_their_subtasks(
    connection, cast, reversed_rows, kind
):
    rows = run(connection, f"export/{kind}", id=cast["acme"])
    expected = reversed_rows[kind] + (reversed_rows["subtask"] if kind == "task" else [])
    assert [row["body"]["id"] for row in rows] == expected


@pytest.mark.parametrize("name", ["export/member", "members/list", "workspaces/members"])
def test_members_are_listed_in_the_order_of_joining_and_then_of_ids(
    connection, cast, reversed_rows, name
):
    first, *others = reversed_rows["user"]
    connection.execute("UPDATE members SET joined_at = '2026-01-02' WHERE user_id = %s", (first,))
    rows = run(connection, name, id=cast["acme"], email=None, user_id=first)
    if name == "export/member":
        rows = [{"id": row["body"]["user"]} for row in rows]
    elif name == "workspaces/members":
        rows = [{"id": row["body"]["userId"]} for row in rows]
    else:
        rows = [{"id": row["user_id"]} for row in rows]
    assert [str(row["id"]) for row in rows] == [*others, first]


@pytest.mark.nodatabase
def test_each_statement_that_lists_rows_has_an_order_by():
    lists = re.compile("(?!migrate/).*/(list.*|tables|locks|waits|processes|webhooks|missing_keys)")
    listed = [name for name in STATEMENTS if lists.fullmatch(name)]
    assert [name for name in listed if b"ORDER BY" not in STATEMENTS[name].source] == []


def test_the_default_author_is_the_owner_who_joined_first(connection, cast):
    low = str(uuid.UUID(int=1))
    insert(connection, "users", id=low, name="Dora", email="dora@example.com")
    insert_member(connection, cast["acme"], low, "owner")
    connection.execute("UPDATE members SET role = 'owner', joined_at = '2026-01-02'")
    (found,) = run(connection, "workspaces/find", slugs=["acme"])
    assert str(found["owner_id"]) == low
    connection.execute(
        "UPDATE members SET joined_at = '2026-01-01' WHERE user_id = %s", (cast["bob"],)
    )
    (found,) = run(connection, "workspaces/find", slugs=["acme"])
    assert str(found["owner_id"]) == cast["bob"]
