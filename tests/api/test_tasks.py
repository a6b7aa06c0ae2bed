"""Tasks: the checklist of every endpoint, then what is special about tasks."""

import pytest
from client import INVALID_LIMITS, error_message, insert, insert_member, invalid_field, read_all

FIELDS = [
    "id",
    "workspaceId",
    "title",
    "description",
    "status",
    "priority",
    "dueDate",
    "assigneeId",
    "projectId",
    "parentId",
    "createdBy",
    "createdAt",
    "updatedAt",
    "completedAt",
    "version",
]
UNKNOWN = "01890000-0000-7000-8000-000000000000"
LONG = "x" * 65_537
WRONG = {
    "title": [None, 1, True, [], {}, "", " \t\n ", "x" * 501, "a\0b", "\ud800"],
    "description": [1, False, [], {}, LONG, "a\0b", "\udfff"],
    "status": [None, 1, True, [], {}, "", "Done", "doing"],
    "priority": [None, 1, True, [], {}, "", "URGENT", "normal"],
    "dueDate": [
        1,
        True,
        [],
        {},
        "",
        "tomorrow",
        "2027-03-01",
        "2027-03-01T",
        "2027-02-30T10:00:00Z",
        "2027-02-29T10:00:00Z",
        "2027-13-01T10:00:00Z",
        "2027-03-01T25:00:00Z",
        "2027-03-01T10:61:00Z",
        "2027-03-01T10:00:00+25:00",
        "2027-03-01T10:00:00 Europe/Berlin",
        "٢٠٢٧-03-01T10:00:00Z",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+01:00",
        "1899-12-31T23:59:59.999Z",
        "1900-01-01T00:00:00+00:01",
        "9998-12-31T23:59:59-00:01",
        "9999-01-01T00:00:00Z",
        "9999-12-31T23:59:59-23:59",
        "10000-01-01T00:00:00Z",
        "infinity",
        "now",
    ],
    "assigneeId": [1, True, [], {}, "", "x" * 129, "nobody", UNKNOWN],
    "projectId": [1, True, [], {}, "", "x" * 129, "a\0b"],
    "parentId": [1, True, [], {}, "", "x" * 129, "nothing", UNKNOWN],
}
EACH_WRONG = [(field, value) for field, values in WRONG.items() for value in values]


def label(value):
    text = ascii(value)
    return text if len(text) < 40 else f"{len(text)} characters"


@pytest.fixture
def task(alice):
    """A task of Acme with every field set."""
    parent = alice.post("/tasks", {"title": "Parent"}).get_json()
    created = alice.post(
        "/tasks",
        {
            "title": "Write the report",
            "description": "All of it",
            "status": "in_progress",
            "priority": "high",
            "dueDate": "2027-03-01T09:00:00Z",
            "assigneeId": parent["createdBy"],
            "projectId": "apollo",
            "parentId": parent["id"],
        },
    )
    assert created.status_code == 201
    return created.get_json()


@pytest.fixture
def plain(alice):
    """A task of Acme with nothing but a title."""
    return alice.post("/tasks", {"title": "Plain"}).get_json()


def row_of(connection, id):
    return connection.execute("SELECT * FROM tasks WHERE id = %s", (id,)).fetchone()


def fill(connection, cast, count):
    """Many tasks of Acme, past the service."""
    connection.execute(
        "INSERT INTO tasks (workspace_id, title, created_by)"
        " SELECT %s, 'Task ' || n, %s FROM generate_series(1, %s) AS n",
        (cast["acme"], cast["alice"], count),
    )


def titles(response):
    assert response.status_code == 200
    return {task["title"] for task in response.get_json()["data"]}


# Create


def test_alice_creates_a_task_and_reads_it_back(alice, cast, connection):
    created = alice.post(
        "/tasks", {"title": "  Write the report ", "dueDate": "2027-03-01T09:00:00+01:00"}
    )
    assert created.status_code == 201
    task = created.get_json()
    assert created.headers["Location"] == f"/api/tasks/{task['id']}"
    assert task["title"] == "Write the report"
    assert task["dueDate"] == "2027-03-01T08:00:00.000Z"
    assert task["workspaceId"] == cast["acme"]
    assert task["createdBy"] == cast["alice"]
    assert alice.get(f"/tasks/{task['id']}").get_json() == task
    assert connection.execute("SELECT count(*) FROM tasks").fetchone()["count"] == 1


def test_a_task_needs_only_a_title_and_gets_the_defaults(alice, cast, connection):
    task = alice.post("/tasks", {"title": "Plain"}).get_json()
    assert list(task) == FIELDS
    assert task == {
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
    row = row_of(connection, task["id"])
    assert row["created_at"].strftime("%Y-%m-%dT%H:%M:%S") == task["createdAt"][:19]
    assert len(task["createdAt"]) == len("2026-11-20T11:02:43.743Z")


def test_every_field_that_is_sent_is_kept(task, cast, connection):
    row = row_of(connection, task["id"])
    assert task["description"] == row["description"] == "All of it"
    assert task["status"] == row["status"] == "in_progress"
    assert task["priority"] == row["priority"] == "high"
    assert task["dueDate"] == "2027-03-01T09:00:00.000Z"
    assert task["assigneeId"] == str(row["assignee_id"]) == cast["alice"]
    assert task["projectId"] == row["project_id"] == "apollo"
    assert task["parentId"] == str(row["parent_id"])


def test_bob_may_do_all_that_alice_may_do_with_tasks(bob, plain, connection):
    assert bob.get(f"/tasks/{plain['id']}").get_json() == plain
    assert bob.patch(f"/tasks/{plain['id']}", {"title": "Bob's"}).get_json()["title"] == "Bob's"
    assert bob.delete(f"/tasks/{plain['id']}").status_code == 204
    assert row_of(connection, plain["id"]) is None


def test_a_title_is_required(alice, connection):
    assert invalid_field(alice.post("/tasks", {"description": "x"}), "title") == "is required"
    assert connection.execute("SELECT count(*) FROM tasks").fetchone()["count"] == 0


def test_null_is_as_good_as_absent_where_null_is_allowed(alice):
    nulls = dict.fromkeys(["description", "dueDate", "assigneeId", "projectId", "parentId"])
    task = alice.post("/tasks", {"title": "Plain", **nulls})
    assert task.status_code == 201
    assert {task.get_json()[field] for field in nulls} == {None}


@pytest.mark.parametrize(("field", "value"), EACH_WRONG, ids=label)
def test_a_wrong_value_makes_no_task_and_no_change(alice, connection, field, value):
    assert invalid_field(alice.post("/tasks", {"title": "New", field: value}), field)
    assert connection.execute("SELECT count(*) FROM tasks").fetchone()["count"] == 0
    old = alice.post("/tasks", {"title": "Old"}).get_json()
    assert invalid_field(alice.patch(f"/tasks/{old['id']}", {field: value}), field)
    assert alice.get(f"/tasks/{old['id']}").get_json() == old


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("title", "x" * 500),
        ("title", " " * 600 + "x" * 500 + "\n"),
        ("title", "😀" * 500),
        ("title", "Zoë's «первый» 日本語 \u202etask"),
        ("description", ""),
        ("description", "  kept as it is \n"),
        ("description", "x" * 65_536),
        ("projectId", "x"),
        ("projectId", "é" * 128),
    ],
    ids=label,
)
def test_a_value_at_its_limit_is_taken(alice, connection, field, value):
    kept = value.strip() if field == "title" else value
    column = "project_id" if field == "projectId" else field
    created = alice.post("/tasks", {"title": "New", field: value})
    assert created.status_code == 201
    assert created.get_json()[field] == kept
    assert row_of(connection, created.get_json()["id"])[column] == kept
    other = alice.post("/tasks", {"title": "Other"}).get_json()
    assert alice.patch(f"/tasks/{other['id']}", {field: value}).get_json()[field] == kept


@pytest.mark.parametrize(
    ("field", "nearest"),
    [
        ("titel", "title"),
        ("due_date", "dueDate"),
        ("DueDate", "dueDate"),
        ("assignee", "assigneeId"),
        ("projectID", "projectId"),
    ],
)
def test_an_unknown_field_is_refused_and_the_nearest_one_named(alice, plain, field, nearest):
    for answer in (
        alice.post("/tasks", {"title": "New", field: "x"}),
        alice.patch(f"/tasks/{plain['id']}", {field: "x"}),
    ):
        assert invalid_field(answer, field) == f"unknown field; did you mean {nearest}?"
    assert read_all(alice, "/tasks") == [plain]


@pytest.mark.parametrize(
    "field",
    ["id", "workspaceId", "createdBy", "createdAt", "updatedAt", "completedAt", "version"],
)
def test_what_the_service_sets_cannot_be_sent(alice, task, field):
    assert "unknown field" in invalid_field(alice.post("/tasks", {"title": "x", field: "x"}), field)
    answer = alice.patch(f"/tasks/{task['id']}", {field: task[field]})
    assert "unknown field" in invalid_field(answer, field)


def test_all_faults_are_told_at_once(alice):
    answer = alice.post("/tasks", {"status": "x", "priority": 1, "nonsense": 1})
    error_message(answer, 400)
    fields = {fault["field"] for fault in answer.get_json()["errors"]}
    assert fields == {"title", "status", "priority", "nonsense"}


@pytest.mark.parametrize("who", ["charlie", UNKNOWN, "nobody"])
def test_only_a_member_can_be_the_assignee(alice, plain, cast, connection, who):
    assignee = {"assigneeId": cast.get(who, who)}
    for answer in (
        alice.post("/tasks", {"title": "New", **assignee}),
        alice.patch(f"/tasks/{plain['id']}", assignee),
    ):
        assert invalid_field(answer, "assigneeId") == "must be the id of a member of the workspace"
    assert read_all(alice, "/tasks") == [plain]
    assert row_of(connection, plain["id"])["assignee_id"] is None


def test_a_member_can_be_the_assignee_until_he_leaves(alice, cast, connection, plain):
    assigned = alice.patch(f"/tasks/{plain['id']}", {"assigneeId": cast["bob"].upper()})
    assert assigned.get_json()["assigneeId"] == cast["bob"]
    connection.execute("DELETE FROM members WHERE user_id = %s", (cast["bob"],))
    assert alice.get(f"/tasks/{plain['id']}").get_json()["assigneeId"] is None


# Timestamps


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("2027-03-01T09:00:00Z", "2027-03-01T09:00:00.000Z"),
        ("2027-03-01T09:00:00.743Z", "2027-03-01T09:00:00.743Z"),
        ("2027-03-01T09:00:00.5Z", "2027-03-01T09:00:00.500Z"),
        ("2027-03-01T09:00:00.123999Z", "2027-03-01T09:00:00.123Z"),
        ("2027-03-01T09:00:00.999999999Z", "2027-03-01T09:00:00.999Z"),
        ("2027-03-01T09:00:00", "2027-03-01T09:00:00.000Z"),
        ("2027-03-01T09:00", "2027-03-01T09:00:00.000Z"),
        ("2027-03-01T09:00:00+05:30", "2027-03-01T03:30:00.000Z"),
        ("2027-03-01T09:00:00-0800", "2027-03-01T17:00:00.000Z"),
        ("2027-12-31T23:30:00-01:00", "2028-01-01T00:30:00.000Z"),
        ("2028-02-29T12:00:00+14:00", "2028-02-28T22:00:00.000Z"),
        ("1900-01-01T00:00:00Z", "1900-01-01T00:00:00.000Z"),
        ("1899-12-31T23:30:00-01:00", "1900-01-01T00:30:00.000Z"),
        ("1969-12-31T23:59:59.999Z", "1969-12-31T23:59:59.999Z"),
        ("9998-12-31T23:59:59.9999999Z", "9998-12-31T23:59:59.999Z"),
        ("9999-01-01T00:30:00+01:00", "9998-12-31T23:30:00.000Z"),
    ],
)
def test_a_timestamp_is_kept_in_utc_to_the_millisecond(alice, connection, sent, kept):
    created = alice.post("/tasks", {"title": "New", "dueDate": sent})
    assert created.status_code == 201
    task = created.get_json()
    assert task["dueDate"] == kept
    path = f"/tasks/{task['id']}"
    assert alice.patch(path, {"dueDate": None}).get_json()["dueDate"] is None
    assert alice.patch(path, {"dueDate": sent}).get_json()["dueDate"] == kept
    assert alice.patch(path, {"dueDate": kept}).get_json()["version"] == 3
    assert row_of(connection, task["id"])["due_date"].microsecond % 1000 == 0
    # A list and the figures still read.
    assert [task["dueDate"] for task in read_all(alice, "/tasks")] == [kept]
    assert alice.get("/dashboard/stats").get_json()["tasks"]["total"] == 1


# Credentials and ids


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/tasks"),
        ("POST", "/tasks"),
        ("GET", "/tasks/{id}"),
        ("PATCH", "/tasks/{id}"),
        ("DELETE", "/tasks/{id}"),
    ],
)
def test_a_stranger_may_do_nothing_with_tasks(stranger, alice, plain, method, path):
    body = {"title": "Stolen"} if method in ("POST", "PATCH") else None
    answer = stranger.send(method, path.format(**plain), json=body)
    assert "nauthorized" in error_message(answer, 401)
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert read_all(alice, "/tasks") == [plain]


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
def test_an_unknown_a_malformed_and_a_foreign_id_are_the_same_404(alice, charlie, method):
    foreign = charlie.post("/tasks", {"title": "Globex only"}).get_json()
    body = {"title": "Stolen"} if method == "PATCH" else None
    odd = [UNKNOWN, "nothing", "1", "%00", "a%20b", foreign["id"][:-1], "x" * 1000, "٣", "%ff"]
    messages = {
        error_message(alice.send(method, f"/tasks/{id}", json=body), 404)
        for id in [*odd, foreign["id"], foreign["id"].upper()]
    }
    assert messages == {"Task not found"}
    assert read_all(charlie, "/tasks") == [foreign]


# Update


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("title", "Another"),
        ("description", "Less of it"),
        ("status", "todo"),
        ("priority", "low"),
        ("dueDate", "2027-03-02T09:00:00.000Z"),
        ("projectId", "gemini"),
        ("description", None),
        ("dueDate", None),
        ("assigneeId", None),
        ("projectId", None),
        ("parentId", None),
    ],
)
def test_a_change_touches_its_field_only_and_counts_the_version_up(
    alice, task, connection, field, value
):
    connection.execute(
        "UPDATE tasks SET updated_at = '2020-01-01T00:00:00Z', version = 7 WHERE id = %s",
        (task["id"],),
    )
    answer = alice.patch(f"/tasks/{task['id']}", {field: value})
    assert answer.status_code == 200
    changed = answer.get_json()
    assert list(changed) == FIELDS
    assert changed == {**task, field: value, "updatedAt": changed["updatedAt"], "version": 8}
    assert changed["updatedAt"] >= task["createdAt"]
    assert alice.get(f"/tasks/{task['id']}").get_json() == changed
    assert row_of(connection, task["id"])["version"] == 8
    others = connection.execute("SELECT version FROM tasks WHERE id <> %s", (task["id"],))
    assert [row["version"] for row in others] == [1]


def test_several_fields_change_as_one_version(alice, task):
    wanted = {"title": "Another", "priority": "urgent", "dueDate": None}
    changed = alice.patch(f"/tasks/{task['id']}", wanted).get_json()
    assert changed == {**task, **wanted, "updatedAt": changed["updatedAt"], "version": 2}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"title": "Write the report"},
        {"title": "  Write the report\n"},
        {"dueDate": "2027-03-01T10:00:00+01:00"},
        {"dueDate": "2027-03-01T09:00"},
        {"status": "in_progress", "priority": "high", "projectId": "apollo"},
    ],
    ids=str,
)
def test_a_document_that_changes_nothing_writes_nothing(alice, task, connection, changes):
    connection.execute("UPDATE tasks SET updated_at = '2020-01-01T00:00:00Z'")
    before = row_of(connection, task["id"])
    answer = alice.patch(f"/tasks/{task['id']}", changes)
    assert answer.status_code == 200
    assert answer.get_json() == {**task, "updatedAt": "2020-01-01T00:00:00.000Z", "version": 2}
    assert row_of(connection, task["id"]) == before


def test_clearing_what_is_empty_writes_nothing(alice, plain):
    nulls = dict.fromkeys(["description", "dueDate", "assigneeId", "projectId", "parentId"])
    answer = alice.patch(f"/tasks/{plain['id']}", nulls)
    assert answer.status_code == 200
    assert answer.get_json() == plain


def test_a_fault_in_one_field_keeps_the_others_unchanged_too(alice, plain):
    answer = alice.patch(f"/tasks/{plain['id']}", {"title": "Another", "assigneeId": UNKNOWN})
    invalid_field(answer, "assigneeId")
    assert alice.get(f"/tasks/{plain['id']}").get_json() == plain


def test_done_says_since_when_until_it_is_left(alice, plain, connection):
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
def test_a_task_can_begin_in_any_status_and_go_to_any_other(alice, status):
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
    answer = alice.delete(f"/tasks/{plain['id']}")
    assert (answer.status_code, answer.data) == (204, b"")
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
    assert connection.execute("SELECT count(*) FROM tasks").fetchone()["count"] == 2


def test_deleting_a_subtask_keeps_its_parent(alice, task):
    assert alice.delete(f"/tasks/{task['id']}").status_code == 204
    assert [left["id"] for left in read_all(alice, "/tasks")] == [task["parentId"]]


def test_a_subtask_cannot_have_subtasks(alice, task, plain):
    parent = {"parentId": task["id"]}
    for answer in (
        alice.post("/tasks", {"title": "Third level", **parent}),
        alice.patch(f"/tasks/{plain['id']}", parent),
    ):
        assert invalid_field(answer, "parentId") == "must not be the id of a subtask"
    assert alice.get(f"/tasks/{plain['id']}").get_json() == plain


def test_a_task_with_subtasks_cannot_become_one(alice, task, plain):
    path = f"/tasks/{task['parentId']}"
    before = alice.get(path).get_json()
    answer = alice.patch(path, {"parentId": plain["id"]})
    assert invalid_field(answer, "parentId") == "must be null for a task with subtasks"
    assert alice.get(path).get_json() == before


def test_a_task_cannot_be_its_own_parent(alice, plain):
    assert invalid_field(
        alice.patch(f"/tasks/{plain['id']}", {"parentId": plain["id"]}), "parentId"
    )
    assert alice.get(f"/tasks/{plain['id']}").get_json() == plain


def test_a_task_of_another_tenant_cannot_be_the_parent(alice, charlie, plain):
    foreign = charlie.post("/tasks", {"title": "Globex only"}).get_json()
    unknown = invalid_field(alice.post("/tasks", {"title": "New", "parentId": UNKNOWN}), "parentId")
    parent = {"parentId": foreign["id"]}
    assert invalid_field(alice.post("/tasks", {"title": "New", **parent}), "parentId") == unknown
    assert invalid_field(alice.patch(f"/tasks/{plain['id']}", parent), "parentId") == unknown
    assert read_all(alice, "/tasks") == [plain]


def test_a_subtask_can_move_and_become_a_task(alice, task, plain):
    path = f"/tasks/{task['id']}"
    assert alice.patch(path, {"parentId": plain["id"]}).get_json()["parentId"] == plain["id"]
    assert alice.patch(path, {"parentId": None}).get_json()["parentId"] is None
    assert alice.patch(f"/tasks/{plain['id']}", {"parentId": task["id"]}).status_code == 200


# List


def test_the_list_is_newest_first_and_shows_tasks_as_they_are_by_id(alice, task, plain):
    response = alice.get("/tasks")
    assert list(response.get_json()) == ["data", "nextCursor"]
    assert response.get_json()["nextCursor"] is None
    listed = response.get_json()["data"]
    assert [list(item) for item in listed] == [FIELDS] * 3
    assert listed[:2] == [plain, task]


def test_a_workspace_without_tasks_lists_none(alice):
    assert alice.get("/tasks").get_json() == {"data": [], "nextCursor": None}


def test_the_limit_is_50_unless_told_and_never_more_than_200(alice, cast, connection):
    fill(connection, cast, 201)
    for query, count in (
        ({}, 50),
        ({"limit": "1"}, 1),
        ({"limit": "200"}, 200),
        ({"limit": "201"}, 200),
        ({"limit": "9" * 100}, 200),
    ):
        page = alice.get("/tasks", query_string=query).get_json()
        assert len(page["data"]) == count
        assert page["nextCursor"]


@pytest.mark.parametrize("limit", INVALID_LIMITS)
def test_a_limit_that_is_no_whole_number_from_1_is_refused(alice, limit):
    answer = alice.get("/tasks", query_string={"limit": limit})
    assert invalid_field(answer, "limit") == "must be an integer from 1 to 200"


@pytest.mark.parametrize("limit", [1, 3, 7, 8])
@pytest.mark.parametrize("query", [{}, {"priority": "medium"}], ids=["all", "filtered"])
def test_the_pages_hold_every_task_exactly_once(alice, cast, connection, limit, query):
    fill(connection, cast, 7)
    alice.post("/tasks", {"title": "Other", "priority": "low"})
    ids = [task["id"] for task in read_all(alice, "/tasks", limit=limit, **query)]
    assert len(ids) == (7 if query else 8)
    assert ids == sorted(set(ids), reverse=True)


def test_a_page_that_ends_with_the_list_has_no_next_one(alice, cast, connection):
    fill(connection, cast, 2)
    assert alice.get("/tasks?limit=2").get_json()["nextCursor"] is None
    assert alice.get("/tasks?limit=1").get_json()["nextCursor"] is not None


def test_the_next_page_keeps_the_filters(alice, cast, connection):
    fill(connection, cast, 3)
    alice.post("/tasks", {"title": "x", "projectId": "a&b=c d/é"})
    alice.post("/tasks", {"title": "y", "projectId": "a&b=c d/é"})
    found = read_all(alice, "/tasks", projectId="a&b=c d/é", limit=1)
    assert [task["title"] for task in found] == ["y", "x"]


@pytest.mark.parametrize("query", [{}, {"status": "todo"}], ids=["all", "filtered"])
def test_a_cursor_works_after_its_task_is_deleted(alice, cast, connection, query):
    fill(connection, cast, 4)
    everything = read_all(alice, "/tasks")
    first = alice.get("/tasks", query_string={"limit": 2, **query}).get_json()
    for task in first["data"]:
        assert alice.delete(f"/tasks/{task['id']}").status_code == 204
    created = alice.post("/tasks", {"title": "Newer"})
    assert created.status_code == 201
    rest = alice.get("/tasks", query_string={"cursor": first["nextCursor"], **query}).get_json()
    assert rest == {"data": everything[2:], "nextCursor": None}


@pytest.mark.parametrize(
    "cursor",
    ["", "x", "0", "null", UNKNOWN, "0." + "a" * 32, "g" * 32, "٣" * 32, "a" * 33, "%00", "' OR 1"],
)
def test_a_cursor_that_was_never_given_is_refused(alice, cursor):
    answer = alice.get("/tasks", query_string={"cursor": cursor})
    assert invalid_field(answer, "cursor") == "must be the nextCursor of an earlier response"


@pytest.fixture
def various(alice, bob, cast):
    """Four tasks that differ in all that lists filter by; a is the parent of b."""
    parent = None
    for title, status, priority, project, assignee in (
        ("a", "todo", "urgent", "apollo", "alice"),
        ("b", "todo", "high", "apollo", "bob"),
        ("c", "in_progress", "low", "gemini", "bob"),
        ("d", "done", "high", None, None),
    ):
        created = alice.post(
            "/tasks",
            {
                "title": title,
                "status": status,
                "priority": priority,
                "projectId": project,
                "assigneeId": assignee and cast[assignee],
                "parentId": parent if title == "b" else None,
            },
        )
        assert created.status_code == 201
        parent = parent or created.get_json()["id"]
    return {**cast, "a": parent, "unknown": UNKNOWN}


@pytest.mark.parametrize(
    ("query", "found"),
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
def test_filters_show_what_passes_all_of_them(alice, various, query, found):
    assert titles(alice.get(f"/tasks?{query.format(**various)}")) == set(found)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("status", "open"),
        ("status", ""),
        ("status", "todo,done"),
        ("priority", "HIGH"),
        ("priority", ""),
        ("assignee", ""),
        ("assignee", "x" * 129),
        ("projectId", ""),
        ("projectId", "x" * 129),
        ("projectId", "\0"),
        ("parentId", ""),
    ],
)
def test_a_wrong_filter_is_refused(alice, name, value):
    assert invalid_field(alice.get("/tasks", query_string={name: value}), name)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("statuses", "status"),
        ("assigneeId", "assignee"),
        ("project_id", "projectId"),
        ("Limit", "limit"),
    ],
)
def test_an_unknown_query_parameter_is_refused_and_the_nearest_one_named(alice, name, nearest):
    answer = alice.get("/tasks", query_string={name: "1"})
    assert invalid_field(answer, name) == f"unknown query parameter; did you mean {nearest}?"


def test_a_parameter_that_stands_twice_is_refused(alice):
    assert invalid_field(alice.get("/tasks?status=todo&status=done"), "status")


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
def test_one_task_takes_no_query(alice, plain, method):
    body = {"title": "Renamed"} if method == "PATCH" else None
    assert invalid_field(alice.send(method, f"/tasks/{plain['id']}?force=1", json=body), "force")
    assert invalid_field(alice.post("/tasks?dry=1", {"title": "New"}), "dry")
    assert read_all(alice, "/tasks") == [plain]


def test_only_the_active_workspace_is_listed(alice, cast, connection, plain):
    initech = insert(connection, "workspaces", name="Initech", slug="initech", plan="Team")
    insert_member(connection, initech, cast["alice"], "owner")
    assert read_all(alice, "/tasks") == [plain]
    connection.execute(
        "UPDATE users SET active_workspace_id = %s WHERE id = %s", (initech, cast["alice"])
    )
    assert read_all(alice, "/tasks") == []
    assert alice.post("/tasks", {"title": "New"}).get_json()["workspaceId"] == initech
    assert len(read_all(alice, "/tasks")) == 1


# At the same moment


def test_two_changes_of_different_fields_both_survive(alice, bob, plain, together, connection):
    path = f"/tasks/{plain['id']}"
    answers = together(
        "tasks",
        plain["id"],
        lambda: alice.patch(path, {"title": "Alice's"}),
        lambda: bob.patch(path, {"status": "done"}),
        lambda: bob.patch(path, {"projectId": "apollo"}),
    )
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert sorted(answer.get_json()["version"] for answer in answers) == [2, 3, 4]
    row = row_of(connection, plain["id"])
    assert (row["title"], row["status"], row["project_id"]) == ("Alice's", "done", "apollo")
    assert row["version"] == 4
    assert row["completed_at"]


def test_the_same_status_set_twice_at_once_is_one_change(alice, bob, plain, together):
    path = f"/tasks/{plain['id']}"
    answers = together(
        "tasks",
        plain["id"],
        *(lambda who=who: who.patch(path, {"status": "done"}) for who in (alice, bob)),
    )
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].get_json() == answers[1].get_json() == alice.get(path).get_json()
    assert answers[0].get_json()["version"] == 2


@pytest.mark.parametrize("first", ["PATCH", "DELETE"])
def test_a_change_and_a_removal_at_once_leave_nothing(
    alice, bob, plain, together, connection, first
):
    path = f"/tasks/{plain['id']}"
    calls = {
        "PATCH": lambda: alice.patch(path, {"title": "Renamed"}),
        "DELETE": lambda: bob.delete(path),
    }
    order = [first, *(calls.keys() - {first})]
    answers = together("tasks", plain["id"], *(calls[method] for method in order))
    statuses = dict(zip(order, (answer.status_code for answer in answers), strict=True))
    assert statuses["DELETE"] == 204
    assert statuses["PATCH"] == (200 if first == "PATCH" else 404)
    assert row_of(connection, plain["id"]) is None


def test_two_removals_at_once_are_one_removal(alice, bob, plain, together, connection):
    path = f"/tasks/{plain['id']}"
    answers = together("tasks", plain["id"], lambda: alice.delete(path), lambda: bob.delete(path))
    assert sorted(answer.status_code for answer in answers) == [204, 404]
    assert row_of(connection, plain["id"]) is None


@pytest.mark.parametrize("first", ["POST", "DELETE"])
def test_a_subtask_made_while_its_parent_goes_is_refused_or_goes_too(
    alice, bob, plain, together, connection, first
):
    calls = {
        "POST": lambda: alice.post("/tasks", {"title": "Sub", "parentId": plain["id"]}),
        "DELETE": lambda: bob.delete(f"/tasks/{plain['id']}"),
    }
    order = [first, *(calls.keys() - {first})]
    answers = together("tasks", plain["id"], *(calls[method] for method in order))
    statuses = dict(zip(order, (answer.status_code for answer in answers), strict=True))
    left = connection.execute("SELECT count(*) FROM tasks").fetchone()["count"]
    assert (statuses["POST"], statuses["DELETE"], left) in [
        (400, 204, 0),
        (201, 204, 0),
        # The removal met a subtask that it could not know of: 409, and nothing is lost.
        (201, 409, 2),
    ]


def test_two_tasks_cannot_become_each_others_parent_at_once(alice, bob, together, connection):
    one, other = (alice.post("/tasks", {"title": name}).get_json()["id"] for name in "ab")
    answers = together(
        "tasks",
        one,
        lambda: alice.patch(f"/tasks/{one}", {"parentId": other}),
        lambda: bob.patch(f"/tasks/{other}", {"parentId": one}),
    )
    # One of them wins; the other one has met a conflict, and the database is there all the time.
    assert sorted(answer.status_code for answer in answers) in ([200, 400], [200, 409])
    rows = connection.execute("SELECT parent_id FROM tasks").fetchall()
    assert [row["parent_id"] for row in rows].count(None) == 1
