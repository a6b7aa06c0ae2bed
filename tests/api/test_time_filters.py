"""The filters by time of every list: fractions of milliseconds, the end of the range, offsets."""

from datetime import UTC, datetime, timedelta

import pytest
from support.derived import filters, key, views
from support.http import ids, invalid_field, read_all
from support.rows import activate

from service.values import types

# By the name of a filter: the table and the column whose times it bounds, and the columns that a
# row needs so that the filter finds it. The first bound of each pair is inclusive, the other one is
# exclusive.
BOUNDS = {
    ("dueAfter", "dueBefore"): ("tasks", "due_date", {}),
    ("completedAfter", "completedBefore"): ("tasks", "completed_at", {"status": "done"}),
    ("from", "to"): ("meetings", "start_time", {}),
}
AT = datetime(2098, 3, 1, 12, 0, 0, 123_000, tzinfo=UTC)
MS = timedelta(milliseconds=1)

FOUND = [
    (view, key(field))
    for view in views()
    for field in (filters(view.arguments) if view.method == "GET" else ())
    if isinstance(field, types.Timestamp)
]


@pytest.mark.nodatabase
def test_this_file_knows_every_filter_by_time():
    assert {name for _, name in FOUND} == {name for pair in BOUNDS for name in pair}


@pytest.fixture(params=BOUNDS, ids=str)
def listed(request, insert_into):
    """Insert two rows one millisecond apart; return the list, its two bounds, and the ids."""
    table, column, others = BOUNDS[request.param]
    rows = []
    for at in (AT, AT + MS):
        end = {"end_time": at + MS} if table == "meetings" else {}
        rows.append(insert_into(table, **{column: at}, **others, **end))
    return f"/{table}", *request.param, *rows


@pytest.mark.parametrize("digits", ["1230001", "1235", "123999", "123" + "0" * 20 + "1"])
def test_a_bound_with_more_than_milliseconds_selects_what_the_exact_bound_would(
    alice, listed, digits
):
    path, after, before, early, late = listed
    for text in (f"2098-03-01T12:00:00.{digits}Z", f"2098-03-01T14:00:00,{digits}+02:00"):
        assert ids(alice.get(path, query_string={after: text}).get_json()["data"]) == [late]
        assert ids(alice.get(path, query_string={before: text}).get_json()["data"]) == [early]


@pytest.mark.parametrize("digits", ["123", "1230", "123" + "0" * 20])
def test_a_bound_in_milliseconds_is_exact(alice, listed, digits):
    path, after, before, *both = listed
    text = f"2098-03-01T12:00:00.{digits}Z"
    found = alice.get(path, query_string={after: text}).get_json()["data"]
    assert {*ids(found)} == {*both}
    assert alice.get(path, query_string={before: text}).get_json()["data"] == []


def test_the_last_moment_of_the_range_is_a_bound_although_it_is_rounded_up(alice, listed):
    path, after, before, *both = listed
    text = "9998-12-31T23:59:59.9999Z"
    assert alice.get(path, query_string={after: text}).get_json()["data"] == []
    found = alice.get(path, query_string={before: text}).get_json()["data"]
    assert {*ids(found)} == {*both}


@pytest.mark.parametrize(("view", "name"), FOUND, ids=lambda value: getattr(value, "name", value))
def test_a_plus_that_became_a_space_in_a_url_gets_400_that_says_how_to_write_it(
    alice, cast, view, name
):
    for offset in ("+02:00", "+0200", "+02"):
        query = f"{view.path()}?{name}=2026-11-20T11:02:43"
        assert "write + as %2B" in invalid_field(alice.get(query + offset), name)
        assert alice.get(query + offset.replace("+", "%2B")).status_code == 200
    for other in ("2026-11-20 11:02:43Z", "2026-11-20T11:02:43 Z", " 2026-11-20T11:02:43Z"):
        response = alice.get(view.path(), query_string={name: other})
        assert "ISO 8601" in invalid_field(response, name)


def test_a_day_without_an_active_workspace_begins_in_utc(alice, connection, listed):
    """Of the lists with such filters, only that of meetings shows other workspaces."""
    path, after, before, *both = listed
    connection.execute("UPDATE users SET active_workspace_id = NULL")
    for name, day in ((after, "2098-03-01"), (before, "2098-03-02")):
        found = alice.get(path, query_string={name: day}).get_json()["data"]
        assert ids(found) == (both[::-1] if path == "/meetings" else [])
    for name, day in ((after, "2098-03-02"), (before, "2098-03-01")):
        assert alice.get(path, query_string={name: day}).get_json()["data"] == []
    wrong = alice.get(path, query_string={after: "2098-03-02", before: "2098-03-01"})
    assert invalid_field(wrong, after)


@pytest.mark.parametrize("upcoming", ["false", "true"])
def test_a_day_of_a_list_over_several_workspaces_is_one_of_the_active_workspace(
    alice, cast, connection, initech, insert_into, upcoming
):
    """The first day of March begins 25 hours later in the zone of the other workspace."""
    zones = {cast["acme"]: "Pacific/Kiritimati", initech: "Pacific/Pago_Pago"}
    starts = {
        id: begin + timedelta(hours=1)
        for id, begin in (
            (cast["acme"], datetime(2098, 2, 28, 10, tzinfo=UTC)),
            (initech, datetime(2098, 3, 1, 11, tzinfo=UTC)),
        )
    }
    rows = {}
    for active, start in starts.items():
        times = {"start_time": start, "end_time": start + MS}
        rows[active] = {insert_into("meetings", id, **times) for id in zones}
        zone = {"zone": zones[active], "id": active}
        connection.execute("UPDATE workspaces SET timezone = %(zone)s WHERE id = %(id)s", zone)
    for active, expected in rows.items():
        activate(connection, active, cast["alice"])
        query = {"upcoming": upcoming, "from": "2098-03-01", "to": "2098-03-02"}
        assert {*ids(read_all(alice, "/meetings", **query))} == expected
