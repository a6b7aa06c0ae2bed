"""completedBy of tasks: who finished a task, and the filter for it."""

import json

import pytest
from support.commands import CommandRunner
from support.http import error_message, ids, read_all
from support.receivers import subscribe

# The UPDATEs of releases 1.0.0 and 1.1.0 and of an operator. The releases set the version, but do
# not know who completed a task; release 1.1.0 stores the last editor.
STATUS = (
    "status = %(status)s::text, completed_at = CASE %(status)s::text WHEN 'done' THEN now_ms() END"
)
RELEASE_1_0 = f"UPDATE tasks SET {STATUS}, updated_at = now_ms(), version = version + 1"
RELEASE_1_1 = f"{RELEASE_1_0}, updated_by = %(user)s, updated_by_version = version + 1"
OPERATOR = f"UPDATE tasks SET {STATUS}"


@pytest.fixture
def cli(app):
    return lambda *words, **options: CommandRunner(app).invoke(words, **options)


def set_status(client, task, status):
    return client.patch(f"/tasks/{task['id']}", {"status": status}).get_json()


def test_a_task_names_the_user_who_completed_it_until_it_is_reopened(alice, bob, cast):
    task = alice.post("/tasks", {"title": "Ship"}).get_json()
    assert task["completedBy"] is None
    task = set_status(bob, task, "done")
    assert task["completedBy"] == cast["bob"]
    # Neither a repeat nor a change of something else makes Alice the one who completed it.
    assert set_status(alice, task, "done") == task
    renamed = alice.patch(f"/tasks/{task['id']}", {"title": "Ship it"}).get_json()
    assert (renamed["updatedBy"], renamed["completedBy"]) == (cast["alice"], cast["bob"])
    assert read_all(bob, "/tasks") == [renamed]
    assert set_status(alice, task, "in_progress")["completedBy"] is None
    assert set_status(alice, task, "done")["completedBy"] == cast["alice"]


def test_a_task_that_is_created_as_done_was_completed_by_its_author(alice, bob, cast):
    task = {"title": "Ship", "status": "done"}
    assert bob.post("/tasks", task).get_json()["completedBy"] == cast["bob"]
    open_task = bob.post("/tasks", {"title": "Ship"}).get_json()
    body = {"create": [task], "update": [{"id": open_task["id"], "status": "done"}]}
    result = alice.post("/tasks/batch", body).get_json()
    (created,), (updated,) = result["created"], result["updated"]
    assert created["completedBy"] == updated["completedBy"] == cast["alice"]


def test_a_client_cannot_choose_who_completed_a_task(alice, cast):
    body = {"title": "Ship", "status": "done", "completedBy": cast["bob"]}
    assert error_message(alice.post("/tasks", body), 400) == (
        "completedBy: is read-only; the service sets it"
    )
    task = alice.post("/tasks", {"title": "Ship"}).get_json()
    sent = {**task, "status": "done", "completedBy": cast["bob"]}
    shown = alice.patch(f"/tasks/{task['id']}", sent).get_json()
    assert shown["completedBy"] == cast["alice"]


@pytest.mark.parametrize(
    ("update", "named"),
    [(RELEASE_1_0, None), (RELEASE_1_1, "bob"), (OPERATOR, None)],
    ids=["1.0.0", "1.1.0", "an operator"],
)
def test_an_older_release_or_an_operator_never_leaves_the_name_of_somebody_else(
    alice, bob, cast, connection, update, named
):
    def change(status):
        connection.execute(update, {"status": status, "user": cast["bob"]})
        return alice.get(path).get_json()["completedBy"]

    task = alice.post("/tasks", {"title": "Ship"}).get_json()
    path = f"/tasks/{task['id']}"
    assert change("done") == cast.get(named)
    assert set_status(alice, task, "todo")["completedBy"] is None
    # Alice completes the task, and the other one completes it again, with and without reopening it.
    for between in (["done"], ["todo", "done"], ["todo", "in_progress", "done"]):
        set_status(alice, task, "todo")
        assert set_status(alice, task, "done")["completedBy"] == cast["alice"]
        shown = [change(status) for status in between]
        if len(between) == 1:
            assert shown == [cast["alice"]]
        else:
            assert shown == [None] * (len(between) - 1) + [cast.get(named)]
        assert set_status(alice, task, "todo")["completedBy"] is None
        assert set_status(bob, task, "done")["completedBy"] == cast["bob"]


def test_a_task_that_an_older_release_creates_as_done_shows_nobody(alice, insert_into, cast):
    """Releases 1.0.0 and 1.1.0 leave the column empty, as this row does."""
    columns = {"updated_by": cast["alice"], "updated_by_version": 1}
    id = insert_into("tasks", status="done", completed_at="2026-01-01", **columns)
    assert alice.get(f"/tasks/{id}").get_json()["completedBy"] is None


def test_events_name_who_completed_a_task_and_who_had_completed_a_reopened_one(
    alice, bob, cast, connection
):
    subscribe(connection, cast["acme"], "https://example.com/hook")
    task = alice.post("/tasks", {"title": "Ship"}).get_json()
    done = set_status(bob, task, "done")
    set_status(alice, task, "todo")
    rows = connection.execute("SELECT body FROM events ORDER BY position").fetchall()
    created, completed, reopened = (json.loads(row["body"]) for row in rows)
    assert created["data"] == task
    assert completed["data"] == done
    assert completed["changed"] == ["status", "completedAt", "completedBy"]
    assert completed["previous"] == {"status": "todo", "completedAt": None, "completedBy": None}
    assert reopened["changed"] == completed["changed"]
    assert reopened["previous"] == {name: done[name] for name in completed["changed"]}


@pytest.mark.parametrize("order", [{}, {"sort": "dueDate"}, {"sort": "completedAt"}])
@pytest.mark.parametrize("q", [{}, {"q": "task"}])
def test_the_filter_finds_what_a_user_completed_with_every_order_and_bound(
    alice, bob, cast, insert_into, order, q
):
    def done(at, user):
        return insert_into("tasks", status="done", completed_at=at, completed_by=user)

    insert_into("tasks")
    early, late = (done(f"2026-11-{day}", cast["alice"]) for day in (16, 18))
    other = done("2026-11-17", cast["bob"])
    done("2026-11-18", None)
    more = {**order, **q, "limit": 1}

    def found(client, **query):
        return sorted(ids(read_all(client, "/tasks", **query, **more)), reverse=True)

    assert found(alice, completedBy="me") == found(bob, completedBy=cast["alice"]) == [late, early]
    assert found(bob, completedBy="me") == [other]
    assert found(bob, completedBy=cast["charlie"]) == []
    assert found(bob, completedBy=cast["alice"], completedAfter="2026-11-17") == [late]
    assert found(alice, completedBy="me", status="done", completedBefore="2026-11-18") == [early]
    assert found(alice, completedBy="me", status="todo,in_progress") == []


def test_the_filter_takes_me_or_an_id(alice):
    for value in ("none", "bob@example.com", ""):
        assert error_message(alice.get(f"/tasks?completedBy={value}"), 400) == (
            "completedBy: must be an id, or one of: me"
        )


def test_the_name_stays_after_the_user_has_left_and_an_export_keeps_it(
    alice, bob, join, cast, cli, connection
):
    """Bob leaves the workspace. Dora is deleted."""
    dora = join("dora", "member")
    dora.headers["Workspace-Id"] = cast["acme"]
    tasks = []
    for client in (alice, bob, dora):
        tasks.append(alice.post("/tasks", {"title": "Ship"}).get_json())
        set_status(client, tasks[-1], "done")
        # Nothing else names the user who completed the task.
        alice.patch(f"/tasks/{tasks[-1]['id']}", {"title": "Shipped"})
    assert cli("member", "remove", "acme", "bob@example.com", "--yes").exit_code == 0
    assert cli("user", "delete", "dora@example.com", "--yes").exit_code == 0
    shown = [alice.get(f"/tasks/{task['id']}").get_json()["completedBy"] for task in tasks]
    assert shown == [cast["alice"], cast["bob"], cast["dora"]]
    member = f"/workspaces/{cast['acme']}/members/{cast['bob']}"
    assert alice.get(member).get_json()["name"] == "Bob"
    exported = cli("workspace", "export", "acme").stdout
    assert cli("workspace", "delete", "acme", "--yes").exit_code == 0
    connection.execute("DELETE FROM users WHERE name <> 'Charlie'")
    connection.execute("DELETE FROM deleted_users")
    outcome = cli("load", "-", input=exported)
    assert outcome.exit_code == 0, outcome.output
    assert cli("workspace", "export", "acme").stdout == exported
    former = connection.execute("SELECT user_id::text AS id FROM former_members").fetchall()
    assert former == [{"id": cast["bob"]}]


def test_load_takes_who_completed_a_task_only_if_it_is_done(alice, cast, cli):
    line = {"type": "task", "workspace": "acme", "title": "Ship", "completedBy": "bob@example.com"}
    refused = cli("load", "-", input=json.dumps(line) + "\n")
    assert "completedBy: needs status done" in refused.output
    outcome = cli("load", "-", input=json.dumps({**line, "status": "done"}) + "\n")
    assert outcome.exit_code == 0, outcome.output
    (task,) = read_all(alice, "/tasks")
    assert task["completedBy"] == cast["bob"]
