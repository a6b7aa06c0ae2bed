"""Writes: unknown fields get a hint, and a body that changes nothing writes nothing."""

import pytest
from support.http import invalid_field, label
from support.rows import count, row_of

NEW = {
    "tasks": {"title": "Write the report", "dueDate": "2027-03-01T09:00:00.000Z"},
    "meetings": {
        "title": "Weekly",
        "startTime": "2097-03-01T09:00:00.000Z",
        "endTime": "2097-03-01T10:00:00.000Z",
    },
}


@pytest.mark.parametrize(
    ("resource", "field", "hint"),
    [
        ("tasks", "titel", "did you mean title?"), ("tasks", "due_date", "did you mean dueDate?"),
        ("tasks", "DueDate", "did you mean dueDate?"), ("tasks", "Version", ""),
        ("tasks", "assignee", "did you mean assigneeId?"), ("tasks", "created_at", ""),
        ("meetings", "end_time", "did you mean endTime?"),
    ],
)  # fmt: skip
def test_an_unknown_field_gets_400_with_a_hint(alice, connection, resource, field, hint):
    old = alice.post(f"/{resource}", NEW[resource]).get_json()
    before = row_of(connection, resource, old["id"])
    body = {**NEW[resource], field: "x"}
    for response in (
        alice.patch(f"/{resource}/{old['id']}", body),
        alice.post(f"/{resource}", body),
    ):
        message = invalid_field(response, field)
        assert message.startswith("unknown field; ")
        assert message.endswith(hint)
    assert (row_of(connection, resource, old["id"]), count(connection, resource)) == (before, 1)


def test_an_unknown_field_that_resembles_no_field_gets_400_and_the_message_lists_the_fields(
    alice, cast
):
    response = alice.patch(f"/workspaces/{cast['acme']}", {"members": "x"})
    assert invalid_field(response, "members") == "unknown field; allowed: name, timezone"


@pytest.mark.parametrize(
    ("resource", "changes"),
    [
        ("tasks", {"title": "  Write the report\n"}),
        ("tasks", {"dueDate": "2027-03-01T10:00:00+01:00"}),
        ("tasks", {"dueDate": "2027-03-01T09:00"}),
        ("meetings", {"startTime": "2097-03-01T10:00:00+01:00", "endTime": "2097-03-01T10:00"}),
        ("meetings", {"summary": None, "actionItems": [], "decisions": []}),
        ("meetings", {"status": "scheduled"}),
    ],
    ids=label,
)
def test_a_write_whose_body_changes_nothing_does_not_touch_the_row(
    alice, connection, resource, changes
):
    old = alice.post(f"/{resource}", NEW[resource]).get_json()
    before = row_of(connection, resource, old["id"])
    response = alice.patch(f"/{resource}/{old['id']}", changes)
    assert (response.status_code, response.get_json()) == (200, old)
    assert row_of(connection, resource, old["id"]) == before
