"""Meetings: the checklist of every endpoint, then what is special about meetings."""

from datetime import UTC, datetime, timedelta

import pytest
from client import INVALID_LIMITS, error_message, insert, insert_member, invalid_field, read_all

FIELDS = [
    "id",
    "workspaceId",
    "title",
    "startTime",
    "endTime",
    "platform",
    "attendees",
    "agenda",
    "notes",
    "status",
    "createdBy",
    "createdAt",
    "updatedAt",
    "version",
]
OUTCOME = {
    "summary": "It went well",
    "actionItems": ["Write the minutes", "Book a room"],
    "decisions": ["Go on"],
}
COMPLETION = {"status": "completed", **OUTCOME}
UNKNOWN = "01890000-0000-7000-8000-000000000000"
LONG = "x" * 65_537
NEW = {
    "title": "Weekly",
    "startTime": "2097-03-01T09:00:00Z",
    "endTime": "2097-03-01T10:00:00Z",
}
MOMENTS = [
    None,
    1,
    True,
    [],
    {},
    "",
    "tomorrow",
    "2097-03-01",
    "2097-02-30T10:00:00Z",
    "1899-12-31T23:59:59Z",
    "1900-01-01T00:00:00+00:01",
    "9999-01-01T00:00:00Z",
    "9998-12-31T23:59:59-00:01",
]
TEXTS = [1, True, [], {}, LONG, "a\0b", "\ud800"]
WRONG = {
    "title": [None, 1, True, [], {}, "", " \n", "x" * 501, "a\0b", "\ud800"],
    "startTime": MOMENTS,
    "endTime": MOMENTS,
    "platform": [1, True, [], {}, "", "Zoom", "skype"],
    "attendees": [
        None,
        1,
        True,
        {},
        "ada@example.com",
        [1],
        [None],
        [[]],
        [""],
        ["ada"],
        ["@example.com"],
        ["ada@"],
        ["ada@example.com\n"],
        ["ada@example.com, bob@example.com"],
        ["a\0@example.com"],
        ["x" * 254 + "@example.com"],
        ["ada@example.com", "ada@example.com"],
        ["ada@example.com", "Ada@Example.com"],
        [f"user{n}@example.com" for n in range(201)],
    ],
    "agenda": TEXTS,
    "notes": TEXTS,
}
WRONG_LISTS = [None, 1, True, {}, "x", [1], [None], [[]], [""], ["x" * 2001], ["x"] * 201, ["\0"]]
WRONG_OUTCOME = {
    "status": [None, 1, True, [], {}, "", "scheduled", "Completed", "cancelled"],
    "summary": TEXTS,
    "actionItems": WRONG_LISTS,
    "decisions": WRONG_LISTS,
}


def each(wrong):
    return [(field, value) for field, values in wrong.items() for value in values]


def label(value):
    text = ascii(value)
    return text if len(text) < 40 else f"{len(text)} characters"


@pytest.fixture
def meeting(alice):
    """A meeting of Acme with every field set."""
    created = alice.post(
        "/meetings",
        {
            **NEW,
            "platform": "zoom",
            "attendees": ["ada@example.com", "Bob@example.com"],
            "agenda": "Everything",
            "notes": "Bring cake",
        },
    )
    assert created.status_code == 201
    return created.get_json()


@pytest.fixture
def initech(connection, cast):
    """Alice's second workspace, not the active one."""
    id = insert(connection, "workspaces", name="Initech", slug="initech", plan="Team")
    insert_member(connection, id, cast["alice"], "owner")
    return id


def put(connection, cast, workspace_id, *starts, **values):
    """One meeting of an hour past the service for each start; returns their ids."""
    return [
        insert(
            connection,
            "meetings",
            workspace_id=workspace_id,
            title=str(start),
            start_time=start,
            end_time=start + timedelta(hours=1),
            created_by=cast["alice"],
            **values,
        )
        for start in starts
    ]


def row_of(connection, id):
    return connection.execute("SELECT * FROM meetings WHERE id = %s", (id,)).fetchone()


def count(connection):
    return connection.execute("SELECT count(*) FROM meetings").fetchone()["count"]


def ids(items):
    return [item["id"] for item in items]


# Create


def test_a_meeting_needs_a_title_and_two_times_and_gets_the_defaults(alice, cast, connection):
    created = alice.post("/meetings", {**NEW, "title": "  Weekly\n"})
    assert created.status_code == 201
    meeting = created.get_json()
    assert created.headers["Location"] == f"/api/meetings/{meeting['id']}"
    assert list(meeting) == FIELDS
    assert meeting == {
        "id": meeting["id"],
        "workspaceId": cast["acme"],
        "title": "Weekly",
        "startTime": "2097-03-01T09:00:00.000Z",
        "endTime": "2097-03-01T10:00:00.000Z",
        "platform": None,
        "attendees": [],
        "agenda": None,
        "notes": None,
        "status": "scheduled",
        "createdBy": cast["alice"],
        "createdAt": meeting["createdAt"],
        "updatedAt": meeting["createdAt"],
        "version": 1,
    }
    assert alice.get(f"/meetings/{meeting['id']}").get_json() == meeting
    row = row_of(connection, meeting["id"])
    assert str(row["workspace_id"]) == cast["acme"]
    assert (row["title"], row["status"], row["attendees"]) == ("Weekly", "scheduled", [])
    assert row["start_time"] == datetime(2097, 3, 1, 9, tzinfo=UTC)


def test_every_field_that_is_sent_is_kept(meeting, connection):
    row = row_of(connection, meeting["id"])
    assert meeting["platform"] == row["platform"] == "zoom"
    assert meeting["attendees"] == row["attendees"] == ["ada@example.com", "Bob@example.com"]
    assert meeting["agenda"] == row["agenda"] == "Everything"
    assert meeting["notes"] == row["notes"] == "Bring cake"


@pytest.mark.parametrize("platform", ["google_meet", "zoom", "teams", "in_person", None])
def test_every_platform_is_taken(alice, platform):
    created = alice.post("/meetings", {**NEW, "platform": platform})
    assert created.status_code == 201
    assert created.get_json()["platform"] == platform


@pytest.mark.parametrize("field", ["title", "startTime", "endTime"])
def test_what_is_required_must_be_there(alice, connection, field):
    body = {name: value for name, value in NEW.items() if name != field}
    assert invalid_field(alice.post("/meetings", body), field) == "is required"
    assert count(connection) == 0


@pytest.mark.parametrize(("field", "value"), each(WRONG), ids=label)
def test_a_wrong_value_makes_no_meeting_and_no_change(alice, connection, field, value):
    assert invalid_field(alice.post("/meetings", {**NEW, field: value}), field)
    assert count(connection) == 0
    old = alice.post("/meetings", NEW).get_json()
    assert invalid_field(alice.patch(f"/meetings/{old['id']}", {field: value}), field)
    assert alice.get(f"/meetings/{old['id']}").get_json() == old


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("title", "x" * 500),
        ("title", "日" * 500),
        ("agenda", ""),
        ("agenda", "x" * 65_536),
        ("notes", "x" * 65_536),
        ("attendees", [f"user{n}@example.com" for n in range(200)]),
        ("attendees", ["o'neil+tag@sub.example.co.uk"]),
    ],
    ids=label,
)
def test_a_value_at_its_limit_is_taken(alice, field, value):
    created = alice.post("/meetings", {**NEW, field: value})
    assert created.status_code == 201
    assert created.get_json()[field] == value
    other = alice.post("/meetings", NEW).get_json()
    assert alice.patch(f"/meetings/{other['id']}", {field: value}).get_json()[field] == value


@pytest.mark.parametrize(
    ("field", "nearest"),
    [
        ("start_time", "startTime"),
        ("end_time", "endTime"),
        ("atendees", "attendees"),
        ("note", "notes"),
    ],
)
def test_an_unknown_field_is_refused_and_the_nearest_one_named(alice, meeting, field, nearest):
    for answer in (
        alice.post("/meetings", {**NEW, field: "x"}),
        alice.patch(f"/meetings/{meeting['id']}", {field: "x"}),
    ):
        assert invalid_field(answer, field) == f"unknown field; did you mean {nearest}?"
    assert read_all(alice, "/meetings") == [meeting]


@pytest.mark.parametrize(
    "field", ["id", "workspaceId", "createdBy", "createdAt", "updatedAt", "version"]
)
def test_what_the_service_sets_cannot_be_sent(alice, meeting, field):
    body = {field: meeting[field]}
    assert "unknown field" in invalid_field(alice.post("/meetings", {**NEW, **body}), field)
    assert "unknown field" in invalid_field(alice.patch(f"/meetings/{meeting['id']}", body), field)


@pytest.mark.parametrize("field", ["status", "summary", "actionItems", "decisions"])
def test_a_new_meeting_cannot_be_completed_already(alice, connection, field):
    answer = alice.post("/meetings", {**NEW, field: COMPLETION[field]})
    assert "unknown field" in invalid_field(answer, field)
    assert count(connection) == 0


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("2097-03-01T10:00:00+01:00", "2097-03-01T09:00:00.000Z"),
        ("2097-03-01T09:00", "2097-03-01T09:00:00.000Z"),
        ("2097-03-01T09:00:00.1239Z", "2097-03-01T09:00:00.123Z"),
        ("1900-01-01T00:00:00Z", "1900-01-01T00:00:00.000Z"),
        ("9998-12-31T23:59:59.998Z", "9998-12-31T23:59:59.998Z"),
    ],
)
def test_a_timestamp_is_kept_in_utc_to_the_millisecond(alice, sent, kept):
    last = "9998-12-31T23:59:59.999Z"
    created = alice.post("/meetings", {**NEW, "startTime": sent, "endTime": last})
    assert created.status_code == 201
    assert created.get_json()["startTime"] == kept
    assert created.get_json()["endTime"] == last
    assert read_all(alice, "/meetings") == [created.get_json()]


# The end is after the start


@pytest.mark.parametrize(
    "end",
    [
        "2097-03-01T09:00:00Z",
        "2097-03-01T08:59:59.999Z",
        "2097-03-01T10:00:00+01:00",
        "2097-03-01T09:00:00.0009Z",
    ],
)
def test_a_new_meeting_cannot_end_before_it_has_begun(alice, connection, end):
    assert invalid_field(alice.post("/meetings", {**NEW, "endTime": end}), "endTime")
    assert count(connection) == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"startTime": "2097-03-01T10:00:00Z"},
        {"endTime": "2097-03-01T09:00:00Z"},
        {"startTime": "2097-03-02T09:00:00Z", "title": "Later"},
        {"startTime": "2097-03-02T09:00:00Z", "endTime": "2097-03-02T08:00:00Z"},
    ],
    ids=str,
)
def test_a_change_of_one_time_is_held_against_the_other_one(alice, meeting, changes):
    answer = alice.patch(f"/meetings/{meeting['id']}", changes)
    assert invalid_field(answer, "endTime") == "must be after startTime"
    assert alice.get(f"/meetings/{meeting['id']}").get_json() == meeting


def test_both_times_can_move_together(alice, meeting):
    times = {"startTime": "2097-04-01T09:00:00.000Z", "endTime": "2097-04-01T09:00:00.001Z"}
    changed = alice.patch(f"/meetings/{meeting['id']}", times).get_json()
    assert changed == {**meeting, **times, "updatedAt": changed["updatedAt"], "version": 2}


def test_two_changes_at_once_cannot_make_it_end_before_it_begins(alice, bob, meeting, together):
    path = f"/meetings/{meeting['id']}"
    answers = together(
        "meetings",
        meeting["id"],
        lambda: alice.patch(path, {"startTime": "2097-03-01T09:40:00Z"}),
        lambda: bob.patch(path, {"endTime": "2097-03-01T09:20:00Z"}),
    )
    assert sorted(answer.status_code for answer in answers) == [200, 400]
    kept = alice.get(path).get_json()
    assert kept["startTime"] < kept["endTime"]
    assert kept["version"] == 2


# Credentials and ids


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/meetings"),
        ("POST", "/meetings"),
        ("GET", "/meetings/{id}"),
        ("PATCH", "/meetings/{id}"),
    ],
)
def test_a_stranger_may_do_nothing_with_meetings(stranger, alice, meeting, method, path):
    body = {"POST": NEW, "PATCH": {"title": "Stolen"}}.get(method)
    answer = stranger.send(method, path.format(**meeting), json=body)
    assert "nauthorized" in error_message(answer, 401)
    assert read_all(alice, "/meetings") == [meeting]


@pytest.mark.parametrize("method", ["GET", "PATCH"])
def test_an_unknown_a_malformed_and_a_foreign_id_are_the_same_404(alice, charlie, method):
    foreign = charlie.post("/meetings", NEW).get_json()
    body = {"title": "Stolen"} if method == "PATCH" else None
    messages = {
        error_message(alice.send(method, f"/meetings/{id}", json=body), 404)
        for id in (
            UNKNOWN,
            "nothing",
            "1",
            "%00",
            "x" * 1000,
            foreign["id"],
            foreign["workspaceId"],
        )
    }
    assert messages == {"Meeting not found"}
    assert read_all(charlie, "/meetings") == [foreign]


def test_a_meeting_cannot_be_deleted(alice, meeting, connection):
    answer = alice.delete(f"/meetings/{meeting['id']}")
    error_message(answer, 405)
    assert {"GET", "PATCH"} <= {name.strip() for name in answer.headers["Allow"].split(",")}
    assert count(connection) == 1


def test_a_meeting_of_any_of_her_workspaces_is_alices(alice, bob, cast, connection, initech):
    (id,) = put(connection, cast, initech, datetime(2097, 1, 1, tzinfo=UTC))
    assert alice.get(f"/meetings/{id}").get_json()["workspaceId"] == initech
    assert alice.patch(f"/meetings/{id}", {"title": "Renamed"}).get_json()["title"] == "Renamed"
    error_message(bob.get(f"/meetings/{id}"), 404)
    error_message(bob.patch(f"/meetings/{id}", {"title": "Stolen"}), 404)
    assert row_of(connection, id)["title"] == "Renamed"


# Update


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("title", "Another"),
        ("startTime", "2097-03-01T09:30:00.000Z"),
        ("endTime", "2097-03-01T11:00:00.000Z"),
        ("attendees", []),
        ("attendees", ["eve@example.com"]),
        ("notes", "Bring tea"),
        ("agenda", "Less"),
        ("platform", "teams"),
        ("platform", None),
        ("agenda", None),
        ("notes", None),
    ],
    ids=label,
)
def test_a_change_touches_its_field_only_and_counts_the_version_up(
    bob, meeting, connection, field, value
):
    connection.execute("UPDATE meetings SET updated_at = '2020-01-01T00:00:00Z', version = 7")
    answer = bob.patch(f"/meetings/{meeting['id']}", {field: value})
    assert answer.status_code == 200
    changed = answer.get_json()
    assert list(changed) == FIELDS
    assert changed == {**meeting, field: value, "updatedAt": changed["updatedAt"], "version": 8}
    assert changed["updatedAt"] >= meeting["createdAt"]
    assert bob.get(f"/meetings/{meeting['id']}").get_json() == changed
    assert row_of(connection, meeting["id"])["version"] == 8


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"title": " Weekly "},
        {"startTime": "2097-03-01T10:00:00+01:00", "endTime": "2097-03-01T10:00"},
        {"attendees": ["ada@example.com", "Bob@example.com"], "platform": "zoom"},
        {"summary": None},
        {"actionItems": [], "decisions": []},
    ],
    ids=str,
)
def test_a_document_that_changes_nothing_writes_nothing(alice, meeting, connection, changes):
    connection.execute("UPDATE meetings SET updated_at = '2020-01-01T00:00:00Z'")
    before = row_of(connection, meeting["id"])
    answer = alice.patch(f"/meetings/{meeting['id']}", changes)
    assert answer.status_code == 200
    assert answer.get_json() == {**meeting, "updatedAt": "2020-01-01T00:00:00.000Z", "version": 2}
    assert row_of(connection, meeting["id"]) == before


def test_two_changes_of_different_fields_both_survive(alice, bob, meeting, together, connection):
    path = f"/meetings/{meeting['id']}"
    answers = together(
        "meetings",
        meeting["id"],
        lambda: alice.patch(path, {"notes": "Alice's"}),
        lambda: bob.patch(path, {"agenda": "Bob's"}),
    )
    assert [answer.status_code for answer in answers] == [200, 200]
    row = row_of(connection, meeting["id"])
    assert (row["notes"], row["agenda"], row["version"]) == ("Alice's", "Bob's", 3)


# Completion


def test_a_completed_meeting_shows_its_outcome_by_id_and_never_in_lists(
    alice, meeting, connection, cast
):
    path = f"/meetings/{meeting['id']}"
    answer = alice.patch(path, COMPLETION)
    assert answer.status_code == 200
    completed = answer.get_json()
    assert list(completed) == [*FIELDS, *OUTCOME]
    assert completed == {
        **meeting,
        **COMPLETION,
        "updatedAt": completed["updatedAt"],
        "version": 2,
    }
    assert alice.get(path).get_json() == completed
    row = row_of(connection, meeting["id"])
    assert (row["status"], row["summary"]) == ("completed", OUTCOME["summary"])
    assert (row["action_items"], row["decisions"]) == (
        OUTCOME["actionItems"],
        OUTCOME["decisions"],
    )
    shown = {field: completed[field] for field in FIELDS}
    for query in ({}, {"upcoming": "true"}, {"workspaceId": cast["acme"]}):
        (listed,) = read_all(alice, "/meetings", **query)
        assert list(listed) == FIELDS
        assert listed == shown


def test_a_meeting_can_be_completed_without_any_outcome(alice, meeting):
    completed = alice.patch(f"/meetings/{meeting['id']}", {"status": "completed"}).get_json()
    assert list(completed) == [*FIELDS, *OUTCOME]
    outcome = {field: completed[field] for field in OUTCOME}
    assert outcome == {"summary": None, "actionItems": [], "decisions": []}


def test_completing_twice_is_completing_once(alice, meeting):
    path = f"/meetings/{meeting['id']}"
    completed = alice.patch(path, COMPLETION).get_json()
    assert alice.patch(path, COMPLETION).get_json() == completed
    assert alice.patch(path, {"status": "completed"}).get_json() == completed


def test_the_outcome_can_be_changed_after_completion(alice, meeting):
    path = f"/meetings/{meeting['id']}"
    completed = alice.patch(path, COMPLETION).get_json()
    later = {"summary": None, "actionItems": ["Only this"], "decisions": [], "notes": "More"}
    changed = alice.patch(path, later).get_json()
    assert changed == {**completed, **later, "updatedAt": changed["updatedAt"], "version": 3}
    assert alice.get(path).get_json() == changed


@pytest.mark.parametrize("field", list(OUTCOME))
def test_an_outcome_before_completion_is_refused(alice, meeting, connection, field):
    path = f"/meetings/{meeting['id']}"
    before = row_of(connection, meeting["id"])
    answer = alice.patch(path, {field: OUTCOME[field], "title": "Renamed"})
    assert "status completed" in invalid_field(answer, field)
    assert row_of(connection, meeting["id"]) == before
    assert list(alice.get(path).get_json()) == FIELDS


@pytest.mark.parametrize(("field", "value"), each(WRONG_OUTCOME), ids=label)
def test_a_wrong_outcome_completes_nothing(alice, meeting, field, value):
    path = f"/meetings/{meeting['id']}"
    assert invalid_field(alice.patch(path, {**COMPLETION, field: value}), field)
    assert alice.get(path).get_json() == meeting


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("summary", "x" * 65_536),
        ("summary", ""),
        ("actionItems", ["x" * 2000] * 200),
        ("decisions", ["x" * 2000] * 200),
        ("decisions", ["Again", "Again"]),
    ],
    ids=label,
)
def test_an_outcome_at_its_limit_is_taken(alice, meeting, field, value):
    answer = alice.patch(f"/meetings/{meeting['id']}", {"status": "completed", field: value})
    assert answer.status_code == 200
    assert answer.get_json()[field] == value


# List


def test_the_list_is_latest_start_first_and_shows_meetings_as_they_are_by_id(
    alice, meeting, connection, cast
):
    earlier, later = put(
        connection,
        cast,
        cast["acme"],
        datetime(2026, 1, 1, tzinfo=UTC),
        datetime(2098, 1, 1, tzinfo=UTC),
    )
    response = alice.get("/meetings")
    assert list(response.get_json()) == ["data", "nextCursor"]
    listed = response.get_json()["data"]
    assert ids(listed) == [later, meeting["id"], earlier]
    assert [list(item) for item in listed] == [FIELDS] * 3
    assert listed[1] == meeting


def test_the_list_holds_the_meetings_of_all_her_workspaces(
    alice, bob, charlie, cast, connection, initech
):
    start = datetime(2097, 1, 1, tzinfo=UTC)
    (acme,) = put(connection, cast, cast["acme"], start)
    (other,) = put(connection, cast, initech, start + timedelta(days=1))
    (foreign,) = put(connection, cast, cast["globex"], start)
    assert ids(read_all(alice, "/meetings")) == [other, acme]
    assert ids(read_all(bob, "/meetings")) == [acme]
    assert ids(read_all(charlie, "/meetings")) == [foreign]
    for workspace_id, found in (
        (cast["acme"], [acme]),
        (initech, [other]),
        (initech.upper(), [other]),
        (cast["globex"], []),
        (UNKNOWN, []),
        ("nothing", []),
    ):
        assert ids(read_all(alice, "/meetings", workspaceId=workspace_id)) == found
        upcoming = read_all(alice, "/meetings", workspaceId=workspace_id, upcoming="true")
        assert ids(upcoming) == found


def test_upcoming_ones_lie_in_the_future_and_come_soonest_first(alice, cast, connection, initech):
    now = datetime.now(UTC).replace(microsecond=0)
    steps = [timedelta(days=-30), timedelta(minutes=-5), timedelta(minutes=5), timedelta(days=30)]
    past, running, soon, later = put(
        connection, cast, cast["acme"], *(now + step for step in steps)
    )
    (between,) = put(connection, cast, initech, now + timedelta(days=1))
    assert ids(read_all(alice, "/meetings", upcoming="true")) == [soon, between, later]
    everything = [later, between, soon, running, past]
    assert ids(read_all(alice, "/meetings", upcoming="false")) == everything
    assert ids(read_all(alice, "/meetings")) == everything


@pytest.mark.parametrize("value", ["", "1", "0", "True", "TRUE", "yes", "null"])
def test_upcoming_is_true_or_false_in_these_words(alice, value):
    answer = alice.get("/meetings", query_string={"upcoming": value})
    assert invalid_field(answer, "upcoming") == "must be true or false"


@pytest.mark.parametrize("value", ["", "x" * 129])
def test_a_workspace_id_that_can_be_none_is_refused(alice, value):
    assert invalid_field(alice.get("/meetings", query_string={"workspaceId": value}), "workspaceId")


@pytest.mark.parametrize("upcoming", ["true", "false"])
def test_the_limit_is_20_unless_told_and_never_more_than_100(alice, cast, connection, upcoming):
    connection.execute(
        "INSERT INTO meetings (workspace_id, title, start_time, end_time, created_by)"
        " SELECT %s, 'x', '2099-01-01T00:00Z', '2099-01-01T01:00Z', %s FROM generate_series(1, 101)",
        (cast["acme"], cast["alice"]),
    )
    for query, size in (
        ({}, 20),
        ({"limit": "1"}, 1),
        ({"limit": "100"}, 100),
        ({"limit": "101"}, 100),
        ({"limit": "9" * 100}, 100),
    ):
        page = alice.get("/meetings", query_string={"upcoming": upcoming, **query}).get_json()
        assert len(page["data"]) == size
        assert page["nextCursor"]


@pytest.mark.parametrize("limit", INVALID_LIMITS)
def test_a_limit_that_is_no_whole_number_from_1_is_refused(alice, limit):
    answer = alice.get("/meetings", query_string={"limit": limit})
    assert invalid_field(answer, "limit") == "must be an integer from 1 to 100"


@pytest.mark.parametrize(
    "cursor",
    ["", "x", "0", "a" * 32, ".", "0.", "0.x", "x." + "a" * 32, "٣." + "a" * 32, "0." + UNKNOWN],
)
def test_a_cursor_that_was_never_given_is_refused(alice, cursor):
    answer = alice.get("/meetings", query_string={"cursor": cursor})
    assert invalid_field(answer, "cursor") == "must be the nextCursor of an earlier response"


@pytest.mark.parametrize("key", ["9" * 15, "-" + "9" * 15, "-0", "253370764800000"])
@pytest.mark.parametrize("upcoming", ["true", "false"])
def test_a_cursor_far_outside_of_time_is_no_failure_of_the_service(alice, key, upcoming):
    query = {"cursor": f"{key}.{'a' * 32}", "upcoming": upcoming}
    assert alice.get("/meetings", query_string=query).status_code in (200, 400)


EDGES = [
    datetime(1900, 1, 1, tzinfo=UTC),
    datetime(1900, 1, 1, 0, 0, 0, 1000, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 998000, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC),
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(1970, 1, 1, 0, 0, 0, 1000, tzinfo=UTC),
    datetime(2026, 2, 28, 12, 0, 0, 743000, tzinfo=UTC),
    datetime(2999, 7, 1, 0, 0, 0, 1000, tzinfo=UTC),
    datetime(2999, 7, 1, 0, 0, 0, 2000, tzinfo=UTC),
    datetime(9998, 12, 31, 22, 59, 59, 997000, tzinfo=UTC),
    datetime(9998, 12, 31, 22, 59, 59, 998000, tzinfo=UTC),
    datetime(9998, 12, 31, 22, 59, 59, 999000, tzinfo=UTC),
]


@pytest.mark.parametrize("limit", [1, 2, 5])
@pytest.mark.parametrize("upcoming", [True, False])
def test_the_pages_hold_every_meeting_exactly_once_whatever_its_start(
    alice, cast, connection, initech, limit, upcoming
):
    """Several meetings start at the same millisecond, in both workspaces, others one beside it."""
    for start in EDGES:
        put(connection, cast, cast["acme"], start, start)
        put(connection, cast, initech, start)
    rows = connection.execute(
        "SELECT id FROM meetings WHERE NOT %(upcoming)s OR start_time > now() ORDER BY start_time, id",
        {"upcoming": upcoming},
    ).fetchall()
    wanted = [str(row["id"]) for row in rows]
    if not upcoming:
        wanted.reverse()
        assert len(wanted) == len(EDGES) * 3
    query = {"upcoming": str(upcoming).lower(), "limit": limit}
    assert ids(read_all(alice, "/meetings", **query)) == wanted


@pytest.mark.parametrize("upcoming", ["true", "false"])
def test_a_cursor_works_after_its_meeting_is_gone(alice, cast, connection, upcoming):
    start = datetime(2099, 1, 1, tzinfo=UTC)
    put(connection, cast, cast["acme"], start, start, start, start + timedelta(hours=1))
    everything = ids(read_all(alice, "/meetings", upcoming=upcoming))
    first = alice.get(f"/meetings?upcoming={upcoming}&limit=2").get_json()
    for id in ids(first["data"]):
        connection.execute("DELETE FROM meetings WHERE id = %s", (id,))
    rest = read_all(alice, "/meetings", upcoming=upcoming, cursor=first["nextCursor"])
    assert ids(rest) == everything[2:]


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("upcomming", "upcoming"), ("workspace_id", "workspaceId"), ("Cursor", "cursor")],
)
def test_an_unknown_query_parameter_is_refused_and_the_nearest_one_named(alice, name, nearest):
    answer = alice.get("/meetings", query_string={name: "true"})
    assert invalid_field(answer, name) == f"unknown query parameter; did you mean {nearest}?"


@pytest.mark.parametrize("method", ["GET", "PATCH"])
def test_one_meeting_takes_no_query(alice, meeting, method):
    body = {"title": "Renamed"} if method == "PATCH" else None
    assert invalid_field(alice.send(method, f"/meetings/{meeting['id']}?full=1", json=body), "full")
    assert invalid_field(alice.post("/meetings?dry=1", NEW), "dry")
    assert read_all(alice, "/meetings") == [meeting]
