"""Lists of tasks by the time of their completion: bounds, order, cursors and costs."""

from datetime import UTC, datetime, timedelta
from itertools import product

import psycopg
import pytest
from support.http import ids, read_all
from support.statements import configure, flattened

from service.api.filters import filters_of
from service.database.statements import STATEMENTS

MS = timedelta(milliseconds=1)
NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)


def shown(at):
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@pytest.fixture
def done(insert_into):
    """Return a function that inserts a task of Acme, completed at this time, and returns its id."""

    def insert(at, **values):
        return insert_into("tasks", status="done", completed_at=at, **values)

    return insert


def complete(client, id):
    return client.patch(f"/tasks/{id}", {"status": "done"}).get_json()["completedAt"]


@pytest.mark.parametrize("order", [{}, {"sort": "dueDate"}, {"sort": "completedAt"}])
@pytest.mark.parametrize("q", [{}, {"q": "task"}])
def test_the_lower_bound_of_completion_is_inclusive_and_the_upper_one_exclusive(
    alice, done, insert_into, order, q
):
    tasks = [done(NOON + n * MS, due_date=NOON - n * MS) for n in range(4)][::-1]
    for status in ("todo", "in_progress"):
        insert_into("tasks", status=status)
    for bounds, expected in (
        ({"completedAfter": shown(NOON + MS)}, tasks[:3]),
        ({"completedBefore": shown(NOON + 2 * MS)}, tasks[2:]),
        ({"completedAfter": shown(NOON + MS), "completedBefore": shown(NOON + 3 * MS)}, tasks[1:3]),
        ({"completedAfter": shown(NOON + 4 * MS)}, []),
        ({"completedBefore": shown(NOON)}, []),
        ({"completedAfter": "1900-01-01", "completedBefore": "9998-12-31"}, tasks),
    ):
        assert ids(read_all(alice, "/tasks", **bounds, **order, **q)) == expected
        assert ids(read_all(alice, "/tasks", **bounds, **order, **q, limit=1)) == expected


@pytest.mark.parametrize(
    ("zone", "first", "last", "begin", "end"),
    [
        # A week in which the clocks go back, and one in which they go forward.
        ("Europe/Berlin", "2025-10-20", "2025-10-27", "2025-10-19T22:00Z", "2025-10-26T23:00Z"),
        ("Europe/Berlin", "2025-03-24", "2025-03-31", "2025-03-23T23:00Z", "2025-03-30T22:00Z"),
        # The day on which midnight comes twice.
        ("America/Havana", "2024-11-03", "2024-11-04", "2024-11-03T04:00Z", "2024-11-04T05:00Z"),
    ],
)
def test_a_day_as_a_bound_of_completion_begins_in_the_timezone_of_the_workspace(
    alice, connection, done, zone, first, last, begin, end
):
    connection.execute("UPDATE workspaces SET timezone = %s WHERE slug = 'acme'", (zone,))
    begin, end = (datetime.fromisoformat(at.replace("Z", "+00:00")) for at in (begin, end))
    tasks = [done(at) for at in (begin - MS, begin, end - MS, end)]
    for more in ({}, {"sort": "dueDate"}, {"sort": "completedAt"}, {"q": "task"}):
        week = read_all(alice, "/tasks", completedAfter=first, completedBefore=last, **more)
        assert {*ids(week)} == {*tasks[1:3]}, more


def test_tasks_that_are_not_completed_come_last_and_newest_first(alice, done, insert_into):
    open_tasks = [insert_into("tasks", status="todo"), insert_into("tasks", status="in_progress")]
    # The earliest and the latest time that a task can have.
    first, last = done(datetime(1900, 1, 1, tzinfo=UTC)), done("9998-12-31T23:59:59.999Z")
    open_tasks += [insert_into("tasks", status="in_progress"), insert_into("tasks", status="todo")]
    expected = [last, first, *reversed(open_tasks)]
    for limit in (1, 2, 3, 4, 6, 200):
        assert ids(read_all(alice, "/tasks", sort="completedAt", limit=limit)) == expected
        searched = read_all(alice, "/tasks", sort="completedAt", q="task", limit=limit)
        assert ids(searched) == expected
    for status, found in (
        ("done", [last, first]),
        ("todo", [open_tasks[3], open_tasks[0]]),
        ("in_progress,done", [last, first, open_tasks[2], open_tasks[1]]),
    ):
        for q in ({}, {"q": "task"}):
            page = read_all(alice, "/tasks", sort="completedAt", status=status, limit=1, **q)
            assert ids(page) == found


@pytest.mark.parametrize("q", [{}, {"q": "task"}])
def test_pages_of_three_have_each_of_the_tasks_that_were_completed_at_the_same_time(alice, done, q):
    tasks = [done(NOON + n // 5 * MS) for n in range(14)][::-1]
    for bounds in ({}, {"completedAfter": shown(NOON), "completedBefore": shown(NOON + 3 * MS)}):
        page = read_all(alice, "/tasks", sort="completedAt", limit=3, **bounds, **q)
        assert ids(page) == tasks
    # A cursor keeps to the bounds of its request, even if another request returned it.
    cursor = alice.get("/tasks?sort=completedAt&limit=1").get_json()["nextCursor"]
    for bounds, expected in (
        ({"completedBefore": shown(NOON + 2 * MS)}, tasks[4:]),
        ({"completedBefore": shown(NOON + MS)}, tasks[9:]),
        ({"completedAfter": shown(NOON + 2 * MS)}, tasks[1:4]),
    ):
        page = read_all(alice, "/tasks", sort="completedAt", cursor=cursor, **bounds, **q)
        assert ids(page) == expected


def test_a_reopened_task_leaves_the_completed_ones_until_it_is_done_again(alice, insert_into):
    one, two, three = (insert_into("tasks") for _ in range(3))

    def listed(**query):
        return ids(read_all(alice, "/tasks", sort="completedAt", **query))

    assert complete(alice, one) <= complete(alice, two)
    assert listed() == [two, one, three]
    assert alice.patch(f"/tasks/{two}", {"status": "todo"}).get_json()["completedAt"] is None
    assert listed() == [one, three, two]
    assert listed(completedAfter="1900-01-01") == [one]
    complete(alice, three)
    again = complete(alice, two)
    assert listed() == [two, three, one]
    assert listed(completedAfter=again)[0] == two
    assert one not in listed(completedAfter=again) or complete(alice, one) == again
    # A change of something else keeps the time of completion.
    alice.patch(f"/tasks/{one}", {"title": "Renamed"})
    assert listed() == [two, three, one]


# Each other filter with a value, and the columns of a row that passes this filter.
FILTERS = {
    "status": ("done", {}),
    "priority": ("urgent,low", {"priority": "low"}),
    "assignee": ("me", {"assignee_id": "alice"}),
    "completedBy": ("me", {"completed_by": "alice"}),
    "projectId": ("website", {"project_id": "website"}),
    "parentId": ("parent", {"parent_id": "parent"}),
    "dueAfter": ("2026-01-02", {"due_date": "2026-01-02T00:00:00Z"}),
    "dueBefore": ("2026-01-02", {"due_date": "2026-01-01T00:00:00Z"}),
    "q": ("Report", {"title": "The report"}),
}


@pytest.mark.parametrize("name", FILTERS)
def test_bounds_and_order_of_completion_work_with_every_other_filter(
    alice, cast, done, insert_into, name
):
    parent = insert_into("tasks", status="in_progress")
    known = {"alice": cast["alice"], "parent": parent}
    value, columns = FILTERS[name]
    value = known.get(value, value)
    columns = {key: known.get(wanted, wanted) for key, wanted in columns.items()}
    day = timedelta(days=1)
    passing = [done(NOON - n * day, **columns) for n in range(5)]
    others = [done(NOON - n * day) for n in range(5)]
    todo = insert_into("tasks", **{**columns, "status": "todo"})
    found = ids(read_all(alice, "/tasks", **{name: value}, sort="completedAt", limit=2))
    assert {*others} & {*found} == ({*others} if name == "status" else set())
    assert [id for id in found if id in passing] == passing
    assert (todo in found) == (name not in ("status", "completedBy"))
    if todo in found:
        assert found[-1] == todo
    bounds = {"completedAfter": shown(NOON - 3 * day), "completedBefore": shown(NOON)}
    for sort in ({}, {"sort": "dueDate"}, {"sort": "completedAt"}):
        found = ids(read_all(alice, "/tasks", **{name: value}, **bounds, **sort, limit=2))
        assert {*found} == {*passing[1:4], *(others[1:4] if name == "status" else [])}
    assert [id for id in found if id in passing] == passing[1:4]


@pytest.fixture
def large(connection, cast):
    """Fill Acme with 20 000 tasks, half of them completed, and Globex with 5 000."""
    connection.execute(
        "INSERT INTO tasks (workspace_id, id, title, created_by, status, completed_at, due_date,"
        "        priority, assignee_id, project_id, completed_by)"
        " SELECT CASE n %% 5 WHEN 0 THEN %(globex)s ELSE %(acme)s END::uuid, new_id(at), 'Task',"
        "        %(alice)s, CASE n %% 2 WHEN 0 THEN 'done' ELSE 'todo' END,"
        "        CASE n %% 2 WHEN 0 THEN date_trunc('milliseconds', at) END,"
        "        CASE n %% 3 WHEN 0 THEN date_trunc('milliseconds', at) + interval '9 days' END,"
        "        CASE n %% 4001 WHEN 2 THEN 'urgent' ELSE 'medium' END,"
        "        CASE WHEN n %% 5 > 0 AND n %% 4001 = 4 THEN %(alice)s::uuid END,"
        "        CASE n %% 4001 WHEN 6 THEN 'rare' WHEN 7 THEN 'other' END,"
        "        CASE WHEN n %% 4001 = 8 AND n %% 2 = 0 THEN %(alice)s::uuid END"
        " FROM generate_series(1, 25000) AS n,"
        "      LATERAL (SELECT timestamptz '2026-01-01T00:00:00Z' + n * interval '10 min' AS at)"
        "              AS created",
        cast,
    )
    connection.execute("VACUUM ANALYZE tasks")
    yield
    # TRUNCATE is faster than deleting the rows before the next test.
    connection.execute("TRUNCATE workspaces, users CASCADE")


RARE = [
    {},
    {"assignee": "me"},
    {"completed_by": "me"},
    {"project_id": "rare"},
    {"priority": ["urgent"]},
    {"status": ["todo"]},
    {"status": ["done"]},
    {"status": ["todo", "in_progress", "done"]},
    {"due_after": "2026-03-01", "due_before": "2026-03-02"},
    {"parent_id": "00000000-0000-7000-8000-000000000001"},
]
BOUNDS = [
    {},
    {"completed_after": "2026-03-01", "completed_before": "2026-03-03"},
    {"completed_after": "2026-06-20"},
    {"completed_before": "2026-01-03"},
    {"completed_after": "2026-01-01"},
    {"completed_after": "9998-01-01"},
]


def rows_read(connection, name, values):
    """Run ``sql/<name>.sql`` with these values; return how many rows of tasks its scans read."""
    values = {**dict.fromkeys(STATEMENTS[name].parameters), "limit": 20, **values}
    values["filters"] = filters_of(values)
    cursor = psycopg.ClientCursor(connection, row_factory=connection.row_factory)
    explain = b"EXPLAIN (ANALYZE, TIMING off, FORMAT json) " + STATEMENTS[name].source
    (tree,) = cursor.execute(explain, values).fetchone()["QUERY PLAN"]
    return sum(
        node["Actual Loops"] * (node["Actual Rows"] + node.get("Rows Removed by Filter", 0))
        for node in flattened(tree)
        if "Scan" in node["Node Type"] and ("Index Name" in node or "Relation Name" in node)
    )


@pytest.mark.slow
def test_a_page_with_bounds_or_the_order_of_completion_reads_few_rows_with_any_filter(
    connection, cast, large
):
    orders = {"tasks/filter": None, "tasks/soonest": "dueDate", "tasks/latest": "completedAt"}
    caller = {"workspace_id": cast["acme"], "user_id": cast["alice"]}
    read = {}
    with connection.transaction(force_rollback=True):
        configure(connection)
        for (name, sort), rare, bounds in product(orders.items(), RARE, BOUNDS):
            if bounds or name == "tasks/latest":
                values = {**caller, "sort": sort, **rare, **bounds}
                read[f"{name} {rare} {bounds}"] = rows_read(connection, name, values)
    assert {which: rows for which, rows in read.items() if rows > 800} == {}


@pytest.mark.slow
@pytest.mark.parametrize("status", [None, ["done"], ["in_progress", "todo"]])
def test_each_page_in_the_order_of_completion_reads_few_rows_even_far_down_the_list(
    connection, cast, large, status
):
    """The pages are the first one, some in the middle, and the last ones of either kind."""
    rows = connection.execute(
        "SELECT to_millis(coalesce(completed_at, '1899-01-01T00:00:00Z')) AS after,"
        "       id::text AS after_id"
        " FROM tasks WHERE workspace_id = %s ORDER BY completed_at DESC NULLS LAST, id DESC",
        (cast["acme"],),
    ).fetchall()
    assert len(rows) == 20_000
    values = {"workspace_id": cast["acme"], "user_id": cast["alice"], "status": status}
    with connection.transaction(force_rollback=True):
        configure(connection)
        for place in (0, 5_000, 9_990, 9_999, 10_000, 15_000, 19_990):
            for bounds in (
                {},
                {"completed_before": "2026-06-24"},
                {"completed_after": "2026-01-02"},
            ):
                at = {**values, **rows[place], **bounds}
                assert rows_read(connection, "tasks/latest", at) <= 150, (place, bounds)


def test_an_update_of_an_operator_that_forgets_the_time_of_completion_sets_it(alice, connection):
    task = alice.post("/tasks", {"title": "Ship"}).get_json()
    path = f"/tasks/{task['id']}"
    connection.execute("UPDATE tasks SET status = 'done'")
    done = alice.get(path).get_json()
    assert done["completedAt"] == done["updatedAt"]
    connection.execute("UPDATE tasks SET priority = 'low'")
    assert alice.get(path).get_json()["completedAt"] == done["completedAt"]
    connection.execute("UPDATE tasks SET status = 'todo'")
    assert alice.get(path).get_json()["completedAt"] is None
    connection.execute("UPDATE tasks SET status = 'done', completed_at = '2026-01-02T03:04:05Z'")
    assert alice.get(path).get_json()["completedAt"] == "2026-01-02T03:04:05.000Z"
