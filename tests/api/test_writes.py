"""Writes: unknown fields get a hint, and a body that changes nothing writes nothing."""

import pytest
from client import count, invalid_field, label, row_of

TIMES = {"startTime": "2097-03-01T09:00:00.000Z", "endTime": "2097-03-01T10:00:00.000Z"}
NEW = {
    "tasks": {
        "title": "Write the report",
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
    },
}


@pytest.fixture
def create(alice, cast):
    """Create an object, and return it as its path shows it; the workspace is there."""

    def create(resource):
        if resource == "workspaces":
            return alice.get(f"/workspaces/{cast['acme']}").get_json()
        created = alice.post(f"/{resource}", NEW[resource]).get_json()
        assert created.items() >= NEW[resource].items()
        return created

    return create


@pytest.mark.parametrize(
    ("resource", "field", "hint"),
    [
        ("tasks", "titel", "did you mean title?"), ("tasks", "due_date", "did you mean dueDate?"),
        ("tasks", "DueDate", "did you mean dueDate?"), ("tasks", "Version", ""),
        ("tasks", "assignee", "did you mean assigneeId?"), ("tasks", "created_at", ""),
        ("meetings", "end_time", "did you mean endTime?"),
        ("workspaces", "timeZone", "did you mean timezone?"),
        ("workspaces", "members", "allowed: name, timezone"),
        ("workspaces", "workspaceId", "allowed: name, timezone"),
    ],
)  # fmt: skip
def test_an_unknown_field_is_400_with_a_hint(alice, create, connection, resource, field, hint):
    old = create(resource)
    before = row_of(connection, resource, old["id"]), count(connection, resource)
    body = {**NEW.get(resource, {}), field: "x"}
    responses = [alice.patch(f"/{resource}/{old['id']}", body)]
    if resource in NEW:
        responses.append(alice.post(f"/{resource}", body))
    for response in responses:
        message = invalid_field(response, field)
        assert message.startswith("unknown field; ")
        assert message.endswith(hint)
    assert (row_of(connection, resource, old["id"]), count(connection, resource)) == before


@pytest.mark.parametrize(
    ("resource", "changes"),
    [
        ("tasks", {"title": "  Write the report\n"}),
        ("tasks", {"dueDate": "2027-03-01T10:00:00+01:00"}),
        ("tasks", {"dueDate": "2027-03-01T09:00"}),
        ("meetings", {"startTime": "2097-03-01T10:00:00+01:00", "endTime": "2097-03-01T10:00"}),
        ("meetings", {"summary": None, "actionItems": [], "decisions": []}),
        ("meetings", {"status": "scheduled"}),
        ("workspaces", {"name": " Acme ", "timezone": "UTC"}),
    ],
    ids=label,
)
def test_a_body_that_changes_nothing_writes_nothing(alice, create, connection, resource, changes):
    old = create(resource)
    before = row_of(connection, resource, old["id"])
    response = alice.patch(f"/{resource}/{old['id']}", changes)
    assert (response.status_code, response.get_json()) == (200, old)
    assert row_of(connection, resource, old["id"]) == before
