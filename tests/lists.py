"""The paged lists: a table that drives the tests of all of them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from client import ids, read_all
from derived import views_of

MS = timedelta(milliseconds=1)
# Both ends of time, both sides of 1970, and neighbours; a meeting ends one millisecond later.
EDGES = [
    datetime(1900, 1, 1, tzinfo=UTC),
    datetime(1900, 1, 1, tzinfo=UTC) + MS,
    datetime(1970, 1, 1, tzinfo=UTC) - 2 * MS,
    datetime(1970, 1, 1, tzinfo=UTC) - MS,
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(2026, 2, 28, 12, 0, 0, 743000, tzinfo=UTC),
    datetime(2999, 7, 1, tzinfo=UTC),
    datetime(2999, 7, 1, tzinfo=UTC) + MS,
    datetime(9998, 12, 31, 23, 59, 59, 997000, tzinfo=UTC),
    datetime(9998, 12, 31, 23, 59, 59, 998000, tzinfo=UTC),
]
RANK = "(ts_rank(words, 'tea'::tsquery) * 1000000)::bigint"


def edge(n):
    return EDGES[n % len(EDGES)]


@dataclass(frozen=True)
class PagedList:
    """The path of a list, the order of its rows, and the columns by which its rows differ."""

    path: str
    table: str
    order: str = "id DESC"
    query: dict = field(default_factory=dict)
    where: str = "true"
    columns: Callable = lambda _: {}
    default: int = 50
    maximum: int = 200
    keyed: bool = False
    # ``everywhere``: the list has rows of all the caller's workspaces; ``personal``: of the caller
    # only.
    everywhere: bool = False
    personal: bool = False

    def get(self, client, **query):
        return client.get(self.path, query_string={**self.query, **query})

    def ids(self, client, **query):
        """Return the ids on all pages; ``read_all`` checks that Link and nextCursor agree."""
        return ids(read_all(client, self.path, **self.query, **query))

    def ordered(self, connection):
        """Return the ids of the rows that belong on the list, in its order."""
        sql = f"SELECT id::text FROM {self.table} WHERE {self.where} ORDER BY {self.order}"
        return ids(connection.execute(sql).fetchall())


MEETINGS = {
    "path": "/meetings",
    "table": "meetings",
    "columns": lambda n: {"start_time": edge(n)},
    "default": 20,
    "maximum": 100,
    "keyed": True,
    "everywhere": True,
}
KNOWLEDGE = {
    "path": "/knowledge",
    "table": "knowledge",
    "columns": lambda n: {"content": "tea " * (n % 3)},
    "keyed": True,
}
LISTS = {
    "tasks": PagedList("/tasks", "tasks"),
    "filtered tasks": PagedList(
        "/tasks",
        "tasks",
        query={"status": "todo"},
        where="status = 'todo'",
        columns=lambda n: {"status": ("todo", "in_progress")[n % 2]},
    ),
    "unassigned tasks": PagedList(
        "/tasks", "tasks", query={"assignee": "none"}, where="assignee_id IS NULL"
    ),
    "meetings": PagedList(order="start_time DESC, id DESC", **MEETINGS),
    "upcoming meetings": PagedList(
        order="start_time, id", query={"upcoming": "true"}, where="start_time > now()", **MEETINGS
    ),
    "mail": PagedList(
        "/mail",
        "mail",
        order="received_at DESC, id DESC",
        columns=lambda n: {"received_at": edge(n) + MS},
        keyed=True,
        personal=True,
    ),
    "knowledge": PagedList(**KNOWLEDGE),
    "search": PagedList(order=f"{RANK} DESC, id DESC", query={"q": "tea"}, **KNOWLEDGE),
    "suggestions": PagedList(
        "/ai/suggestions",
        "suggestions",
        where="status = 'pending'",
        columns=lambda n: {"status": ("pending", "accepted", "pending", "dismissed")[n % 4]},
    ),
}


def view_of(paged):
    """The view of a list."""
    found = [view for view in views_of("GET") if view.rule == f"/api{paged.path}"]
    assert found, f"no view has the path of the list {paged.path}: see service/api/__init__.py"
    return found[0]
