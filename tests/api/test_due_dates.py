"""Days in the timezone of the workspace, as due dates and as bounds; lists by due date."""

import json
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import psycopg
import pytest
from support.commands import CommandRunner
from support.http import ids, invalid_field, next_page, read_all
from support.statements import configure, flattened

from service.api.filters import filters_of
from service.database.statements import STATEMENTS

MS = timedelta(milliseconds=1)
# Days on which the clocks change: during the night; at midnight, so that midnight does not exist or
# comes twice; and so that the last hour of the day before comes twice or does not exist. Then
# timezones whose names PostgreSQL also has as abbreviations without summer time, and both ends of
# the earth. All these days have passed: the rules for future days can still change, and this Python
# and PostgreSQL may then have different ones.
DAYS = [
    ("Europe/Berlin", "2025-03-30"),
    ("Europe/Berlin", "2025-10-26"),
    ("Africa/Cairo", "2025-04-25"),
    ("Africa/Cairo", "2025-10-30"),
    ("America/Havana", "2024-11-03"),
    ("America/Sao_Paulo", "2018-11-04"),
    ("America/Sao_Paulo", "2018-02-17"),
    ("America/Nuuk", "2025-03-29"),
    ("America/Scoresbysund", "2025-03-29"),
    ("CET", "2025-07-01"),
    ("EET", "2025-07-01"),
    ("MET", "2025-03-30"),
    ("WET", "2025-10-26"),
    ("Pacific/Kiritimati", "2024-12-01"),
    ("Etc/GMT+12", "2024-12-01"),
]


@pytest.fixture
def zone(connection, cast):
    def set_zone(name):
        connection.execute("UPDATE workspaces SET timezone = %s WHERE slug = 'acme'", (name,))

    return set_zone


def first_moment(day, zone):
    """Return the first moment, to half an hour, at which clocks in the zone show this day."""
    noon = datetime.combine(day, time(12), tzinfo=ZoneInfo(zone)).astimezone(UTC)
    moments = [noon - n * timedelta(minutes=30) for n in range(40)]
    return min(at for at in moments if at.astimezone(ZoneInfo(zone)).date() == day)


def shown(at):
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@pytest.mark.parametrize(("name", "day"), DAYS)
def test_a_due_day_ends_with_its_last_millisecond_in_the_timezone_of_the_workspace(
    alice, app, zone, tmp_path, name, day
):
    zone(name)
    end = shown(first_moment(date.fromisoformat(day) + timedelta(days=1), name) - MS)
    task = alice.post("/tasks", {"title": "Plain", "dueDate": day}).get_json()
    assert (task["dueDate"], task["dueDay"]) == (end, day)
    path = f"/tasks/{task['id']}"
    assert alice.patch(path, {"dueDate": day}).get_json() == task
    assert alice.patch(path, {"dueDate": None}).get_json()["dueDate"] is None
    assert alice.patch(path, {"dueDate": day}).get_json()["dueDate"] == end
    line = {"type": "task", "workspace": "acme", "title": "Loaded"}
    lines = [json.dumps({**line, name: day}) for name in ("dueDate", "dueDay")]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    loaded = CommandRunner(app).invoke(["load", str(tmp_path / "in.jsonl")])
    assert loaded.exit_code == 0, loaded.output
    tasks = read_all(alice, "/tasks")
    assert [(task["dueDate"], task["dueDay"]) for task in tasks] == [(end, day)] * 3


def test_a_due_day_stays_a_day_until_a_timestamp_or_null_replaces_it(alice, zone):
    task = alice.post("/tasks", {"title": "Plain", "dueDate": "2026-12-01"}).get_json()
    path = f"/tasks/{task['id']}"
    zone("Asia/Tokyo")
    assert alice.patch(path, task).get_json() == alice.get(path).get_json() == task
    (listed,) = read_all(alice, "/tasks", sort="dueDate")
    assert listed == task
    again = alice.patch(path, {"dueDate": "2026-12-01"}).get_json()
    assert (again["dueDate"], again["dueDay"]) == ("2026-12-01T14:59:59.999Z", "2026-12-01")
    for other in ("2026-12-01T14:59:59.998Z", None):
        changed = alice.patch(path, {"dueDate": other}).get_json()
        assert (changed["dueDate"], changed["dueDay"]) == (other, None)
        again = alice.patch(path, {"dueDate": "2026-12-01", "title": "Other"}).get_json()
        assert again["dueDay"] == "2026-12-01"
    assert alice.patch(path, {"title": "Plain"}).get_json()["dueDay"] == "2026-12-01"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "day"), DAYS)
def test_a_day_as_a_bound_of_a_list_means_the_beginning_of_that_day(
    alice, zone, insert_into, name, day
):
    zone(name)
    next_day = date.fromisoformat(day) + timedelta(days=1)
    begin, end = first_moment(date.fromisoformat(day), name), first_moment(next_day, name)
    moments = begin - MS, begin, end - MS, end
    meetings = [insert_into("meetings", start_time=at) for at in moments]
    assert ids(read_all(alice, "/meetings", **{"from": day, "to": next_day})) == meetings[2:0:-1]
    tasks = [insert_into("tasks", due_date=at) for at in moments]
    insert_into("tasks")
    for bounds, expected in (
        ({"dueAfter": day, "dueBefore": next_day}, tasks[1:3]),
        ({"dueAfter": shown(begin), "dueBefore": shown(end)}, tasks[1:3]),
        ({"dueAfter": day}, tasks[1:]),
        ({"dueBefore": next_day}, tasks[:3]),
    ):
        assert ids(read_all(alice, "/tasks", **bounds)) == expected[::-1]
        assert ids(read_all(alice, "/tasks", **bounds, sort="dueDate", limit=1)) == expected


@pytest.mark.parametrize(
    ("name", "day", "fits"),
    [
        ("UTC", "1900-01-01", True),
        ("UTC", "9998-12-31", True),
        ("Etc/GMT-14", "9998-12-31", True),
        ("Etc/GMT+12", "9998-12-31", False),
        ("UTC", "9999-01-01", False),
        ("UTC", "1899-12-31", False),
    ],
)
def test_the_end_of_a_due_day_must_lie_in_the_years_1900_to_9998(alice, zone, name, day, fits):
    zone(name)
    task = alice.post("/tasks", {"title": "Plain"}).get_json()
    for response in (
        alice.post("/tasks", {"title": "Plain", "dueDate": day}),
        alice.patch(f"/tasks/{task['id']}", {"dueDate": day}),
    ):
        if fits:
            assert response.get_json()["dueDate"]
        else:
            assert invalid_field(response, "dueDate") == "must be in the years 1900 to 9998 (UTC)"


@pytest.mark.parametrize("day", ["2026-02-30", "2026-02-30T10:00:00Z"])
def test_a_day_that_does_not_exist_gets_400_and_the_message_names_the_day(alice, day):
    message = invalid_field(alice.post("/tasks", {"title": "Plain", "dueDate": day}), "dueDate")
    assert message == "must be a day that exists; 2026-02-30 does not"


RANGES = [
    ("2026-12-01", "2026-12-01"),
    ("2026-12-02", "2026-12-01"),
    ("2026-12-01T00:00:00Z", "2026-12-01T00:00:00Z"),
    ("2026-12-01", "2026-12-01T05:00:00Z"),
    ("2026-12-01T05:00:00Z", "2026-12-01"),
]


@pytest.mark.parametrize(
    ("path", "first", "last"),
    [
        ("/tasks?", "dueAfter", "dueBefore"),
        ("/tasks?sort=dueDate&", "dueAfter", "dueBefore"),
        ("/tasks?q=x&", "dueAfter", "dueBefore"),
        ("/tasks?sort=completedAt&", "dueAfter", "dueBefore"),
        ("/tasks?", "completedAfter", "completedBefore"),
        ("/tasks?sort=dueDate&", "completedAfter", "completedBefore"),
        ("/tasks?q=x&", "completedAfter", "completedBefore"),
        ("/tasks?sort=completedAt&", "completedAfter", "completedBefore"),
        ("/meetings?", "from", "to"),
        ("/meetings?upcoming=true&", "from", "to"),
    ],
)
def test_a_range_that_ends_before_it_begins_gets_400(alice, zone, path, first, last):
    zone("America/New_York")
    for after, before in RANGES:
        response = alice.get(f"{path}{first}={after}&{last}={before}")
        # "to" alone would not read as a name.
        named = {"to": "the value of to"}.get(last, last)
        assert invalid_field(response, first) == f"must be before {named}", (after, before)


def test_a_repeated_filter_counts_as_a_list_because_generated_clients_send_lists_that_way(
    alice, insert_into
):
    tasks = [insert_into("tasks", status=status) for status in ("todo", "done", "in_progress")]
    response = alice.get("/tasks?status=done&status=todo&limit=1")
    assert response.get_json()["data"][0]["id"] == tasks[1]
    assert ids(alice.get(next_page(response)).get_json()["data"]) == [tasks[0]]


def test_the_message_for_an_invalid_list_names_the_wrong_value_and_the_allowed_ones(alice):
    message = invalid_field(alice.get("/tasks?status=todo,nonsense"), "status")
    assert message == "must be one or more of: todo, in_progress, done; not 'nonsense'"
    assert (
        invalid_field(alice.get("/tasks?sort=title"), "sort")
        == "must be one of: dueDate, completedAt"
    )


def test_a_cursor_from_a_list_in_the_other_order_gets_400(alice, insert_into):
    for _ in range(2):
        insert_into("tasks")
    newest = alice.get("/tasks?limit=1").get_json()["nextCursor"]
    soonest = alice.get("/tasks?limit=1&sort=dueDate").get_json()["nextCursor"]
    latest = alice.get("/tasks?limit=1&sort=completedAt").get_json()["nextCursor"]
    for query in (
        f"cursor={soonest}",
        f"cursor={latest}",
        f"sort=dueDate&cursor={newest}",
        f"sort=completedAt&cursor={newest}",
    ):
        assert "nextCursor" in invalid_field(alice.get(f"/tasks?{query}"), "cursor")


@pytest.mark.slow
@pytest.mark.parametrize("dated", [4000, 40, 0])
def test_each_page_in_the_order_of_due_dates_reads_few_rows_even_far_down_the_list(
    connection, cast, dated
):
    """The pages are the first one, one in the middle, and the last ones with and without a date."""
    connection.execute(
        "INSERT INTO tasks (workspace_id, title, created_by, status, due_date)"
        " SELECT %s, 'Task', %s, (ARRAY['todo', 'in_progress'])[1 + n %% 2],"
        "        CASE WHEN n <= %s THEN now() + n * interval '1 h' END"
        " FROM generate_series(1, 4050) AS n",
        (cast["acme"], cast["alice"], dated),
    )
    connection.execute("VACUUM ANALYZE tasks")
    rows = connection.execute(
        "SELECT to_millis(coalesce(due_date, '9999-01-01T00:00:00Z')) AS after, id AS after_id"
        " FROM tasks ORDER BY due_date, id"
    ).fetchall()
    values = dict.fromkeys(STATEMENTS["tasks/soonest"].parameters)
    values |= {"workspace_id": cast["acme"], "user_id": cast["alice"], "limit": 20}
    cursor = psycopg.ClientCursor(connection, row_factory=connection.row_factory)
    explain = b"EXPLAIN (ANALYZE, FORMAT json) " + STATEMENTS["tasks/soonest"].source
    with connection.transaction():
        configure(connection)
        for place in ({}, rows[2000], rows[3990], rows[4030]):
            for status in (["in_progress", "todo"], None):
                filters = filters_of({"status": status})
                found = cursor.execute(explain, {**values, **place, "filters": filters}).fetchone()
                scans = [node for node in flattened(found["QUERY PLAN"][0]) if "Index Name" in node]
                read = sum(
                    node["Actual Loops"]
                    * (node["Actual Rows"] + node.get("Rows Removed by Filter", 0))
                    for node in scans
                )
                assert read <= 200, (place, status)
        raise psycopg.Rollback
