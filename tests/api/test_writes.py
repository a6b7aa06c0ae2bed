"""Writes: the promises of POST and PATCH for every resource; tables of values drive each test."""

from contextlib import contextmanager

import pytest
from client import UNKNOWN, count, invalid_field, label, row_of
from receivers import subscribe

TIMES = {"startTime": "2097-03-01T09:00:00.000Z", "endTime": "2097-03-01T10:00:00.000Z"}
# The fields that POST requires.
REQUIRED = {"tasks": {"title": "New"}, "meetings": {"title": "New", **TIMES}}
FULL = {
    "tasks": {
        "title": "Write the report",
        "description": "All of it",
        "status": "in_progress",
        "priority": "high",
        "dueDate": "2027-03-01T09:00:00.000Z",
        "projectId": "apollo",
    },
    "meetings": {
        "title": "Weekly",
        **TIMES,
        "platform": "zoom",
        "attendees": ["ada@example.com", "Bob@example.com"],
        "agenda": "Everything",
        "notes": "Bring cake",
    },
}


@pytest.fixture
def create(alice, bob, cast):
    """Create an object with every field set, and return it as its path shows it."""

    def create(resource):
        if resource == "workspaces":
            return alice.get(f"/workspaces/{cast['acme']}").get_json()
        more = {}
        if resource == "tasks":
            parent = alice.post("/tasks", {"title": "Parent"}).get_json()["id"]
            more = {"assigneeId": cast["bob"], "parentId": parent}
        response = alice.post(f"/{resource}", {**FULL[resource], **more})
        assert response.status_code == 201
        created = response.get_json()
        assert created.items() >= {**FULL[resource], **more}.items()
        assert response.headers["Location"] == f"/api/{resource}/{created['id']}"
        assert bob.get(f"/{resource}/{created['id']}").get_json() == created
        return created

    return create


@pytest.fixture
def unchanged(connection):
    """A context in which the row with this id, and the number of rows, must stay as they are."""

    @contextmanager
    def unchanged(resource, id):
        before = row_of(connection, resource, id), count(connection, resource)
        yield
        assert (row_of(connection, resource, id), count(connection, resource)) == before

    return unchanged


# Valid changes of two fields.
CHANGES = {
    "tasks": {"title": "Another", "priority": "low"},
    "meetings": {"title": "Another", "notes": "Others"},
    "workspaces": {"name": "Another", "timezone": "Asia/Tokyo"},
}


@pytest.mark.parametrize(
    ("resource", "field"),
    [(resource, field) for resource in REQUIRED for field in REQUIRED[resource]],
)
def test_a_required_field_must_be_there(alice, connection, resource, field):
    body = {name: value for name, value in FULL[resource].items() if name != field}
    assert invalid_field(alice.post(f"/{resource}", body), field) == "is required"
    assert count(connection, resource) == 0


UNKNOWN_FIELDS = {
    "tasks": {
        "titel": "did you mean title?", "due_date": "did you mean dueDate?",
        "DueDate": "did you mean dueDate?", "assignee": "did you mean assigneeId?",
        "projectID": "did you mean projectId?", "created_at": "", "Version": "",
    },
    "meetings": {
        "start_time": "did you mean startTime?", "end_time": "did you mean endTime?",
        "atendees": "did you mean attendees?", "note": "did you mean notes?",
    },
    "workspaces": {
        "nmae": "did you mean name?", "timeZone": "did you mean timezone?",
        "members": "allowed: name, timezone", "workspaceId": "allowed: name, timezone",
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("resource", "field", "hint"),
    [(resource, *item) for resource, hints in UNKNOWN_FIELDS.items() for item in hints.items()],
)
def test_an_unknown_field_is_400_with_a_hint(alice, create, unchanged, resource, field, hint):
    old = create(resource)
    with unchanged(resource, old["id"]):
        responses = [alice.patch(f"/{resource}/{old['id']}", {**CHANGES[resource], field: "x"})]
        if resource in REQUIRED:
            responses.append(alice.post(f"/{resource}", {**REQUIRED[resource], field: "x"}))
    for response in responses:
        message = invalid_field(response, field)
        assert message.startswith("unknown field; ")
        assert message.endswith(hint)


# Read-only fields


COMMON = ["id", "workspaceId", "createdBy", "createdAt", "updatedAt", "version"]
READ_ONLY = {
    "tasks": [*COMMON, "completedAt"],
    "meetings": COMMON,
    "workspaces": ["id", "slug", "plan", "memberCount", "createdAt"],
}
OUTCOME = {"summary": "Done", "actionItems": ["Rest"], "decisions": []}


@pytest.mark.parametrize(("resource", "field"), [(r, f) for r in REQUIRED for f in READ_ONLY[r]])
def test_a_read_only_field_of_a_new_object_is_400(alice, connection, resource, field):
    for value in (None, "x", 1, UNKNOWN):
        response = alice.post(f"/{resource}", {**REQUIRED[resource], field: value})
        assert invalid_field(response, field) == "is read-only; the service sets it"
    assert count(connection, resource) == 0


@pytest.mark.parametrize(("resource", "field"), [(r, f) for r in READ_ONLY for f in READ_ONLY[r]])
def test_a_change_ignores_any_value_of_a_read_only_field(alice, create, unchanged, resource, field):
    old = create(resource)
    with unchanged(resource, old["id"]):
        for value in (None, "x", "", 2, -1, True, [], {}, UNKNOWN, "2020-01-01T00:00:00Z"):
            response = alice.patch(f"/{resource}/{old['id']}", {field: value})
            assert (value, response.status_code, response.get_json()) == (value, 200, old)


def read_everywhere(client, resource, old):
    """The object as a change, its path and a list show it."""
    path = f"/{resource}/{old['id']}"
    listed = client.get(f"/{resource}").get_json()
    items = listed if resource == "workspaces" else listed["data"]
    yield client.patch(path, {}).get_json()
    yield client.get(path).get_json()
    yield next(item for item in items if item["id"] == old["id"])


@pytest.mark.parametrize("state", ["as created", "changed", "completed"])
@pytest.mark.parametrize("resource", READ_ONLY)
def test_an_object_can_be_sent_back_as_it_was_read_and_nothing_changes(
    alice, cast, connection, create, unchanged, resource, state
):
    old = create(resource)
    path = f"/{resource}/{old['id']}"
    if state != "as created":
        completion = {"tasks": {"status": "done"}, "meetings": {"status": "completed", **OUTCOME}}
        more = completion.get(resource, {}) if state == "completed" else {}
        old = alice.patch(path, {**CHANGES[resource], **more}).get_json()
        assert old.items() >= more.items()
    subscribe(connection, cast["acme"], "https://example.com/hook")
    etag = alice.get(path).headers["ETag"]
    with unchanged(resource, old["id"]):
        for number, sent in enumerate([old, *read_everywhere(alice, resource, old)]):
            assert sent.items() <= old.items()
            for headers in ({}, {"If-Match": etag}, {"Idempotency-Key": f"key-{number}"}):
                response = alice.patch(path, sent, headers=headers)
                assert (response.status_code, response.get_json()) == (200, old)
                assert response.headers["ETag"] == etag
    assert count(connection, "events") == 0


@pytest.mark.parametrize("resource", READ_ONLY)
def test_an_old_object_can_be_sent_back_with_one_change_and_its_version_locks_nothing(
    alice, create, resource
):
    old = create(resource)
    path = f"/{resource}/{old['id']}"
    assert alice.patch(path, CHANGES[resource]).status_code == 200
    change = {"name": "Late"} if resource == "workspaces" else {"title": "Late"}
    response = alice.patch(path, {**old, **change})
    assert response.status_code == 200
    changed = response.get_json()
    moved = {"updatedAt": changed["updatedAt"], "version": 3} if "version" in old else {}
    assert changed == {**old, **change, **moved}


def test_a_completed_meeting_stays_completed(alice, create, unchanged):
    meeting = create("meetings")
    path = f"/meetings/{meeting['id']}"
    assert alice.patch(path, {"status": "completed"}).status_code == 200
    with unchanged("meetings", meeting["id"]):
        for sent in ({"status": "scheduled"}, meeting):
            assert invalid_field(alice.patch(path, sent), "status") == "must stay completed"


def test_two_who_send_back_the_same_version_at_once_both_change_their_field(
    alice, bob, create, together
):
    task = create("tasks")
    path = f"/tasks/{task['id']}"
    fields = {name: task[name] for name in READ_ONLY["tasks"]}
    responses = together(
        "tasks",
        task["id"],
        lambda: alice.patch(path, {**fields, "title": "Another"}),
        lambda: bob.patch(path, {**fields, "priority": "low"}),
    )
    assert [response.status_code for response in responses] == [200, 200]
    changed = {"title": "Another", "priority": "low", "version": 3}
    assert alice.get(path).get_json().items() >= changed.items()


# Changes


@pytest.mark.parametrize(
    ("resource", "changes"),
    [
        ("tasks", {}),
        ("tasks", {"title": "Write the report"}),
        ("tasks", {"title": "  Write the report\n"}),
        ("tasks", {"dueDate": "2027-03-01T10:00:00+01:00"}),
        ("tasks", {"dueDate": "2027-03-01T09:00"}),
        ("tasks", {"status": "in_progress", "priority": "high", "projectId": "apollo"}),
        ("meetings", {}),
        ("meetings", {"title": " Weekly "}),
        ("meetings", {"startTime": "2097-03-01T10:00:00+01:00", "endTime": "2097-03-01T10:00"}),
        ("meetings", {"attendees": FULL["meetings"]["attendees"], "platform": "zoom"}),
        ("meetings", {"summary": None}),
        ("meetings", {"status": "scheduled"}),
        ("meetings", {"actionItems": [], "decisions": []}),
        ("workspaces", {}),
        ("workspaces", {"name": "Acme"}),
        ("workspaces", {"name": " Acme ", "timezone": "UTC"}),
    ],
    ids=label,
)
def test_a_body_that_changes_nothing_writes_nothing(alice, create, unchanged, resource, changes):
    old = create(resource)
    with unchanged(resource, old["id"]):
        response = alice.patch(f"/{resource}/{old['id']}", changes)
    assert (response.status_code, response.get_json()) == (200, old)


@pytest.mark.parametrize("resource", REQUIRED)
def test_a_deletion_announces_what_was_deleted(alice, cast, connection, create, resource):
    old = create(resource)
    subscribe(connection, cast["acme"], "https://example.com/hook")
    assert alice.delete(f"/{resource}/{old['id']}").status_code == 204
    (event,) = connection.execute("SELECT type, body::json -> 'data' AS data FROM events")
    assert event == {"type": f"{resource.removesuffix('s')}.deleted", "data": old}
