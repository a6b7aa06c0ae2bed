"""The statements with which ``load`` inserts lines."""

import uuid

import psycopg
import pytest
from support.receivers import subscribe
from support.rows import insert
from support.statements import URL, run


def test_load_inserts_the_lines_of_each_type_in_the_order_of_the_file(connection, cast):
    """The lines lack columns of later releases, as those of `load` of an older release do."""
    lines = [
        {"line": line, "workspace_id": cast["acme"], "title": f"Line {line}", "kind": "k",
         "version": 1, "status": "pending", "tags": [], "content": "", "priority": "low",
         "start_time": "2026-01-01T00:00Z", "end_time": "2026-01-01T01:00Z", "attendees": [],
         "created_by": cast["alice"], "user_id": cast["alice"], "sender": "a@example.com",
         "recipients": [], "subject": f"Line {line}", "snippet": "", "read": False,
         "received_at": "2026-01-01T00:00Z", "name": f"Line {line}", "slug": f"line-{line}",
         "plan": "Team", "timezone": "UTC", "email": f"line{line}@example.com"}
        for line in (1, 2, 3)
    ]  # fmt: skip
    tables = {"task": "tasks", "meeting": "meetings", "suggestion": "suggestions"}
    for kind, shown in {
        "task": "title", "meeting": "title", "suggestion": "title", "knowledge": "title",
        "mail": "subject", "user": "name", "workspace": "name",
    }.items():  # fmt: skip
        table = tables.get(kind, {"user": "users", "workspace": "workspaces"}.get(kind, kind))
        values = lines
        if kind == "meeting":
            values = [{**line, "status": "scheduled"} for line in lines]
        if kind == "task":
            values = [{**line, "status": "todo"} for line in lines]
        try:
            run(connection, f"load/{kind}", rows=psycopg.types.json.Json(values))
        except psycopg.errors.NotNullViolation as error:
            pytest.fail(
                f"an older release sends no {error.diag.column_name}: coalesce() in"
                f" sql/functions/{table}.sql gives load_{table}() the default of the column"
            )
        rows = connection.execute(
            f"SELECT {shown} AS name FROM {table} WHERE {shown} LIKE 'Line%%' ORDER BY id"
        ).fetchall()
        assert [row["name"] for row in rows] == ["Line 1", "Line 2", "Line 3"], kind


def test_load_announces_pending_suggestions_in_the_order_of_ids_and_no_other_suggestion(
    connection, cast
):
    subscribe(connection, cast["acme"], URL)
    lines = [
        {"line": line, "workspace_id": cast["acme"], "kind": "k", "title": f"{line}",
         "status": status, "id": str(uuid.UUID(int=9 - line))}
        for line, status in enumerate(("pending", "accepted", "dismissed", "pending"), 1)
    ]  # fmt: skip
    run(connection, "load/suggestion", rows=psycopg.types.json.Json(lines))
    sent = connection.execute("SELECT body::json AS body FROM events ORDER BY id").fetchall()
    assert [event["body"]["data"]["title"] for event in sent] == ["4", "1"]
    for body in (event["body"] for event in sent):
        named = body["type"], body["actorId"], body["changed"]
        assert named == ("ai.suggestion.created", None, [])


def test_a_user_whom_load_adds_to_several_workspaces_works_in_the_first_of_them(connection, cast):
    id = insert(connection, "users", name="Dora", email="dora@example.com")
    lines = [
        {"line": line, "workspace_id": cast[slug], "user_id": id, "role": "member"}
        for line, slug in ((1, "globex"), (2, "acme"))
    ]
    run(connection, "load/member", rows=psycopg.types.json.Json(lines))
    user = connection.execute("SELECT * FROM users WHERE id = %s", (id,)).fetchone()
    assert str(user["active_workspace_id"]) == cast["globex"]
