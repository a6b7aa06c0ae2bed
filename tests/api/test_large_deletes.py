"""Deleting a task with many large subtasks succeeds in time, or is 409 if its events are large."""

import pytest
from support.derived import bytes_of, large_fields, longest
from support.http import Client, error_message
from support.receivers import subscribe
from support.resources import LISTS
from support.rows import TOKENS, count, insert
from support.statements import configure, flattened

from service.api.tasks import Task

MAX_BYTES = 16 * 1024 * 1024
COLUMNS = sorted({column for name, column in large_fields() if LISTS[name].table == "tasks"})


@pytest.fixture(params=COLUMNS)
def family(request, connection, cast):
    """Return the id of a task of Alice, and how many of its subtasks one request can announce.

    The task has one subtask more than that. One field of each subtask has the maximum length.
    """
    author = {"workspace_id": cast["acme"], "created_by": cast["alice"]}
    parent = insert(connection, "tasks", title="Parent", **author)
    value = longest(Task().fields[request.param])
    number = MAX_BYTES // bytes_of(value)
    connection.execute(
        f"INSERT INTO tasks (workspace_id, title, {request.param}, parent_id, created_by)"
        " SELECT %s, 'Subtask', %s, %s, %s FROM generate_series(0, %s)",
        (cast["acme"], value, parent, cast["alice"], number),
    )
    return parent, number


def test_deleting_large_subtasks_without_a_webhook_builds_no_events_and_so_is_fast(
    build, connection, family
):
    # Building the JSON of all descriptions would take more than a second. The deletion takes a
    # tenth of a second.
    alice = Client(build(statement_timeout=1), TOKENS["alice"])
    assert alice.delete(f"/tasks/{family[0]}").status_code == 204
    assert count(connection, "tasks") == 0


@pytest.mark.slow
@pytest.mark.parametrize("heard_by", ["a webhook", "a reader of the feed"])
def test_deleting_more_subtasks_than_one_request_can_announce_gets_409_and_deletes_nothing(
    build, connection, cast, family, heard_by
):
    parent, announced = family
    alice = Client(build(statement_timeout=60), TOKENS["alice"])
    if heard_by == "a webhook":
        subscribe(connection, cast["acme"], "https://example.com/hook")
    else:
        assert alice.get("/events").status_code == 200
    rejected = alice.delete(f"/tasks/{parent}")
    assert error_message(rejected, 409).endswith("delete some of them first")
    assert (count(connection, "tasks"), count(connection, "events")) == (announced + 2, 0)
    subtask = alice.get(f"/tasks?parentId={parent}&limit=1").get_json()["data"][0]["id"]
    assert alice.delete(f"/tasks/{subtask}").status_code == 204
    assert alice.delete(f"/tasks/{parent}").status_code == 204
    assert (count(connection, "tasks"), count(connection, "events")) == (0, announced + 2)


@pytest.mark.slow
def test_deleting_more_than_10_000_small_subtasks_with_a_webhook_gets_409(alice, connection, cast):
    author = {"workspace_id": cast["acme"], "created_by": cast["alice"]}
    parent = insert(connection, "tasks", title="Parent", **author)
    connection.execute(
        "INSERT INTO tasks (workspace_id, title, parent_id, created_by)"
        " SELECT %s, 'x', %s, %s FROM generate_series(0, 10000)",
        (cast["acme"], parent, cast["alice"]),
    )
    subscribe(connection, cast["acme"], "https://example.com/hook")
    message = error_message(alice.delete(f"/tasks/{parent}"), 409)
    assert message.startswith("The task has more than 10 000 subtasks")
    assert count(connection, "tasks") == 10002


def test_the_foreign_key_of_parents_reads_few_rows_even_if_most_tasks_have_the_same_parent(
    connection, cast
):
    """PostgreSQL runs this query for each task of a DELETE."""
    parent = insert(
        connection, "tasks", workspace_id=cast["acme"], title="x", created_by=cast["alice"]
    )
    connection.execute(
        "INSERT INTO tasks (workspace_id, title, created_by, parent_id)"
        " SELECT %s, 's', %s, %s FROM generate_series(1, 2000)",
        (cast["acme"], cast["alice"], parent),
    )
    connection.execute("ANALYZE tasks")
    with connection.transaction(force_rollback=True):
        configure(connection)
        connection.execute(
            "PREPARE it AS SELECT 1 FROM ONLY tasks AS x"
            " WHERE $1 = workspace_id AND $2 = parent_id FOR KEY SHARE OF x"
        )
        explained = connection.execute("EXPLAIN (FORMAT json) EXECUTE it(NULL, NULL)").fetchone()
        connection.execute("DEALLOCATE it")
    nodes = flattened(explained["QUERY PLAN"][0])
    assert {node["Index Name"] for node in nodes if "Index Name" in node} == {"tasks_by_parent"}
