"""Tasks: statuses, assignees, subtasks, filters, and changes at the same time."""

from concurrent.futures import ThreadPoolExecutor
from itertools import product

import psycopg
import pytest
from support.http import error_message, invalid_field, read_all
from support.rows import UNKNOWN, activate, count, row_of
from support.statements import until_waiting

# A project whose characters must be escaped in a query.
APOLLO = "a&b=c d/é"
EMPTY = dict.fromkeys(["description", "dueDate", "assigneeId", "projectId", "parentId"])


@pytest.fixture
def task(alice):
    parent = alice.post("/tasks", {"title": "Parent"}).get_json()
    created = alice.post("/tasks", {"title": "Write the report", "parentId": parent["id"]})
    assert created.status_code == 201
    return created.get_json()


@pytest.fixture
def plain(alice):
    return alice.post("/tasks", {"title": "Plain"}).get_json()


def test_a_task_needs_only_a_title_and_gets_the_defaults(alice, cast, connection):
    task = alice.post("/tasks", {"title": "Plain"}).get_json()
    expected = {
        **EMPTY,
        "id": task["id"],
        "workspaceId": cast["acme"],
        "title": "Plain",
        "status": "todo",
        "priority": "medium",
        "createdBy": cast["alice"],
        "createdAt": task["createdAt"],
        "updatedAt": task["createdAt"],
        "completedAt": None,
        "version": 1,
        "updatedBy": cast["alice"],
    }
    assert task.items() >= expected.items()
    row = row_of(connection, "tasks", task["id"])
    assert row["created_at"].strftime("%Y-%m-%dT%H:%M:%S") == task["createdAt"][:19]
    assert len(task["createdAt"]) == len("2026-11-20T11:02:43.743Z")


@pytest.mark.parametrize("who", ["charlie", UNKNOWN])
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
    assert row_of(connection, "tasks", plain["id"])["assignee_id"] is None


@pytest.mark.parametrize("who", ["charlie", UNKNOWN, "peter"])
def test_a_wrong_assignee_and_a_wrong_parent_are_named_together_with_the_other_wrong_fields(
    alice, task, cast, connection, who
):
    connection.execute("UPDATE users SET deactivated_at = now() WHERE email = 'bob@example.com'")
    who = cast.get(who, cast["bob"] if who == "peter" else who)
    id, parent = task["id"], task["parentId"]
    wrong = {"title": "", "color": "red", "assigneeId": who, "parentId": id}
    for made in (
        alice.post("/tasks", wrong),
        alice.post("/tasks?dryRun=true", wrong),
        alice.patch(f"/tasks/{id}", wrong),
        alice.patch(f"/tasks/{parent}", {**wrong, "parentId": UNKNOWN}),
    ):
        assert error_message(made, 400)
        named = [fault["field"] for fault in made.get_json()["errors"]]
        assert sorted(named) == ["assigneeId", "color", "parentId", "title"], made.text
    # What is right is not named, even an assignee who was deactivated after the assignment.
    connection.execute("ALTER TABLE tasks DISABLE TRIGGER USER")
    connection.execute("UPDATE tasks SET assignee_id = %s WHERE id = %s", (cast["bob"], id))
    connection.execute("ALTER TABLE tasks ENABLE TRIGGER USER")
    right = {"title": "", "assigneeId": cast["bob"], "parentId": parent}
    assert invalid_field(alice.patch(f"/tasks/{id}", right), "title")
    # The task does not exist: the client learns that when its fields are valid.
    absent = alice.patch(f"/tasks/{UNKNOWN}", {"title": "", "assigneeId": who})
    assert invalid_field(absent, "title")
    assert count(connection, "tasks") == 2
    assert alice.get(f"/tasks/{id}").get_json()["version"] == 1


def test_a_member_can_be_the_assignee_until_the_member_leaves(alice, cast, connection, plain):
    assigned = alice.patch(f"/tasks/{plain['id']}", {"assigneeId": cast["bob"].upper()})
    assert assigned.get_json()["assigneeId"] == cast["bob"]
    connection.execute("DELETE FROM members WHERE user_id = %s", (cast["bob"],))
    assert alice.get(f"/tasks/{plain['id']}").get_json()["assigneeId"] is None


def test_completed_at_is_set_while_the_status_is_done(alice, plain, connection):
    path = f"/tasks/{plain['id']}"
    born = alice.post("/tasks", {"title": "Done", "status": "done"}).get_json()
    assert born["completedAt"] == born["createdAt"]
    done = alice.patch(path, {"status": "done"}).get_json()
    assert done["completedAt"] == done["updatedAt"]
    connection.execute("UPDATE tasks SET completed_at = '2020-01-01T00:00:00Z', version = 7")
    renamed = alice.patch(path, {"title": "Renamed", "status": "done"}).get_json()
    assert renamed["completedAt"] == "2020-01-01T00:00:00.000Z"
    assert renamed["version"] == 8
    for status in ("in_progress", "done", "todo"):
        task = alice.patch(path, {"status": status}).get_json()
        assert (task["status"], bool(task["completedAt"])) == (status, status == "done")
    assert row_of(connection, "tasks", plain["id"])["completed_at"] is None


def test_deleting_a_task_deletes_its_subtasks_and_no_other_tasks(alice, connection):
    first, second = (alice.post("/tasks", {"title": name}).get_json() for name in "ab")
    for parent in (first, first, second):
        alice.post("/tasks", {"title": "Sub", "parentId": parent["id"]})
    assert len(read_all(alice, "/tasks", parentId=first["id"])) == 2
    assert alice.delete(f"/tasks/{first['id']}").status_code == 204
    left = read_all(alice, "/tasks")
    assert [task["parentId"] for task in left] == [second["id"], None]
    assert count(connection, "tasks") == 2


def test_a_subtask_cannot_be_a_parent_and_a_parent_cannot_become_a_subtask(alice, task, plain):
    cases = [
        ("POST", "/tasks", task["id"], "must not be the id of a subtask"),
        ("PATCH", f"/tasks/{plain['id']}", task["id"], "must not be the id of a subtask"),
        (
            "PATCH",
            f"/tasks/{task['parentId']}",
            plain["id"],
            "must be null for a task with subtasks",
        ),
        ("PATCH", f"/tasks/{plain['id']}", plain["id"], "must be another task"),
    ]
    before = read_all(alice, "/tasks")
    for method, path, parent_id, message in cases:
        response = alice.send(method, path, json={"title": "New", "parentId": parent_id})
        assert (path, invalid_field(response, "parentId")) == (path, message)
    assert read_all(alice, "/tasks") == before


def test_a_subtask_can_get_another_parent_or_become_a_task_without_one(alice, task, plain):
    path = f"/tasks/{task['id']}"
    assert alice.patch(path, {"parentId": plain["id"]}).get_json()["parentId"] == plain["id"]
    assert alice.patch(path, {"parentId": None}).get_json()["parentId"] is None
    assert alice.patch(f"/tasks/{plain['id']}", {"parentId": task["id"]}).status_code == 200


@pytest.fixture
def various(alice, cast):
    """Create four tasks that differ in every field that filters use; a is the parent of b.

    Two have a due date: a list by due date finds tasks without one in another way.
    """
    parent = None
    for title, status, priority, project, assignee in (
        ("a", "todo", "urgent", APOLLO, cast["alice"]),
        ("b", "todo", "high", APOLLO, cast["bob"]),
        ("c", "in_progress", "low", "gemini", cast["bob"]),
        ("d", "done", "high", None, None),
    ):
        task = {"status": status, "priority": priority, "projectId": project}
        task |= {"title": f"Task {title}", "dueDate": "2099-01-01" if title in "ac" else None}
        more = {"assigneeId": assignee, "parentId": parent if title == "b" else None}
        created = alice.post("/tasks", {**task, **more})
        assert created.status_code == 201
        parent = parent or created.get_json()["id"]
    return {**cast, "a": parent, "unknown": UNKNOWN, "apollo": APOLLO, "other": APOLLO.upper()}


FILTERED = [
    ("status=todo", "ab"), ("status=in_progress", "c"), ("status=done", "d"),
    ("status=todo,in_progress,todo priority=low,high", "bc"),
    ("priority=high", "bd"), ("priority=medium", ""),
    ("assignee={alice}", "a"), ("assignee={bob}", "bc"), ("assignee={charlie}", ""),
    ("assignee={unknown}", ""),
    ("assignee=me", "a"), ("assignee=none", "d"),
    ("assignee=me status=todo", "a"), ("assignee=me status=done", ""),
    ("assignee=none priority=high", "d"), ("assignee=none parentId={a}", ""),
    ("assignee=none status=done", "d"), ("assignee=none projectId={apollo}", ""),
    ("projectId={apollo}", "ab"), ("projectId={other}", ""), ("projectId=%", ""),
    ("parentId={a}", "b"), ("parentId={unknown}", ""),
    ("parentId=none", "acd"), ("parentId=none status=todo", "a"),
    ("status=todo priority=high", "b"), ("status=done assignee={bob}", ""),
    ("status=todo assignee={bob} projectId={apollo} priority=high parentId={a}", "b"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.usefixtures("unlimited")
def test_lists_in_both_orders_and_searches_have_exactly_the_tasks_that_match_all_filters(
    alice, various
):
    for filters, titles in FILTERED:
        pairs = (text.split("=") for text in filters.split())
        query = {name: value.format(**various) for name, value in pairs}
        for sort, q, limit in product(({}, {"sort": "dueDate"}), ({}, {"q": "task"}), (1, 3)):
            listed = read_all(alice, "/tasks", **query, **sort, **q, limit=limit)
            assert sorted(task["title"][-1] for task in listed) == [*titles], (filters, sort, q)


def test_the_filter_me_means_the_caller_of_each_request_even_if_the_queries_are_equal(
    alice, bob, charlie, various
):
    expected = [(alice, "a"), (bob, "bc"), (charlie, ""), (alice, "a")]
    for client, titles in expected:
        listed = read_all(client, "/tasks", assignee="me", limit=1)
        assert [task["title"][-1] for task in listed] == sorted(titles, reverse=True)
    assert read_all(charlie, "/tasks", assignee="none") == []


@pytest.mark.usefixtures("plain")
def test_a_new_task_belongs_to_the_active_workspace(alice, cast, connection, initech):
    activate(connection, initech, cast["alice"])
    created = alice.post("/tasks", {"title": "New"}).get_json()
    assert created["workspaceId"] == initech
    assert read_all(alice, "/tasks") == [created]


@pytest.fixture
def race(alice, bob, plain, together):
    """Return a function that sends two requests about one task; both wait for it in this order."""
    path = f"/tasks/{plain['id']}"
    send = {
        "done": lambda who: who.patch(path, {"status": "done"}),
        "rename": lambda who: who.patch(path, {"title": "Renamed"}),
        "delete": lambda who: who.delete(path),
        "subtask": lambda who: who.post("/tasks", {"title": "Sub", "parentId": plain["id"]}),
    }

    def race(first, second):
        return together("tasks", plain["id"], lambda: send[first](alice), lambda: send[second](bob))

    return race


def test_two_equal_changes_at_the_same_time_make_one_new_version(alice, plain, race):
    responses = race("done", "done")
    assert [response.status_code for response in responses] == [200, 200]
    changed = alice.get(f"/tasks/{plain['id']}").get_json()
    assert [response.get_json() for response in responses] == [changed, changed]
    assert changed["version"] == 2


@pytest.mark.parametrize(
    ("first", "second", "outcomes"),
    [
        ("rename", "delete", [(200, 204, 0)]),
        ("delete", "rename", [(204, 404, 0)]),
        ("delete", "delete", [(204, 404, 0)]),
        # 409: the delete conflicts with a subtask that is not in its snapshot.
        ("subtask", "delete", [(201, 204, 0), (201, 409, 2)]),
        ("delete", "subtask", [(204, 400, 0), (204, 201, 0), (409, 201, 2)]),
    ],
)
def test_a_delete_during_another_change_deletes_everything_or_gets_409(
    connection, race, first, second, outcomes
):
    statuses = [response.status_code for response in race(first, second)]
    assert (*statuses, count(connection, "tasks")) in outcomes


def test_two_tasks_cannot_become_each_others_parent_at_the_same_time(
    alice, bob, together, connection
):
    one, other = (alice.post("/tasks", {"title": name}).get_json()["id"] for name in "ab")
    responses = together(
        "tasks",
        one,
        lambda: alice.patch(f"/tasks/{one}", {"parentId": other}),
        lambda: bob.patch(f"/tasks/{other}", {"parentId": one}),
    )
    # One request succeeds, the other is 400 or 409; neither is 503.
    assert sorted(response.status_code for response in responses) in ([200, 400], [200, 409])
    rows = connection.execute("SELECT parent_id FROM tasks").fetchall()
    assert [row["parent_id"] for row in rows].count(None) == 1


def test_a_write_while_an_operator_deletes_its_workspace_gets_409(
    alice, cast, connection, database_url
):
    with psycopg.connect(database_url) as operator, ThreadPoolExecutor() as threads:
        operator.execute("DELETE FROM workspaces WHERE id = %s", (cast["acme"],))
        create = threads.submit(alice.post, "/tasks", {"title": "Late"})
        until_waiting(connection, create)
        operator.commit()
        assert "at the same time" in error_message(create.result(), 409)
