"""A request that holds the lock of a task never waits for one that comes earlier in the order.

The order is: users and members, the workspace, tasks by their ids. Each test makes a task while a
request waits, so that the request could not lock this task in its turn, and then holds the task.
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import psycopg
import pytest
from support.http import Client, error_message, invalid_field
from support.processes import wait_until
from support.receivers import subscribe
from support.rows import TOKENS, insert_member
from support.statements import trigger, until_waiting, waiting

LOW, MIDDLE, HIGH = (f"0000000{number}-0000-7000-8000-000000000000" for number in (1, 2, 3))
BATCH = "/tasks/batch"
MEETING = {
    "title": "x",
    "platform": "teams",
    "startTime": "2026-11-20T11:00:00Z",
    "endTime": "2026-11-20T12:00:00Z",
}


@pytest.fixture
def client(build):
    """Return a client whose requests may wait for longer than a test."""
    return Client(build(statement_timeout=60), TOKENS["alice"])


@pytest.fixture
def others(database_url):
    """Yield a function that opens another connection, in a transaction."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(psycopg.connect(database_url))


@pytest.fixture
def threads(others):
    """Yield threads that end after the other connections, for which their requests may wait."""
    with ThreadPoolExecutor(1) as threads:
        yield threads


def make(other, cast, id, parent_id=None):
    other.execute(
        "INSERT INTO tasks (workspace_id, id, title, parent_id, created_by)"
        " VALUES (%s, %s, 'x', %s, %s)",
        (cast["acme"], id, parent_id, cast["alice"]),
    )


def hold(other, table, id):
    other.execute(f"SELECT FROM {table} WHERE id = %s FOR UPDATE", (id,))


def create(client, **task):
    assert client.post("/tasks", {"title": "x", **task}).status_code == 201


def answer(running):
    """Return the response to a request that must not wait."""
    return running.result(20)


def test_a_create_with_a_taken_id_does_not_keep_the_task_locked(client, cast, others, threads):
    create(client, id=LOW)
    hold(others(), "users", cast["bob"])
    body = {"id": LOW, "title": "x", "assigneeId": cast["bob"]}
    error_message(answer(threads.submit(client.post, "/tasks", body)), 409)


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("PATCH", f"/tasks/{HIGH}", {"parentId": LOW}, 200),
        ("POST", BATCH, {"update": [{"id": HIGH, "parentId": LOW}]}, 200),
        (
            "POST",
            BATCH,
            {"update": [{"id": HIGH}], "create": [{"title": "x", "parentId": LOW}]},
            200,
        ),
    ],
)
def test_no_request_waits_for_a_parent_that_was_made_after_it_began(
    client, connection, cast, others, threads, method, path, body, status
):
    """For the request, the parent does not exist yet."""
    create(client, id=HIGH)
    changed = next(iter(body.get("update", [body])))
    changed["assigneeId"] = cast["bob"]
    user, parent = others(), others()
    hold(user, "users", cast["bob"])
    running = threads.submit(client.send, method, path, json=body)
    until_waiting(connection, running)
    make(parent, cast, LOW)
    parent.commit()
    hold(parent, "tasks", LOW)
    user.rollback()
    response = answer(running)
    assert response.status_code == 400
    (fault,) = response.get_json()["errors"]
    assert fault["field"].endswith("parentId")
    assert fault["message"] == "must be the id of a task of the workspace"
    parent.rollback()
    assert client.send(method, path, json=body).status_code == status


def test_a_batch_does_not_wait_for_a_task_with_the_id_of_its_new_one_that_was_made_after_it_began(
    client, connection, cast, others, threads
):
    user, taken = others(), others()
    hold(user, "users", cast["bob"])
    batch = {"create": [{"id": LOW, "title": "x", "assigneeId": cast["bob"]}]}
    running = threads.submit(client.post, BATCH, batch)
    until_waiting(connection, running)
    make(taken, cast, LOW)
    taken.commit()
    hold(taken, "tasks", LOW)
    user.rollback()
    (fault,) = answer(running).get_json()["errors"]
    assert fault["field"] == "create[0].id"


@pytest.mark.parametrize("held", [False, True])
def test_a_batch_deletes_a_subtask_that_was_made_while_it_waited_for_the_parent(
    client, connection, cast, others, threads, held
):
    """It does not wait for this subtask either."""
    create(client, id=LOW)
    create(client, id=HIGH)
    parent, last, subtask = others(), others(), others()
    make(parent, cast, MIDDLE, LOW)
    hold(last, "tasks", HIGH)
    batch = {"update": [{"id": HIGH, "title": "y"}], "delete": [{"id": LOW}]}
    running = threads.submit(client.post, BATCH, batch)
    until_waiting(connection, running)
    parent.commit()
    if held:
        hold(subtask, "tasks", MIDDLE)
    last.rollback()
    if held:
        assert error_message(answer(running), 409).endswith("at the same time; try again")
    else:
        assert answer(running).status_code == 200
        assert client.get(f"/tasks/{MIDDLE}").status_code == 404


@pytest.mark.parametrize(("version", "status"), [(1, 409), (2, 412)])
def test_a_delete_does_not_wait_for_a_subtask_that_was_made_after_it_began(
    client, connection, cast, others, threads, version, status
):
    create(client, id=MIDDLE)
    create(client, id=LOW, parentId=MIDDLE)
    first, subtask = others(), others()
    hold(first, "tasks", LOW)
    expected = {"If-Match": f'"{version}"'}
    running = threads.submit(client.delete, f"/tasks/{MIDDLE}", headers=expected)
    until_waiting(connection, running)
    make(subtask, cast, HIGH, MIDDLE)
    subtask.commit()
    hold(subtask, "tasks", HIGH)
    first.rollback()
    error_message(answer(running), status)
    subtask.rollback()
    assert client.delete(f"/tasks/{MIDDLE}").status_code == 204
    assert client.get(f"/tasks/{HIGH}").status_code == 404


def test_no_request_waits_for_a_member_who_was_added_after_it_began(
    client, connection, cast, others, threads
):
    create(client, id=LOW)
    create(client, id=HIGH)
    parent, member = others(), others()
    hold(parent, "tasks", LOW)
    body = {"parentId": LOW, "assigneeId": cast["charlie"]}
    running = threads.submit(client.patch, f"/tasks/{HIGH}", body)
    until_waiting(connection, running)
    insert_member(connection, cast["acme"], cast["charlie"])
    hold(member, "users", cast["charlie"])
    parent.rollback()
    assert invalid_field(answer(running), "assigneeId")
    member.rollback()
    assert client.patch(f"/tasks/{HIGH}", body).status_code == 200


@pytest.mark.parametrize("field", ["parentId", "assigneeId"])
@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_no_task_names_a_row_that_appeared_after_the_check_of_that_row(
    client, connection, cast, others, threads, method, field
):
    """A foreign key would see the row: here a subtask as a parent, and a deactivated assignee."""
    create(client, id=LOW)
    body = {"title": "last", field: MIDDLE if field == "parentId" else cast["charlie"]}
    lock = "SELECT pg_advisory_xact_lock(1)"
    other = others()
    other.execute(lock)
    # Triggers run in the order of their names, so this one runs after the checks.
    wait = f"IF NEW.title = 'last' THEN PERFORM ({lock}); END IF; RETURN NEW;"
    with trigger(connection, "BEFORE INSERT OR UPDATE ON tasks", wait):
        path = f"/tasks/{LOW}" if method == "PATCH" else "/tasks"
        running = threads.submit(client.send, method, path, json=body)
        wait_until(lambda: running.done() or waiting(connection))
        make(other, cast, HIGH)
        make(other, cast, MIDDLE, HIGH)
        insert_member(other, cast["acme"], cast["charlie"])
        other.execute("UPDATE users SET deactivated_at = now_ms() WHERE name = 'Charlie'")
        other.commit()
        assert invalid_field(answer(running), field)


def test_a_subtask_waits_for_its_workspace_before_it_locks_the_parent(
    client, connection, cast, others, threads
):
    create(client, id=LOW)
    workspace = others()
    hold(workspace, "workspaces", cast["acme"])
    running = threads.submit(client.post, "/tasks", {"title": "x", "parentId": LOW})
    until_waiting(connection, running)
    hold(workspace, "tasks", LOW)
    workspace.rollback()
    assert answer(running).status_code == 201


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/tasks", {"title": "x"}),
        ("PATCH", f"/tasks/{LOW}", {"title": "y"}),
        ("DELETE", f"/tasks/{LOW}", None),
        ("POST", BATCH, {"update": [{"id": LOW, "title": "y"}]}),
        ("POST", "/meetings", MEETING),
    ],
)
def test_an_event_waits_for_its_workspace_before_it_locks_the_webhooks(
    client, connection, cast, others, threads, method, path, body
):
    """The deletion of a workspace locks the workspace, and then its webhooks."""
    webhook_id = subscribe(connection, cast["acme"], "https://hooks.example.com/")
    create(client, id=LOW)
    workspace = others()
    hold(workspace, "workspaces", cast["acme"])
    running = threads.submit(client.send, method, path, json=body)
    until_waiting(connection, running)
    hold(workspace, "webhooks", webhook_id)
    workspace.rollback()
    assert answer(running).status_code < 300
