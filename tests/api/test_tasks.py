"""Tasks: statuses, assignees, subtasks, filters, and changes at the same time."""

import pytest
from client import UNKNOWN, activate, count, error_message, invalid_field, read_all
from client import row_of as any_row_of

EMPTY = dict.fromkeys(["description", "dueDate", "assigneeId", "projectId", "parentId"])


@pytest.fixture
def task(alice):
    """A subtask of Acme."""
    parent = alice.post("/tasks", {"title": "Parent"}).get_json()
    created = alice.post("/tasks", {"title": "Write the report", "parentId": parent["id"]})
    assert created.status_code == 201
    return created.get_json()


@pytest.fixture
def plain(alice):
    """A task of Acme with nothing but a title."""
    return alice.post("/tasks", {"title": "Plain"}).get_json()


def row_of(connection, id):
    return any_row_of(connection, "tasks", id)


# Create


def test_a_task_needs_only_a_title_and_gets_the_defaults(alice, cast, connection):
    task = alice.post("/tasks", {"title": "Plain"}).get_json()
    expected = {
        "id": task["id"],
        "workspaceId": cast["acme"],
        "title": "Plain",
        "description": None,
        "status": "todo",
        "priority": "medium",
        "dueDate": None,
        "assigneeId": None,
        "projectId": None,
        "parentId": None,
        "createdBy": cast["alice"],
        "createdAt": task["createdAt"],
        "updatedAt": task["createdAt"],
        "completedAt": None,
        "version": 1,
    }
    assert list(task.items()) == list(expected.items())
    row = row_of(connection, task["id"])
    assert row["created_at"].strftime("%Y-%m-%dT%H:%M:%S") == task["createdAt"][:19]
    assert len(task["createdAt"]) == len("2026-11-20T11:02:43.743Z")


def test_a_member_reads_changes_and_deletes_tasks_of_others(bob, plain, connection):
    assert bob.get(f"/tasks/{plain['id']}").get_json() == plain
    assert bob.patch(f"/tasks/{plain['id']}", {"title": "Bob's"}).get_json()["title"] == "Bob's"
    assert bob.delete(f"/tasks/{plain['id']}").status_code == 204
    assert row_of(connection, plain["id"]) is None


def test_null_is_like_absent_where_null_is_allowed(alice):
    task = alice.post("/tasks", {"title": "Plain", **EMPTY})
    assert task.status_code == 201
    assert task.get_json().items() >= EMPTY.items()


def test_a_400_names_every_invalid_field(alice):
    response = alice.post("/tasks", {"status": "x", "priority": 1, "nonsense": 1})
    error_message(response, 400)
    fields = {fault["field"] for fault in response.get_json()["errors"]}
    assert fields == {"title", "status", "priority", "nonsense"}


@pytest.mark.parametrize("who", ["charlie", UNKNOWN, "nobody"])
def test_only_a_member_can_be_the_assignee(alice, plain, cast, connection, who):
    assignee = {"assigneeId": cast.get(who, who)}
    for response in (
        alice.post("/tasks", {"title": "New", **assignee}),
        alice.patch(f"/tasks/{plain['id']}", assignee),
    ):
        assert (
            invalid_field(response, "assigneeId") == "must be the id of a member of the workspace"
        )
    assert read_all(alice, "/tasks") == [plain]
    assert row_of(connection, plain["id"])["assignee_id"] is None


def test_a_member_can_be_the_assignee_until_they_leave(alice, cast, connection, plain):
    assigned = alice.patch(f"/tasks/{plain['id']}", {"assigneeId": cast["bob"].upper()})
    assert assigned.get_json()["assigneeId"] == cast["bob"]
    connection.execute("DELETE FROM members WHERE user_id = %s", (cast["bob"],))
    assert alice.get(f"/tasks/{plain['id']}").get_json()["assigneeId"] is None


# Changes


def test_several_fields_change_as_one_version(alice, task):
    expected = {"title": "Another", "priority": "urgent", "dueDate": None}
    changed = alice.patch(f"/tasks/{task['id']}", expected).get_json()
    assert changed == {**task, **expected, "updatedAt": changed["updatedAt"], "version": 2}


def test_clearing_an_empty_field_writes_nothing(alice, plain, connection):
    row = row_of(connection, plain["id"])
    response = alice.patch(f"/tasks/{plain['id']}", EMPTY)
    assert (response.status_code, response.get_json()) == (200, plain)
    assert row_of(connection, plain["id"]) == row


def test_completed_at_is_set_while_the_status_is_done(alice, plain, connection):
    path = f"/tasks/{plain['id']}"
    done = alice.patch(path, {"status": "done"}).get_json()
    assert done["completedAt"] == done["updatedAt"]
    connection.execute("UPDATE tasks SET completed_at = '2020-01-01T00:00:00Z', version = 7")
    renamed = alice.patch(path, {"title": "Renamed", "status": "done"}).get_json()
    assert renamed["completedAt"] == "2020-01-01T00:00:00.000Z"
    assert renamed["version"] == 8
    for status in ("in_progress", "done", "todo"):
        task = alice.patch(path, {"status": status}).get_json()
        assert (task["status"], bool(task["completedAt"])) == (status, status == "done")
    assert row_of(connection, plain["id"])["completed_at"] is None


@pytest.mark.parametrize("status", ["todo", "in_progress", "done"])
def test_a_task_can_start_in_any_status_and_change_to_any_other(alice, status):
    for following in ("todo", "in_progress", "done"):
        created = alice.post("/tasks", {"title": "New", "status": status}).get_json()
        assert created["status"] == status
        assert created["completedAt"] == (created["createdAt"] if status == "done" else None)
        changed = alice.patch(f"/tasks/{created['id']}", {"status": following})
        assert changed.status_code == 200
        assert changed.get_json()["status"] == following
        assert bool(changed.get_json()["completedAt"]) == (following == "done")


# Delete


def test_a_deleted_task_is_gone(alice, plain, connection):
    response = alice.delete(f"/tasks/{plain['id']}")
    assert (response.status_code, response.data) == (204, b"")
    assert row_of(connection, plain["id"]) is None
    for method in ("GET", "DELETE"):
        error_message(alice.send(method, f"/tasks/{plain['id']}"), 404)
    error_message(alice.patch(f"/tasks/{plain['id']}", {"title": "Back"}), 404)
    assert read_all(alice, "/tasks") == []


# Subtasks


def test_deleting_a_task_deletes_its_subtasks_and_no_others(alice, connection):
    first, second = (alice.post("/tasks", {"title": name}).get_json() for name in "ab")
    for parent in (first, first, second):
        alice.post("/tasks", {"title": "Sub", "parentId": parent["id"]})
    assert len(read_all(alice, "/tasks", parentId=first["id"])) == 2
    assert alice.delete(f"/tasks/{first['id']}").status_code == 204
    left = read_all(alice, "/tasks")
    assert [task["parentId"] for task in left] == [second["id"], None]
    assert count(connection, "tasks") == 2


def test_deleting_a_subtask_keeps_its_parent(alice, task):
    assert alice.delete(f"/tasks/{task['id']}").status_code == 204
    assert [left["id"] for left in read_all(alice, "/tasks")] == [task["parentId"]]


def test_a_subtask_cannot_have_subtasks(alice, task, plain):
    parent = {"parentId": task["id"]}
    for response in (
        alice.post("/tasks", {"title": "Third level", **parent}),
        alice.patch(f"/tasks/{plain['id']}", parent),
    ):
        assert invalid_field(response, "parentId") == "must not be the id of a subtask"
    assert alice.get(f"/tasks/{plain['id']}").get_json() == plain


def test_a_task_with_subtasks_cannot_become_a_subtask(alice, task, plain):
    path = f"/tasks/{task['parentId']}"
    before = alice.get(path).get_json()
    response = alice.patch(path, {"parentId": plain["id"]})
    assert invalid_field(response, "parentId") == "must be null for a task with subtasks"
    assert alice.get(path).get_json() == before


def test_a_task_cannot_be_its_own_parent(alice, plain):
    assert invalid_field(
        alice.patch(f"/tasks/{plain['id']}", {"parentId": plain["id"]}), "parentId"
    )
    assert alice.get(f"/tasks/{plain['id']}").get_json() == plain


def test_a_subtask_can_change_its_parent_and_become_a_task(alice, task, plain):
    path = f"/tasks/{task['id']}"
    assert alice.patch(path, {"parentId": plain["id"]}).get_json()["parentId"] == plain["id"]
    assert alice.patch(path, {"parentId": None}).get_json()["parentId"] is None
    assert alice.patch(f"/tasks/{plain['id']}", {"parentId": task["id"]}).status_code == 200


# List


def test_the_list_shows_tasks_as_their_paths_show_them(alice, task, plain):
    listed = alice.get("/tasks").get_json()["data"]
    assert listed == [alice.get(f"/tasks/{item['id']}").get_json() for item in listed]
    assert listed[:2] == [plain, task]
    assert [list(item) for item in listed] == [list(plain)] * 3


def test_the_next_page_keeps_the_filters(alice):
    for title in "xyz":
        alice.post("/tasks", {"title": title, "projectId": "a&b=c d/é" if title > "x" else None})
    listed = read_all(alice, "/tasks", projectId="a&b=c d/é", limit=1)
    assert [task["title"] for task in listed] == ["z", "y"]


@pytest.fixture
def various(alice, cast):
    """Four tasks that differ in every field that filters use; a is the parent of b."""
    parent = None
    for title, status, priority, project, assignee in (
        ("a", "todo", "urgent", "apollo", cast["alice"]),
        ("b", "todo", "high", "apollo", cast["bob"]),
        ("c", "in_progress", "low", "gemini", cast["bob"]),
        ("d", "done", "high", None, None),
    ):
        task = {"title": title, "status": status, "priority": priority, "projectId": project}
        more = {"assigneeId": assignee, "parentId": parent if title == "b" else None}
        created = alice.post("/tasks", {**task, **more})
        assert created.status_code == 201
        parent = parent or created.get_json()["id"]
    return {**cast, "a": parent, "unknown": UNKNOWN}


@pytest.mark.parametrize(
    ("query", "titles"),
    [
        ("status=todo", "ab"),
        ("status=in_progress", "c"),
        ("status=done", "d"),
        ("priority=high", "bd"),
        ("priority=medium", ""),
        ("assignee={bob}", "bc"),
        ("assignee={alice}", "a"),
        ("assignee={charlie}", ""),
        ("assignee={unknown}", ""),
        ("assignee=nobody", ""),
        ("projectId=apollo", "ab"),
        ("projectId=Apollo", ""),
        ("projectId=%25", ""),
        ("parentId={a}", "b"),
        ("parentId={unknown}", ""),
        ("parentId=nothing", ""),
        ("status=todo&priority=high", "b"),
        ("status=todo&assignee={bob}&projectId=apollo&priority=high&parentId={a}", "b"),
        ("status=done&assignee={bob}", ""),
    ],
)
def test_a_list_shows_what_passes_all_filters(alice, various, query, titles):
    response = alice.get(f"/tasks?{query.format(**various)}")
    assert response.status_code == 200
    assert {task["title"] for task in response.get_json()["data"]} == set(titles)


@pytest.mark.parametrize(
    ("name", "values"),
    {
        "status": ["open", "", "todo,done"],
        "priority": ["HIGH", ""],
        "assignee": ["", "x" * 129],
        "projectId": ["", "x" * 129, "\0"],
        "parentId": [""],
    }.items(),
)
def test_an_invalid_filter_is_400(alice, name, values):
    for value in values:
        assert invalid_field(alice.get("/tasks", query_string={name: value}), name)


@pytest.mark.usefixtures("plain")
def test_a_new_task_belongs_to_the_active_workspace(alice, cast, connection, initech):
    activate(connection, initech, cast["alice"])
    created = alice.post("/tasks", {"title": "New"}).get_json()
    assert created["workspaceId"] == initech
    assert read_all(alice, "/tasks") == [created]


# At the same time


def test_two_equal_changes_at_once_are_one_change(alice, bob, plain, together):
    path = f"/tasks/{plain['id']}"
    responses = together(
        "tasks",
        plain["id"],
        *(lambda who=who: who.patch(path, {"status": "done"}) for who in (alice, bob)),
    )
    assert [response.status_code for response in responses] == [200, 200]
    assert responses[0].get_json() == responses[1].get_json() == alice.get(path).get_json()
    assert responses[0].get_json()["version"] == 2


@pytest.mark.parametrize("first", ["PATCH", "DELETE"])
def test_of_a_change_and_a_delete_at_once_nothing_is_left(
    alice, bob, plain, together, connection, first
):
    path = f"/tasks/{plain['id']}"
    calls = {
        "PATCH": lambda: alice.patch(path, {"title": "Renamed"}),
        "DELETE": lambda: bob.delete(path),
    }
    order = [first, *(calls.keys() - {first})]
    responses = together("tasks", plain["id"], *(calls[method] for method in order))
    statuses = dict(zip(order, (response.status_code for response in responses), strict=True))
    assert statuses["DELETE"] == 204
    assert statuses["PATCH"] == (200 if first == "PATCH" else 404)
    assert row_of(connection, plain["id"]) is None


def test_of_two_deletes_at_once_one_is_404(alice, bob, plain, together, connection):
    path = f"/tasks/{plain['id']}"
    responses = together("tasks", plain["id"], lambda: alice.delete(path), lambda: bob.delete(path))
    assert sorted(response.status_code for response in responses) == [204, 404]
    assert row_of(connection, plain["id"]) is None


@pytest.mark.parametrize("first", ["POST", "DELETE"])
def test_a_subtask_created_while_its_parent_is_deleted_is_rejected_or_deleted(
    alice, bob, plain, together, connection, first
):
    calls = {
        "POST": lambda: alice.post("/tasks", {"title": "Sub", "parentId": plain["id"]}),
        "DELETE": lambda: bob.delete(f"/tasks/{plain['id']}"),
    }
    order = [first, *(calls.keys() - {first})]
    responses = together("tasks", plain["id"], *(calls[method] for method in order))
    statuses = dict(zip(order, (response.status_code for response in responses), strict=True))
    left = count(connection, "tasks")
    assert (statuses["POST"], statuses["DELETE"], left) in [
        (400, 204, 0),
        (201, 204, 0),
        # The delete met a subtask that it could not see: 409, and nothing is lost.
        (201, 409, 2),
    ]


def test_two_tasks_cannot_become_each_others_parent_at_once(alice, bob, together, connection):
    one, other = (alice.post("/tasks", {"title": name}).get_json()["id"] for name in "ab")
    responses = together(
        "tasks",
        one,
        lambda: alice.patch(f"/tasks/{one}", {"parentId": other}),
        lambda: bob.patch(f"/tasks/{other}", {"parentId": one}),
    )
    # One of them wins, the other one meets a conflict; the database is never away.
    assert sorted(response.status_code for response in responses) in ([200, 400], [200, 409])
    rows = connection.execute("SELECT parent_id FROM tasks").fetchall()
    assert [row["parent_id"] for row in rows].count(None) == 1
