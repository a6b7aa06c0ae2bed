"""The entries: one for each table that requests write or read.

For a new table, an entry here is all that the tests of rows, lists, limits and tenants need.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest
from support.http import ids, read_all
from support.receivers import FINGERPRINT
from support.rows import insert

from service.api.event_types import EVENT_TYPES
from service.api.knowledge import Knowledge
from service.api.mail import Mail
from service.api.meetings import MeetingDetails
from service.api.suggestions import Suggestion
from service.api.tasks import Task
from service.values.schemas import Resource

HERE = "tests/support/resources.py"
MS = timedelta(milliseconds=1)
# When meetings start and mail arrives unless a test sets another time. It is in the future.
NOON = datetime(2099, 1, 1, 12, tzinfo=UTC)
# The earliest and latest allowed times, times around 1970, and times one millisecond apart. A
# meeting that starts at one of these times ends one millisecond later.
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
# A word in the texts of every world (see world.py), for which tests search.
WORD = "heirloom"

# Where a caller sees the rows: in the active workspace, in all of the caller's workspaces, or only
# the caller's own rows.
WORKSPACE, EVERYWHERE, PERSONAL = "the active workspace", "all workspaces", "the user"


REPORTED = set()


def missing(message):
    """Fail the first test with this message; skip later tests, which would only repeat it."""
    if message in REPORTED:
        pytest.skip(message)
    REPORTED.add(message)
    pytest.fail(message)


def edge(n):
    return EDGES[n % len(EDGES)]


# Functions for columns whose value depends on the row, or on rows that were inserted before.
def user(_, known):
    return known["user"]


def first_task(_, known):
    return known["tasks"]


def end_time(row, _):
    return row["start_time"] + MS


@dataclass(frozen=True)
class PagedList:
    """A list of a resource: its query, and the order of its rows.

    ``told`` are the words with which the table *Lists* of docs/api.md tells the order. ``columns``
    returns values for the row with a number, so that the rows of a test differ.
    """

    order: str = "id DESC"
    query: dict = field(default_factory=dict)
    where: str = "true"
    columns: Callable = lambda _: {}
    told: str = "newest first"
    default: int = 50
    maximum: int = 200
    # LISTS sets these from the resource that has the list.
    path: str = ""
    table: str = ""
    visible_to: str = ""

    @property
    def everywhere(self):
        return self.visible_to == EVERYWHERE

    def get(self, client, **query):
        return client.get(self.path, query_string={**self.query, **query})

    def ids(self, client, **query):
        """Return the ids on all pages; ``read_all`` checks that Link and nextCursor agree."""
        return ids(read_all(client, self.path, **self.query, **query))

    def ordered(self, connection):
        """Return the ids of the rows that belong on the list, in its order."""
        sql = f"SELECT id::text FROM {self.table} WHERE {self.where} ORDER BY {self.order}"
        return ids(connection.execute(sql).fetchall())


@dataclass(frozen=True)
class TableEntry:
    """A table, and values for its rows.

    The entry of a table whose rows tests insert in some other way has only some of these values.
    """

    table: str
    path: str = ""
    # The schema of the rows if the API shows them as objects, and the type of their lines for load.
    schema: type[Resource] | None = None
    line: str | None = None
    # Whether an export leaves the rows out.
    left_out: bool = False
    # Values for the columns that an INSERT needs. A value may be a function; its arguments are the
    # row, and the ids of rows that were inserted before.
    required: dict = field(default_factory=dict)
    # For each row of a world, the values in addition to ``required``.
    world: tuple[dict, ...] = ({},)
    # The names of fields that refer to a row of this table; and two valid values for each field
    # whose class does not tell which values are valid.
    references: tuple[str, ...] = ()
    values: dict[str, list] = field(default_factory=dict)
    # Values that the schema of the database rejects and accepts in columns without a field, and the
    # columns without a field that may be NULL.
    rejected: dict = field(default_factory=dict)
    accepted: dict = field(default_factory=dict)
    nullable: str = ""
    visible_to: str = WORKSPACE
    lists: dict[str, PagedList] = field(default_factory=dict)

    def insert(self, connection, workspace_id, known, **values):
        """Insert a row with the required columns and these values; return its id."""
        row = {**self.required, **values}
        row = {name: value(row, known) if callable(value) else value for name, value in row.items()}
        return insert(connection, self.table, workspace_id=workspace_id, **row)


TITLED = {"title": WORD}
# The metadata of each row, and a query that finds them all.
PAIR = {"metadata": json.dumps({"name": "x"})}
PAIRED = {"metadata[name]": "x"}
WORD_PAIR = {"metadata": json.dumps({"name": WORD})}
NOTED = {**TITLED, **WORD_PAIR, "notes": WORD}
OPEN = {**TITLED, "parent_id": first_task}
MEETING = {"columns": lambda n: {"start_time": edge(n)}, "default": 20, "maximum": 100}
DATED = {
    "told": "soonest first",
    "columns": lambda n: {
        "due_date": None if n % 3 == 0 else edge(n),
        "status": ("todo", "in_progress", "done")[n % 3],
    },
}
COMPLETED = {
    "told": "latest completion first",
    "columns": lambda n: {
        "completed_at": None if n % 3 == 0 else edge(n),
        "status": ("todo", "in_progress")[n % 2] if n % 3 == 0 else "done",
    },
}
BY_COMPLETION = "completed_at DESC NULLS LAST, id DESC"
KNOWLEDGE = {"columns": lambda n: {"content": "tea " * (n % 3)}}

RESOURCES = [
    TableEntry(
        "tasks",
        path="/tasks",
        schema=Task,
        line="task",
        nullable="updated_by_version",
        required={"title": "Task", "created_by": user, **PAIR},
        world=(
            {
                **TITLED,
                "description": WORD,
                "project_id": WORD,
                "assignee_id": user,
                "due_date": "2020-01-01T00:00:00Z",
                **WORD_PAIR,
            },
            {**OPEN, "status": "todo", "priority": "urgent"},
            {**OPEN, "status": "in_progress", "priority": "high"},
            {
                **OPEN,
                "status": "done",
                "priority": "low",
                "completed_at": "2020-01-01T00:00:00Z",
                "completed_by": user,
            },
            {**OPEN, "status": "done", "completed_at": "2099-01-01T00:00:00Z"},
            {**OPEN, "status": "todo", "priority": "medium"},
        ),
        references=("parentId", "taskId"),
        lists={
            "tasks": PagedList(),
            "filtered tasks": PagedList(
                query={"status": "todo"},
                where="status = 'todo'",
                columns=lambda n: {"status": ("todo", "in_progress")[n % 2]},
            ),
            "unassigned tasks": PagedList(query={"assignee": "none"}, where="assignee_id IS NULL"),
            "tasks by due date": PagedList("due_date, id", {"sort": "dueDate"}, **DATED),
            "tasks by completion": PagedList(BY_COMPLETION, {"sort": "completedAt"}, **COMPLETED),
            "search of tasks": PagedList(query={"q": "AS task"}, columns=DATED["columns"]),
            "search by due date": PagedList("due_date, id", {"q": "K", "sort": "dueDate"}, **DATED),
            "search by completion": PagedList(
                BY_COMPLETION, {"q": "K", "sort": "completedAt"}, **COMPLETED
            ),
            "tasks with metadata": PagedList(query=PAIRED),
        },
    ),
    TableEntry(
        "meetings",
        path="/meetings",
        schema=MeetingDetails,
        line="meeting",
        nullable="updated_by_version",
        required={
            **{"title": "Meeting", "start_time": NOON, "end_time": end_time, "created_by": user},
            **PAIR,
        },
        world=(
            {**NOTED, "start_time": datetime(2020, 1, 1, tzinfo=UTC)},
            NOTED,
        ),
        visible_to=EVERYWHERE,
        lists={
            "meetings": PagedList("start_time DESC, id DESC", told="latest start first", **MEETING),
            "upcoming meetings": PagedList(
                *("start_time, id", {"upcoming": "true"}, "start_time > now()"),
                told="soonest start first",
                **MEETING,
            ),
            "meetings with metadata": PagedList(
                "start_time DESC, id DESC", PAIRED, told="latest start first", **MEETING
            ),
            "upcoming meetings with metadata": PagedList(
                *("start_time, id", {"upcoming": "true", **PAIRED}, "start_time > now()"),
                told="soonest start first",
                **MEETING,
            ),
        },
    ),
    TableEntry(
        "mail",
        path="/mail",
        schema=Mail,
        line="mail",
        required={"user_id": user, "sender": "ada@example.com", "received_at": NOON},
        world=({"subject": WORD, "received_at": "2020-01-01"},),
        visible_to=PERSONAL,
        lists={
            "mail": PagedList(
                "received_at DESC, id DESC", columns=lambda n: {"received_at": edge(n) + MS}
            )
        },
    ),
    TableEntry(
        "knowledge",
        path="/knowledge",
        schema=Knowledge,
        line="knowledge",
        required={"title": "Tea"},
        world=({**TITLED, "content": WORD, "tags": [WORD]},),
        lists={
            "knowledge": PagedList(**KNOWLEDGE),
            "search": PagedList(
                f"{RANK} DESC, id DESC", {"q": "tea"}, told="best match first", **KNOWLEDGE
            ),
        },
    ),
    TableEntry(
        "suggestions",
        path="/ai/suggestions",
        schema=Suggestion,
        line="suggestion",
        required={"kind": "task", "title": "Ask again"},
        world=({**TITLED, "kind": WORD, "body": WORD, "task_id": first_task},),
        lists={
            "suggestions": PagedList(
                where="status = 'pending'",
                columns=lambda n: {
                    "status": ("pending", "accepted", "pending", "dismissed")[n % 4]
                },
            )
        },
    ),
    TableEntry(
        "workspaces",
        line="workspace",
        values={"slug": ["one", "two"], "plan": ["Pro", "Starter"], "workspace": ["acme", "acme"]},
        rejected={"member_count": [10_001]},
        accepted={"member_count": [10_000]},
        nullable="moves_to",
    ),
    TableEntry("users", line="user", nullable="active_workspace_id deactivated_at"),
    TableEntry("members", line="member"),
    # After a load, the authors of tasks and meetings make these rows again.
    TableEntry("former_members", left_out=True),
    TableEntry("deleted_versions", line="deleted"),
    TableEntry("deleted_users", line="deleted_user", nullable="deleted_at"),
    TableEntry(
        "plans",
        rejected={"name": ["", "x" * 129], "per_minute": [0], "per_day": [0]},
        accepted={"name": ["x", "x" * 128], "per_minute": [1], "per_day": [1]},
        nullable="per_day",
    ),
    TableEntry(
        "tokens",
        left_out=True,
        rejected={"kind": ["other"], "scope": ["admin"], "name": ["x" * 121], "hash": [b"x" * 31]},
        accepted={"kind": ["api", "session"], "scope": ["read", "write"], "name": ["x" * 120]},
        nullable="last_used_at expires_at revoked_at workspace_id",
    ),
    TableEntry(
        "idempotency_keys",
        left_out=True,
        rejected={"key": ["", "x" * 256]},
        accepted={"key": ["x", "x" * 255]},
        # These are NULL until the first request with the key has ended.
        nullable="status headers body shows",
    ),
    TableEntry(
        "webhooks",
        line="webhook",
        references=("webhookId",),
        required={"url": f"https://example.com/{WORD}", "key_fingerprint": FINGERPRINT},
        world=({}, {"url": f"https://example.com/{WORD}/other"}),
        rejected={"url": ["x" * 2049], "events": [["task.finished"]], "deleted_at": [NOON]},
        accepted={"url": ["x" * 2048], "events": [[*EVENT_TYPES]]},
        nullable="failing_since backoff_until disabled_at disabled_reason gap_since deleted_at",
    ),
    TableEntry("previous_secrets", line="previous_secret"),
    TableEntry(
        "deliveries",
        left_out=True,
        rejected={"state": ["other"]},
        accepted={"state": ["waiting", "delivered", "failed"]},
        nullable="finished_at",
    ),
    TableEntry("feeds", left_out=True, nullable="read_at awaited"),
    TableEntry("event_cursors", left_out=True, nullable="server_started"),
    TableEntry("attempts", left_out=True, nullable="status error answer"),
    TableEntry("processes", left_out=True, nullable="speedups"),
    TableEntry("pruning_clock", left_out=True),
]
TABLES = {resource.table: resource for resource in RESOURCES}
# The table for each type of line that load reads.
TABLE_OF = {resource.line: resource.table for resource in RESOURCES if resource.line}
LISTS = {
    name: replace(paged, path=resource.path, table=resource.table, visible_to=resource.visible_to)
    for resource in RESOURCES
    for name, paged in resource.lists.items()
}
