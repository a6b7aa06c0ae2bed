"""The search of tasks finds words of titles, with the filters and the orders of the list."""

import uuid

import psycopg
import pytest
from support.http import ids, invalid_field, read_all
from support.rows import count
from support.statements import configure, flattened

from service.api.filters import filters_of
from service.database.statements import STATEMENTS
from service.values.types import Words

TITLES = ["Prepare the RELEASE", "release 100% of it", "Über_Zürich", r"back\slash", "ready"]


@pytest.mark.parametrize(
    ("q", "found"),
    [
        ("release", [0, 1]), ("RELEASE prepare", [0]), ("rel  \t ready", []), ("re", [0, 1, 4]),
        ("%", [1]), ("_", [2]), ("\\", [3]), ("0%", [1]), ("r%e", []), ("übEr ZÜRICH", [2]),
        ("'", []), ("of it", [1]), ("it of", [1]), ("{a,b}", []), ('"', []),
    ],
)  # fmt: skip
def test_a_search_finds_the_titles_that_contain_all_words_in_any_case(alice, insert_into, q, found):
    tasks = [insert_into("tasks", title=title) for title in TITLES]
    insert_into("tasks", "globex", "charlie", title=TITLES[0])
    assert ids(read_all(alice, "/tasks", q=q)) == [tasks[n] for n in reversed(found)]
    assert ids(read_all(alice, "/tasks", q=q, sort="dueDate")) == [tasks[n] for n in found]


@pytest.mark.parametrize("q", ["", " ", "a b c d e f g h i", "x" * 121, "\0"])
def test_a_search_without_words_or_with_too_many_gets_400(alice, q):
    message = invalid_field(alice.get("/tasks", query_string={"q": q}), "q")
    assert message.startswith("must "), message


@pytest.mark.nodatabase
def test_a_search_takes_eight_words_between_any_white_space():
    assert Words().deserialize(" a b c\td\x1ee f\u3000g h ") == [f"%{word}%" for word in "abcdefgh"]


@pytest.fixture
def many(connection, cast):
    """Fill Acme with 20 100 tasks, every hundredth a Report; yield the ids of the reports.

    The oldest come first.
    """
    connection.execute(
        "INSERT INTO tasks (workspace_id, title, created_by, project_id, due_date)"
        " SELECT %s, CASE n %% 100 WHEN 0 THEN 'Report' ELSE 'Prepare the release notes' END, %s,"
        "        CASE WHEN n <= 100 THEN 'old' END, now_ms() + n * interval '1 h'"
        " FROM generate_series(0, 20099) AS n",
        (cast["acme"], cast["alice"]),
    )
    connection.execute("VACUUM ANALYZE tasks")
    rows = connection.execute("SELECT id::text FROM tasks WHERE title = 'Report' ORDER BY id")
    yield ids(rows.fetchall())
    # TRUNCATE is faster than deleting the rows before the next test.
    connection.execute("TRUNCATE workspaces, users CASCADE")


@pytest.mark.slow
def test_each_page_of_a_search_in_many_tasks_reads_ten_thousand_tasks(alice, many):
    assert ids(read_all(alice, "/tasks", q="report", limit=30)) == many[::-1]
    searched = []
    page = {"nextCursor": ""}
    while page["nextCursor"] is not None:
        cursor = page["nextCursor"] and f"&cursor={page['nextCursor']}"
        page = alice.get(f"/tasks?q=absent{cursor}").get_json()
        searched.append(len(page["data"]))
    assert searched == [0, 0, 0]
    # With sort=dueDate, the newest 10 000 tasks are searched and come soonest first. Another filter
    # reaches older tasks.
    assert ids(read_all(alice, "/tasks", q="report", sort="dueDate", limit=30)) == many[101:]
    for sort in ({}, {"sort": "dueDate"}):
        assert len(read_all(alice, "/tasks", q="report", projectId="old", **sort)) == 2


@pytest.mark.slow
def test_a_search_that_finds_nothing_reads_ten_thousand_rows(connection, cast, many):
    values = dict.fromkeys(STATEMENTS["tasks/search"].parameters)
    values |= {"workspace_id": cast["acme"], "user_id": cast["alice"], "limit": 50}
    cursor = psycopg.ClientCursor(connection, row_factory=connection.row_factory)
    explain = b"EXPLAIN (ANALYZE, FORMAT json) " + STATEMENTS["tasks/search"].source
    with connection.transaction():
        configure(connection)
        for more in ({}, {"sort": "dueDate"}, {"after_id": many[150]}, {"status": ["todo"]}):
            searched = {**values, "q": ["%absent%"], "filters": filters_of(more), **more}
            found = cursor.execute(explain, searched).fetchone()
            nodes = flattened(found["QUERY PLAN"][0])
            read = [node["Actual Rows"] for node in nodes if node.get("Relation Name") == "tasks"]
            # The window of the statement reads one row ahead. A list by age also reads the first
            # task that it has not searched, where the page ends.
            assert sum(read) == 10_002 + ("sort" not in more), more


def test_a_search_for_long_words_in_long_titles_compares_few_bytes_and_goes_on(
    alice, cast, connection
):
    """LIKE compares each byte of a title with each byte of a word if both repeat one letter."""
    connection.execute(
        "INSERT INTO tasks (workspace_id, title, created_by)"
        " SELECT %s, repeat('a', 499) || CASE n %% 200 WHEN 0 THEN 'b' ELSE 'a' END, %s"
        " FROM generate_series(0, 999) AS n",
        (cast["acme"], cast["alice"]),
    )
    page = alice.get(f"/tasks?q={'a' * 117}c").get_json()
    searched = f"id >= '{uuid.UUID(page['nextCursor'])}'"
    assert page["data"] == []
    # Two bytes of the pattern are percent signs.
    assert count(connection, "tasks", searched) == 20_000_000 // (500 * 120) == 333
    assert len(read_all(alice, "/tasks", q=f"{'a' * 117}b")) == 5
    assert len(read_all(alice, "/tasks", q="a", limit=200)) == 1000
