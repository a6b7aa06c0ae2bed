"""Tasks and their subtasks.

``@operation`` says what a view takes and returns; ``service/web/operation.py`` explains it.
PostgreSQL writes the JSON of responses, with the function ``task_json``
(``sql/functions/tasks.sql``).
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, cast

import psycopg
from flask import Blueprint, Response
from marshmallow import ValidationError, post_load

from service import webhooks
from service.api.filters import filters_of, require_order
from service.context import db
from service.database.statements import NotFound, to_json
from service.values import Values, schemas
from service.values.types import (
    MAX_REFERENCE,
    MAX_TEXT,
    MAX_TITLE,
    METADATA,
    UPDATED_BY,
    VERSION,
    Bound,
    Cursor,
    Day,
    DayOrTimestamp,
    Id,
    NewId,
    OneOf,
    Pairs,
    SomeOf,
    Text,
    Timestamp,
    Words,
)
from service.web.errors import http_error, to_http_error
from service.web.operation import operation
from service.web.responses import (
    Changed,
    Created,
    One,
    reply,
    reply_created,
    reply_one,
    reply_page,
    require_match,
)
from service.web.safe_writes import ANY_VERSION, expected_versions, roll_back

STATUSES = "todo", "in_progress", "done"
PRIORITIES = "urgent", "high", "medium", "low"
PROJECT = "An id of your choice, for a project that you keep elsewhere"
DAY = "; a day, like 2026-11-20, means its beginning in the workspace's timezone"
COMPLETED = "When the status became done; null if the status is not done"

blueprint = Blueprint("tasks", __name__)


class Task(schemas.Resource):
    """A task; a subtask is a task with a parent."""

    optional = ("updated_by", "completed_by", "metadata")

    id = NewId("The id of the task", load_default=None, allow_none=False)
    workspace_id = Id("The workspace of the task", dump_only=True)
    title = Text(MAX_TITLE, "What to do", min=1, trim=True, required=True)
    description = Text(MAX_TEXT, "More about the task", load_default=None)
    status = OneOf(
        *STATUSES,
        schema_name="TaskStatus",
        load_default="todo",
        description="The progress of the task; any status can follow any other",
    )
    priority = OneOf(
        *PRIORITIES,
        schema_name="TaskPriority",
        load_default="medium",
        description="How urgent the task is",
    )
    due_date = DayOrTimestamp("When the task is due", load_default=None)
    due_day = Day(
        "The day, if dueDate was set to a day; a new timezone of the workspace does not change it",
        dump_only=True,
        allow_none=True,
    )
    assignee_id = Id("The id of a member of the workspace", load_default=None)
    project_id = Text(MAX_REFERENCE, PROJECT, min=1, load_default=None)
    parent_id = Id(
        "The task of which this is a subtask, or null; a subtask cannot have subtasks",
        load_default=None,
    )
    created_by = Id("The user who created the task", dump_only=True)
    created_at = Timestamp("When the task was created", dump_only=True)
    updated_at = Timestamp("When the task was last changed", dump_only=True)
    completed_at = Timestamp(COMPLETED, dump_only=True, allow_none=True)
    version = VERSION
    updated_by = UPDATED_BY
    completed_by = Id(
        "The user who set the status to done; null if the status is not done, or if this user is"
        " not known. Events and repeated responses from before release 1.2.0 lack it",
        dump_only=True,
        allow_none=True,
    )
    metadata = METADATA


class TaskFilter(schemas.PageQuery):
    status = SomeOf(
        *STATUSES,
        schema_name="TaskStatus",
        description="Only tasks with one of these statuses",
    )
    priority = SomeOf(
        *PRIORITIES,
        schema_name="TaskPriority",
        description="Only tasks with one of these priorities",
    )
    assignee = Id(
        "The id of a member, `me` (yourself) or `none` (unassigned)",
        words=("me", "none"),
    )
    project_id = Text(MAX_REFERENCE, "Only tasks of this project", min=1)
    parent_id = Id(
        "The id of a task, for its subtasks; or `none`, for tasks that are not subtasks",
        words=("none",),
    )
    due_after = Bound(f"Only tasks due at this time or later{DAY}")
    due_before = Bound(f"Only tasks due before this time{DAY}")
    completed_after = Bound(f"Only tasks completed at this time or later{DAY}")
    completed_before = Bound(f"Only tasks completed before this time{DAY}")
    completed_by = Id(
        "Only tasks completed by this user; an id, or `me` (yourself)",
        words=("me",),
    )
    q = Words("Only tasks whose title contains these words, in any case; at most 8 words")
    metadata = Pairs("Only tasks whose metadata has these pairs, like `metadata[ticket]=42`")
    sort = OneOf(
        "dueDate",
        "completedAt",
        schema_name="TaskOrder",
        description="`dueDate`: due soonest first, tasks without a due date last. `completedAt`:"
        " latest completion first, tasks that are not completed last. By default, newest first",
    )
    cursor = Cursor(keyed=None)

    @post_load
    def split_cursor(self, values: Values, **options: object) -> Values:
        values = super().split_cursor(values, **options)
        # A cursor has a sort key if and only if the list has a sort.
        has_key = values["after"] is not None
        if values["after_id"] and has_key != bool(values["sort"]):
            raise ValidationError(Cursor.default_error_messages["cursor"], "cursor")
        return values


class DueMoment(NamedTuple):
    day: str
    moment: str


def set_due_days(tasks: list[Values]) -> None:
    """If a ``dueDate`` is a day, set ``due_day`` to it, and ``due_date`` to the end of that day.

    The day ends in the timezone of the workspace. This is a separate statement, which runs only if
    there is a day: inside tasks/create and tasks/update it would make every write 2 % slower.
    """
    dated = [task for task in tasks if Day.matches(task.get("due_date"))]
    if dated:
        days = {task["due_date"] for task in dated}
        moments = dict(db.rows(DueMoment, "tasks/due_moments", days=[*days]))
        for task in dated:
            task["due_day"] = task["due_date"]
            task["due_date"] = moments[task["due_day"]]


def statement_for(query: Values) -> str:
    """Return the name of the statement that lists the tasks of a query."""
    if query["q"] or query["metadata"]:
        return "tasks/search"
    if query["sort"]:
        return {"dueDate": "tasks/soonest", "completedAt": "tasks/latest"}[query["sort"]]
    given = {name for name, value in query.items() if value}
    return "tasks/list" if given <= {"limit", "after", "after_id"} else "tasks/filter"


@blueprint.get("/tasks")
@operation(TaskFilter(), Task, kind="page")
def list_tasks(query: Values) -> Response:
    """List the tasks of the active workspace, newest first or in another order

    The list includes subtasks. A task must match all filters. With ``sort=dueDate``, the task that
    is due soonest comes first, and tasks without a due date come last. With ``sort=completedAt``,
    the task that was completed last comes first, and tasks that are not completed come last. With
    ``q`` or ``metadata``, each request searches the newest 10 000 tasks that match the other
    filters, or fewer if their titles and the words, or their metadata, are very long; the next page
    continues with older tasks. So a page can be empty although ``nextCursor`` is not null. With
    ``sort`` as well, all pages together search only the newest of these tasks.
    """
    require_order("dueAfter", "due_bounds", query["due_after"], query["due_before"])
    completed = query["completed_after"], query["completed_before"]
    require_order("completedAfter", "completed_bounds", *completed)
    return reply_page(db.page(statement_for(query), **query, filters=filters_of(query)))


def create(task: Values) -> Created:
    return db.row(Created, "tasks/create", **{"due_day": None, **task})


def update(id: str, changes: Values, versions: str) -> Changed:
    """Change a task; raises NotFound, or 412 if it has none of these versions."""
    task = db.row(Changed, "tasks/update", id=id, changes=to_json(changes), versions=versions)
    require_match(task)
    return task


class Deleted(NamedTuple):
    """The row of a DELETE; the task is deleted only if ``matched`` and ``deletable`` are true."""

    version: int
    matched: bool
    # The task, if ``matched`` is false; otherwise null.
    body: bytes | None
    # False if the events of the subtasks would be too large.
    deletable: bool
    event_ids: list[str]


def delete(id: str, versions: str) -> Deleted:
    """Delete a task with its subtasks; raises NotFound, 412 as ``update`` does, or 409."""
    deleted = db.row(Deleted, "tasks/delete", id=id, versions=versions)
    require_match(deleted)
    if not deleted.deletable:
        raise http_error("subtasks_too_large")
    return deleted


def add_faults_of_references(error: ValidationError, id: str | None = None) -> None:
    """Add what is wrong with the assignee and the parent to the faults of other fields.

    PostgreSQL knows these rules, and checks them only for a task whose fields are all valid. So try
    each reference alone, in a new task or in the task ``id``, and undo that.
    """
    valid, messages = cast("Values", error.valid_data), cast("Values", error.messages)
    for name in ("assignee_id", "parent_id"):
        if not valid.get(name):
            continue
        values = {name: valid[name]}
        attempt: Callable[[], object] = (
            partial(update, id, values, ANY_VERSION)
            if id
            else partial(create, {**Task().load({"title": "A task"}), **values})
        )
        try:
            roll_back(attempt)
        except psycopg.IntegrityError as refused:
            messages |= {field: [text] for field, text, _ in to_http_error(refused).errors}
        except (psycopg.Error, NotFound):
            # The client learns of this when all fields are valid.
            pass


@blueprint.post("/tasks")
@operation(
    Task(),
    Task,
    201,
    idempotent="workspace",
    kind="versioned",
    when_invalid=add_faults_of_references,
)
def create_task(task: Values) -> Response:
    """Create a task in the active workspace

    Only ``title`` is required. ``parentId`` makes the new task a subtask. The service sends the
    event ``task.created``.
    """
    set_due_days([task])
    created = create(task)
    webhooks.post_before_response(created.event_id)
    return reply_created(created)


@blueprint.get("/tasks/<id:id>")
@operation(response=Task, kind="versioned")
def get_task(id: str) -> Response:
    """Return a task

    The task must be in your active workspace; for any other, the response is 404.
    """
    return reply_one(db.row(One, "tasks/get", id=id))


@blueprint.patch("/tasks/<id:id>")
@operation(
    Task(partial=True, dump_only=["id"]),
    Task,
    idempotent="workspace",
    kind="versioned",
    when_invalid=add_faults_of_references,
)
def update_task(changes: Values, id: str) -> Response:
    """Change some fields of a task; null clears a field (RFC 7396)

    Absent fields keep their values, and any status can follow any other. A change sends the event
    ``task.updated``; a request that changes nothing returns 200 and sends no event. The service
    ignores read-only fields, so you can send a task back as you read it.
    """
    set_due_days([changes])
    task = update(id, changes, expected_versions())
    webhooks.post_before_response(task.event_id)
    return reply_one(task)


@blueprint.delete("/tasks/<id:id>")
@operation(status=204, idempotent="workspace", kind="versioned")
def delete_task(id: str) -> Response:
    """Delete a task and its subtasks permanently

    The service sends an event ``task.deleted`` for each deleted task. While a webhook is enabled or
    a client polls for events, the response is 409 if the task has more than 10 000 subtasks, if
    they hold more than 16 MiB of text, or if their events would be more than 20 000 deliveries to
    webhooks: delete some of the subtasks first.
    """
    deleted = delete(id, expected_versions())
    webhooks.post_before_response(*deleted.event_ids)
    return reply(None, 204)
