"""DELETE of a task with many large subtasks succeeds in time, or is 409 if its events are large."""

import pytest
from client import TOKENS, Client, count, error_message, insert
from receivers import subscribe

SUBTASK = 65_536
MAX_SUBTASKS = 16 * 1024 * 1024 // SUBTASK


@pytest.fixture
def parent(connection, cast):
    """Return the id of a task of Alice with one subtask more than one request can announce."""
    author = {"workspace_id": cast["acme"], "created_by": cast["alice"]}
    parent = insert(connection, "tasks", title="Parent", **author)
    connection.execute(
        "INSERT INTO tasks (workspace_id, title, description, parent_id, created_by)"
        " SELECT %s, 'Subtask', repeat(chr(1), %s), %s, %s FROM generate_series(0, %s)",
        (cast["acme"], SUBTASK, parent, cast["alice"], MAX_SUBTASKS),
    )
    return parent


def test_without_a_webhook_no_event_is_made_of_large_subtasks(build, connection, parent):
    # To make JSON of all subtasks takes more than a second.
    alice = Client(build(statement_timeout=0.5), TOKENS["alice"])
    assert alice.delete(f"/tasks/{parent}").status_code == 204
    assert count(connection, "tasks") == 0


@pytest.mark.parametrize("heard_by", ["a webhook", "a reader of the feed"])
def test_subtasks_that_are_too_large_to_announce_are_409_and_stay(
    build, connection, cast, parent, heard_by
):
    alice = Client(build(statement_timeout=60), TOKENS["alice"])
    if heard_by == "a webhook":
        subscribe(connection, cast["acme"], "https://example.com/hook")
    else:
        assert alice.get("/events").status_code == 200
    rejected = alice.delete(f"/tasks/{parent}")
    assert error_message(rejected, 409).endswith("delete some of them first")
    assert (count(connection, "tasks"), count(connection, "events")) == (MAX_SUBTASKS + 2, 0)
    subtask = alice.get(f"/tasks?parentId={parent}&limit=1").get_json()["data"][0]["id"]
    assert alice.delete(f"/tasks/{subtask}").status_code == 204
    assert alice.delete(f"/tasks/{parent}").status_code == 204
    assert (count(connection, "tasks"), count(connection, "events")) == (0, MAX_SUBTASKS + 2)
