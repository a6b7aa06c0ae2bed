"""Pages: each has about 1 MiB of text at most, and together they have every row."""

from datetime import UTC, datetime, timedelta

import pytest
from client import insert

MAX_TEXT_BYTES = 1_048_576
# A control character is six bytes of JSON; short texts and timestamps need some bytes too.
MAX_BODY_BYTES = 6 * MAX_TEXT_BYTES + 100_000
LARGE = "\x01" * 65_536
# These texts repeat themselves, so PostgreSQL could compress them to a hundredth.
DOMAIN = f"{'b' * 60}.{'c' * 60}.{'d' * 37}.example.com"
ADDRESSES = [f"{'a' * 60}{number:03}@{DOMAIN}" for number in range(200)]
START = datetime(2100, 1, 1, tzinfo=UTC)

TASKS = "tasks", {"title": "x", "project_id": "p"}, [{"description": LARGE}]
MEETINGS = (
    "meetings",
    {"title": "x"},
    [{"agenda": LARGE}, {"notes": LARGE}, {"attendees": ADDRESSES}],
)
KNOWLEDGE = "knowledge", {"title": "word", "content": LARGE}, [{}, {"tags": ["\x01" * 120] * 50}]
MAIL = "mail", {"sender": "a@example.com", "snippet": "\x01" * 2000}, [{"recipients": ADDRESSES}]
SUGGESTIONS = "suggestions", {"kind": "task", "title": "x"}, [{"body": LARGE}]


def fill(connection, cast, table, common, rows):
    """Insert rows into a list of Alice, earliest first; return their ids, latest first."""
    ids = []
    for number, row in enumerate(rows):
        at = START + timedelta(hours=number)
        more = {
            "tasks": {"created_by": cast["alice"]},
            "meetings": {
                "created_by": cast["alice"],
                "start_time": at,
                "end_time": at + timedelta(minutes=30),
            },
            "mail": {"user_id": cast["alice"], "received_at": at},
        }.get(table, {})
        values = {"workspace_id": cast["acme"], **common, **more, **row}
        ids.insert(0, insert(connection, table, **values))
    return ids


@pytest.mark.parametrize(
    ("path", "query", "kind"),
    [
        ("/tasks", {}, TASKS),
        ("/tasks", {"projectId": "p"}, TASKS),
        ("/meetings", {}, MEETINGS),
        ("/meetings", {"upcoming": "true"}, MEETINGS),
        ("/knowledge", {}, KNOWLEDGE),
        ("/knowledge", {"q": "word"}, KNOWLEDGE),
        ("/mail", {}, MAIL),
        ("/ai/suggestions", {}, SUGGESTIONS),
    ],
)
def test_a_list_of_large_rows_is_cut_and_its_pages_have_every_row_once(
    alice, connection, cast, path, query, kind
):
    table, common, rows = kind
    ids = fill(connection, cast, table, common, (rows * 40)[:40])
    if "upcoming" in query:
        ids.reverse()
    listed, query = [], {**query, "limit": 200}
    while query.get("cursor", "first"):
        response = alice.get(path, query_string=query)
        assert response.status_code == 200
        assert len(response.data) <= MAX_BODY_BYTES
        page = response.get_json()
        assert 1 <= len(page["data"]) < len(ids)
        listed += [row["id"] for row in page["data"]]
        query["cursor"] = page["nextCursor"]
    assert listed == ids


def test_a_page_is_cut_before_the_row_that_exceeds_the_bound(alice, connection, cast):
    description = "x" * 65_536
    sizes = [
        *[{}] * 3,
        *[{"description": description}] * (MAX_TEXT_BYTES // 65_536),
        {"description": None},
        {"description": "x"},
        *[{}] * 2,
    ]
    ids = fill(connection, cast, "tasks", {"title": "x"}, sizes)
    # Newest first: two rows without a text, one byte, no text, and all large rows but one.
    first = alice.get("/tasks").get_json()
    assert [task["id"] for task in first["data"]] == ids[:19]
    assert first["nextCursor"] == ids[18].replace("-", "")
    rest = alice.get(f"/tasks?cursor={first['nextCursor']}").get_json()
    assert [task["id"] for task in rest["data"]] == ids[19:]
    assert rest["nextCursor"] is None


def test_rows_of_exactly_the_bound_are_one_page(alice, connection, cast):
    sizes = [{"description": "x" * 65_536}] * (MAX_TEXT_BYTES // 65_536)
    ids = fill(connection, cast, "tasks", {"title": "x"}, sizes)
    page = alice.get("/tasks").get_json()
    assert [task["id"] for task in page["data"]] == ids
    assert page["nextCursor"] is None
    shorter = alice.get("/tasks?limit=15").get_json()
    assert [task["id"] for task in shorter["data"]] == ids[:15]
    assert shorter["nextCursor"] == ids[14].replace("-", "")


def test_a_page_has_at_least_one_row(connection):
    (rows,) = (
        connection.execute("SELECT last_row(ARRAY[2000000, 1], 2000001, 50) AS number")
        .fetchone()
        .values()
    )
    assert rows == 1
