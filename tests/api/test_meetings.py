"""Meetings: start and end, completion, and lists of several workspaces."""

from datetime import UTC, datetime, timedelta

import pytest
from support.http import error_message, ids, invalid_field, read_all
from support.rows import UNKNOWN, count, row_of

OUTCOME = {
    "summary": "It went well",
    "actionItems": ["Write the minutes", "Book a room"],
    "decisions": ["Go on"],
}
COMPLETION = {"status": "completed", **OUTCOME}
NEW = {"title": "Weekly", "startTime": "2097-03-01T09:00:00Z", "endTime": "2097-03-01T10:00:00Z"}


@pytest.fixture
def meeting(alice):
    created = alice.post("/meetings", {**NEW, "platform": "zoom", "notes": "Bring cake"})
    assert created.status_code == 201
    return created.get_json()


def test_a_new_meeting_needs_only_a_title_and_two_times_and_gets_the_defaults(
    alice, cast, connection
):
    created = alice.post("/meetings", {**NEW, "title": "  Weekly\n"})
    assert created.status_code == 201
    meeting = created.get_json()
    expected = {
        **{"id": meeting["id"], "workspaceId": cast["acme"], "title": "Weekly"},
        "startTime": "2097-03-01T09:00:00.000Z",
        "endTime": "2097-03-01T10:00:00.000Z",
        **dict.fromkeys(["platform", "agenda", "notes"]),
        **{"attendees": [], "status": "scheduled", "createdBy": cast["alice"], "version": 1},
        **dict.fromkeys(["createdAt", "updatedAt"], meeting["createdAt"]),
    }
    assert meeting.items() >= expected.items()
    assert alice.get(f"/meetings/{meeting['id']}").get_json() == meeting
    row = row_of(connection, "meetings", meeting["id"])
    assert str(row["workspace_id"]) == cast["acme"]
    assert (row["title"], row["status"], row["attendees"]) == ("Weekly", "scheduled", [])
    assert row["start_time"] == datetime(2097, 3, 1, 9, tzinfo=UTC)


@pytest.mark.parametrize("field", ["status", "summary", "actionItems", "decisions"])
def test_a_new_meeting_cannot_be_completed(alice, connection, field):
    response = alice.post("/meetings", {**NEW, field: COMPLETION[field]})
    expected = "is read-only; the service sets it" if field == "status" else "unknown field; "
    assert invalid_field(response, field).startswith(expected)
    assert count(connection, "meetings") == 0


NINE, TEN = NEW["startTime"], NEW["endTime"]


@pytest.mark.parametrize(
    "changes",
    [
        {"endTime": NINE},
        {"endTime": "2097-03-01T08:59:59.999Z"},
        {"endTime": "2097-03-01T10:00:00+01:00"},
        {"endTime": "2097-03-01T09:00:00.0009Z"},
        {"startTime": TEN},
        {"startTime": "2097-03-02T09:00:00Z", "title": "Later"},
        {"startTime": "2097-03-02T09:00:00Z", "endTime": "2097-03-02T08:00:00Z"},
    ],
    ids=str,
)
def test_a_meeting_cannot_end_before_it_starts(alice, connection, meeting, changes):
    for response in (
        alice.post("/meetings", {**NEW, **changes}),
        alice.patch(f"/meetings/{meeting['id']}", changes),
    ):
        assert invalid_field(response, "endTime") == "must be after startTime"
    assert count(connection, "meetings") == 1
    assert alice.get(f"/meetings/{meeting['id']}").get_json() == meeting


def test_one_patch_can_change_both_times_of_a_meeting(alice, meeting):
    times = {"startTime": "2097-04-01T09:00:00.000Z", "endTime": "2097-04-01T09:00:00.001Z"}
    changed = alice.patch(f"/meetings/{meeting['id']}", times).get_json()
    assert changed == {**meeting, **times, "updatedAt": changed["updatedAt"], "version": 2}


def test_two_changes_at_the_same_time_cannot_make_a_meeting_end_before_it_starts(
    alice, bob, meeting, together
):
    path = f"/meetings/{meeting['id']}"
    responses = together(
        "meetings",
        meeting["id"],
        lambda: alice.patch(path, {"startTime": "2097-03-01T09:40:00Z"}),
        lambda: bob.patch(path, {"endTime": "2097-03-01T09:20:00Z"}),
    )
    assert sorted(response.status_code for response in responses) == [200, 400]
    changed = alice.get(path).get_json()
    assert (changed["startTime"] < changed["endTime"], changed["version"]) == (True, 2)


def test_a_member_can_change_meetings_of_each_of_their_workspaces(
    alice, bob, connection, initech, insert_into
):
    id = insert_into("meetings", initech)
    assert alice.get(f"/meetings/{id}").get_json()["workspaceId"] == initech
    assert alice.patch(f"/meetings/{id}", {"title": "Renamed"}).get_json()["title"] == "Renamed"
    error_message(bob.get(f"/meetings/{id}"), 404)
    error_message(bob.patch(f"/meetings/{id}", {"title": "Stolen"}), 404)
    assert row_of(connection, "meetings", id)["title"] == "Renamed"


def test_a_completed_meeting_shows_its_outcome_at_its_own_path_but_not_in_lists(
    alice, meeting, connection, cast
):
    path = f"/meetings/{meeting['id']}"
    response = alice.patch(path, COMPLETION)
    assert response.status_code == 200
    completed = response.get_json()
    assert list(completed) == [*meeting, *OUTCOME]
    changes = {**COMPLETION, "updatedAt": completed["updatedAt"], "version": 2}
    assert completed == {**meeting, **changes}
    assert alice.get(path).get_json() == completed
    row = row_of(connection, "meetings", meeting["id"])
    assert (row["status"], row["summary"]) == ("completed", OUTCOME["summary"])
    assert [row["action_items"], row["decisions"]] == [OUTCOME["actionItems"], OUTCOME["decisions"]]
    shown = {field: completed[field] for field in meeting}
    for query in ({}, {"upcoming": "true"}, {"workspaceId": cast["acme"]}):
        (listed,) = read_all(alice, "/meetings", **query)
        assert list(listed) == list(meeting)
        assert listed == shown


def test_completing_a_meeting_twice_is_one_change_and_its_outcome_can_be_changed_later(
    alice, meeting
):
    path = f"/meetings/{meeting['id']}"
    completed = alice.patch(path, COMPLETION).get_json()
    assert alice.patch(path, COMPLETION).get_json() == completed
    assert alice.patch(path, {"status": "completed"}).get_json() == completed
    later = {"summary": None, "actionItems": ["Only this"], "decisions": [], "notes": "More"}
    changed = alice.patch(path, later).get_json()
    assert changed == {**completed, **later, "updatedAt": changed["updatedAt"], "version": 3}
    assert alice.get(path).get_json() == changed


def test_a_meeting_completed_without_an_outcome_stays_completed(alice, connection, meeting):
    path = f"/meetings/{meeting['id']}"
    completed = alice.patch(path, {"status": "completed"}).get_json()
    assert list(completed) == [*meeting, *OUTCOME]
    assert completed.items() >= {"summary": None, "actionItems": [], "decisions": []}.items()
    before = row_of(connection, "meetings", meeting["id"])
    for sent in ({"status": "scheduled"}, meeting):
        assert invalid_field(alice.patch(path, sent), "status") == "must stay completed"
    assert row_of(connection, "meetings", meeting["id"]) == before


@pytest.mark.parametrize("field", list(OUTCOME))
def test_setting_an_outcome_of_a_scheduled_meeting_gets_400(alice, meeting, connection, field):
    path = f"/meetings/{meeting['id']}"
    before = row_of(connection, "meetings", meeting["id"])
    for other in ({"title": "Renamed"}, {"status": "scheduled"}):
        response = alice.patch(path, {field: OUTCOME[field], **other})
        assert "status completed" in invalid_field(response, field)
    assert row_of(connection, "meetings", meeting["id"]) == before
    assert alice.get(path).get_json() == meeting


@pytest.mark.parametrize("upcoming", ["true", "false"])
def test_the_list_of_meetings_can_be_limited_to_one_workspace(
    alice, cast, initech, insert_into, upcoming
):
    acme, other = insert_into("meetings"), insert_into("meetings", initech)
    insert_into("meetings", "globex", "charlie")
    for workspace_id, expected in {
        cast["acme"]: [acme], initech: [other], initech.upper(): [other],
        cast["globex"]: [], UNKNOWN: [],
    }.items():  # fmt: skip
        query = {"workspaceId": workspace_id, "upcoming": upcoming}
        assert ids(read_all(alice, "/meetings", **query)) == expected


@pytest.mark.parametrize("upcoming", ["true", "false"])
def test_a_range_of_meetings_includes_from_and_excludes_to(alice, insert_into, upcoming):
    start = datetime(2097, 1, 1, 12, tzinfo=UTC)
    rows = [
        insert_into("meetings", start_time=start + n * timedelta(milliseconds=1)) for n in range(3)
    ]
    bounds = {"from": "2097-01-01T12:00:00.001Z", "to": "2097-01-01T12:00:00.002Z"}
    for names, expected in (("from", "to"), rows[1:2]), (("from",), rows[1:]), (("to",), rows[:2]):
        query = {name: bounds[name] for name in names}
        assert {*ids(read_all(alice, "/meetings", upcoming=upcoming, **query))} == {*expected}
    for end in bounds["from"], "2097-01-01T12:00:00Z":
        response = alice.get("/meetings", query_string={**bounds, "to": end, "upcoming": upcoming})
        assert invalid_field(response, "from") == "must be before the value of to"


def test_upcoming_meetings_start_in_the_future_and_come_soonest_first(alice, initech, insert_into):
    now = datetime.now(UTC).replace(microsecond=0)
    steps = [timedelta(days=-30), timedelta(minutes=-5), timedelta(minutes=5), timedelta(days=30)]
    past, running, soon, later = (
        insert_into("meetings", start_time=now + step, end_time=now + step + timedelta(hours=1))
        for step in steps
    )
    between = insert_into("meetings", initech, start_time=now + timedelta(days=1))
    assert ids(read_all(alice, "/meetings", upcoming="true")) == [soon, between, later]
    everything = [later, between, soon, running, past]
    assert ids(read_all(alice, "/meetings", upcoming="false")) == everything
    assert ids(read_all(alice, "/meetings")) == everything


@pytest.mark.parametrize(
    "attendees", [None, "ada@example.com", ["ada"], ["ada@example.com", "Ada@Example.com"]]
)
def test_a_meeting_gets_400_if_its_attendees_are_not_a_list_of_distinct_addresses(alice, attendees):
    response = alice.post("/meetings", {**NEW, "attendees": attendees})
    assert invalid_field(response, "attendees")
