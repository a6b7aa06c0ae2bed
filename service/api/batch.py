"""Many tasks in one request.

A batch runs a fixed number of statements, in one transaction. If one of them fails, the transaction
starts over with the statements for single tasks, one task after another. These find out which tasks
are refused and why, and then everything is rolled back. If no task is refused, the batch is done.
"""

# A field of a batch may have another class than the same field of a task: a client sends the id
# and the version of each task.
# mypy: disable-error-code="assignment"

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import psycopg
from flask import Blueprint, Response
from marshmallow import ValidationError, post_load, pre_load
from werkzeug.exceptions import HTTPException

from service import webhooks
from service.api.tasks import Deleted, Task, with_due_days
from service.database import db
from service.database.statements import to_json
from service.http.errors import (
    MESSAGES,
    InvalidFields,
    VersionMismatch,
    from_database,
    http_error,
    invalid_fields,
)
from service.http.requests import Values, arguments
from service.http.responses import Changed, Created, reply, require_match, response
from service.http.safe_writes import ANY_VERSION, idempotent, only
from service.values import fields, schemas
from service.values.schemas import FieldError

MAX_ITEMS = 100
VERSION = "Only if the task has this version; by default, any version"

batch = Blueprint("batch", __name__)


class BatchedTask(Task):
    """The changes of one task of a batch."""

    id = fields.Id(required=True, description="The id of the task")
    version = fields.CountingNumber(description=VERSION)


class TaskDeletion(schemas.StrictSchema):
    """One task that a batch deletes."""

    id = fields.Id(required=True, description="The id of the task")
    version = fields.CountingNumber(load_default=None, allow_none=False, description=VERSION)


# A PATCH needs no field, but here the id is required.
CHANGES = BatchedTask(partial=[name for name in BatchedTask().fields if name != "id"])


def wrong_size(actual: int) -> ValidationError:
    return ValidationError(MESSAGES["batch_size"][1].format(max=MAX_ITEMS, actual=actual), "body")


class TaskBatch(schemas.StrictSchema):
    """The tasks to create, then those to change, then those to delete."""

    json_schema = {"minProperties": 1}

    create = fields.Items(
        Task(), MAX_ITEMS, load_default=list, description="The tasks to create, in order"
    )
    update = fields.Items(CHANGES, MAX_ITEMS, load_default=list, description="The tasks to change")
    delete = fields.Items(
        TaskDeletion(),
        MAX_ITEMS,
        load_default=list,
        description="The tasks to delete, with their subtasks",
    )

    @pre_load
    def count_items(self, members: Values, **_: object) -> Values:
        """Count before anything is loaded, so that a long list costs nothing."""
        count = sum(len(items) for items in members.values() if isinstance(items, list))
        if count > MAX_ITEMS:
            raise wrong_size(count)
        return members

    @post_load
    def check_ids(self, values: Values, **_: object) -> Values:
        """Require at least one item, unique ids, and parents before their subtasks."""
        seen: dict[str, str] = {}
        errors: dict[str, dict[int, object]] = {}
        places = {item["id"]: place for place, item in enumerate(values["create"]) if item["id"]}
        for number, item in enumerate(values["create"]):
            place = places.get(item["parent_id"], number)
            if place > number:
                message = MESSAGES["later_parent"][1].format(item=f"create[{place}]")
                errors.setdefault("create", {})[number] = {"parentId": [message]}
        for name, items in values.items():
            for number, item in enumerate(items):
                if item["id"] in seen:
                    message = MESSAGES["repeated_id"][1].format(item=seen[item["id"]])
                    errors.setdefault(name, {})[number] = {"id": [message]}
                elif item["id"]:
                    seen[item["id"]] = f"{name}[{number}]"
        if errors:
            raise ValidationError(errors)
        if not any(values.values()):
            raise wrong_size(0)
        return values


class TaskBatchResult(schemas.StrictSchema):
    """The tasks of a batch after it, each list in the order of the request."""

    created = fields.NestedList(Task, dump_only=True, description="The new tasks")
    updated = fields.NestedList(
        Task, dump_only=True, description="The tasks with their changes, even if nothing changed"
    )
    deleted = fields.StringList(
        fields.Id(), MAX_ITEMS, dump_only=True, description="The ids of the deleted tasks"
    )


class Locked(NamedTuple):
    # True if every task exists, and has the expected version if there is one.
    matched: bool
    # False if the tasks contain too much text for one response.
    fits: bool


class Done(NamedTuple):
    data: bytes
    event_ids: list[str]


class EventIds(NamedTuple):
    event_ids: list[str]


class Refused(Exception):
    """A task does not exist, or does not have the expected version."""


@batch.post("/tasks/batch")
@arguments(TaskBatch())
@idempotent
@response(TaskBatchResult, kind="object", also=(412,))
def change_tasks(batch: Values) -> Response:
    """Create, change and delete up to 100 tasks: all of them, or none

    First the tasks of ``create`` are created in their order, then those of ``update`` are changed,
    then those of ``delete`` are deleted with their subtasks. A ``parentId`` can be the ``id`` of an
    earlier task of ``create``. The request counts as one for the limits. The service sends an event
    for each task that it created, changed or deleted, in this order.

    If one task is refused, nothing changes. The errors then name every refused task, for example
    ``create[3].title`` or ``update[0].version``. The status is that of the first error: 400 for
    invalid values, 404 for a task that does not exist, 409 for an ``id`` that is taken, 412 for
    another version. The response is also 409 if the tasks of ``update`` and ``delete`` contain more
    than 4 MiB of text.
    """
    creates, changes, deletes = batch["create"], batch["update"], batch["delete"]
    dated = with_due_days([*creates, *changes])
    creates, changes = dated[: len(creates)], dated[len(creates) :]
    ids = [item["id"] for item in deletes]
    with db.transaction():
        to_lock = rows_to_lock(creates, changes, deletes)
        locked = Locked(matched=True, fits=True)
        if any(to_lock.values()):
            locked = db.row(Locked, "tasks/batch_lock", **to_lock)
        if not locked.fits:
            raise http_error("batch_too_large")
        created = updated = Done(b"[]", [])
        deleted = EventIds([])
        try:
            with db.transaction():
                if not locked.matched:
                    raise Refused
                if creates:
                    created = db.row(Done, "tasks/batch_create", tasks=to_json(creates))
                if changes:
                    updates = to_json([*map(split, changes)])
                    updated = db.row(Done, "tasks/batch_update", updates=updates)
        except (Refused, psycopg.IntegrityError, psycopg.DataError):
            created, updated = one_by_one(creates, changes, deletes)
            if not locked.matched:
                # Another request has created a missing task meanwhile.
                raise http_error("concurrent_change") from None
        if deletes:
            deleted = db.row(EventIds, "tasks/batch_delete", ids=ids)
    webhooks.post_before_response(*created.event_ids, *updated.event_ids, *deleted.event_ids)
    lists = created.data, updated.data, to_json(ids).encode()
    return reply(b'{"created":%b,"updated":%b,"deleted":%b}' % lists)


def rows_to_lock(creates: list[Values], changes: list[Values], deletes: list[Values]) -> Values:
    """Name the rows that the statements of the batch will lock."""
    existing, written = [*changes, *deletes], [*creates, *changes]

    def of(name: str) -> list[str]:
        return [item[name] for item in written if item.get(name)]

    return {
        "ids": [item["id"] for item in existing],
        "versions": [item.get("version") for item in existing],
        "deleted_ids": [item["id"] for item in deletes],
        "parent_ids": of("parent_id"),
        "assignee_ids": of("assignee_id"),
    }


def split(change: Values) -> Values:
    """Separate the id of a task from its changes."""
    changes = {name: value for name, value in change.items() if name not in ("id", "version")}
    return {"id": change["id"], "changes": changes}


def one_by_one(
    creates: list[Values], changes: list[Values], deletes: list[Values]
) -> tuple[Done, Done]:
    """Create and change the tasks one after another; raise an error that names all refused ones.

    PostgreSQL chooses the order in which one statement changes its rows. So that statement can
    fail, although each change is allowed after the previous ones: one task becomes the parent of
    another, for example, after it has left its own parent.
    """
    refused: list[tuple[int, FieldError]] = []
    rows: dict[str, list[Created | Changed]] = {"create": [], "update": [], "delete": []}
    for name, number, run in attempts(creates, changes, deletes):
        try:
            with db.transaction():
                rows[name] += run()
        except (db.NotFound, HTTPException, psycopg.IntegrityError, psycopg.DataError) as error:
            refused += errors_of(f"{name}[{number}]", error)
    if refused:
        invalid = invalid_fields([error for _, error in refused])
        invalid.code = refused[0][0]
        raise invalid
    return done(rows["create"]), done(rows["update"])


def done(rows: Sequence[Created | Changed]) -> Done:
    data = b"[%b]" % b",".join(row.body for row in rows)
    return Done(data, [row.event_id for row in rows if row.event_id])


def attempts(
    creates: list[Values], changes: list[Values], deletes: list[Values]
) -> Iterator[tuple[str, int, Callable[[], list[Created | Changed]]]]:
    """Yield the list and the number of each task, and a function that runs it alone."""

    def create(task: Values) -> list[Created | Changed]:
        return [db.row(Created, "tasks/create", **{"due_day": None, **task})]

    def update(change: Values) -> list[Created | Changed]:
        values = {**split(change), "versions": versions(change)}
        task = db.row(Changed, "tasks/update", **{**values, "changes": to_json(values["changes"])})
        require_match(task.matched, task.version, task.body)
        return [task]

    def delete(item: Values) -> list[Created | Changed]:
        # The batch may delete a task and its subtask. So that the subtask is found as well, the
        # task comes back after its attempt.
        with db.transaction(force_rollback=True):
            task = db.row(Deleted, "tasks/delete", id=item["id"], versions=versions(item))
        require_match(task.matched, task.version, task.current)
        if not task.deletable:
            raise http_error("subtasks_too_large")
        return []

    def versions(item: Values) -> str:
        return only([item["version"]]) if item.get("version") else ANY_VERSION

    runs: dict[str, tuple[list[Values], Callable[[Any], list[Created | Changed]]]] = {
        "create": (creates, create),
        "update": (changes, update),
        "delete": (deletes, delete),
    }
    for name, (items, run) in runs.items():
        for number, item in enumerate(items):
            yield name, number, partial(run, item)


def errors_of(
    item: str, error: db.NotFound | HTTPException | psycopg.Error
) -> list[tuple[int, FieldError]]:
    """Return the status and the field errors of one refused task; raise any other error."""
    if isinstance(error, db.NotFound):
        status, message = MESSAGES["not_found"]
        return [(status, FieldError(f"{item}.id", message.format(resource="Task")))]
    refused = from_database(error) if isinstance(error, psycopg.Error) else error
    if isinstance(refused, VersionMismatch):
        status, message = MESSAGES["stale_version"]
        message = message.format(version=refused.version)
        return [(status, FieldError(f"{item}.version", message, refused.current))]
    if isinstance(refused, InvalidFields):
        return [
            (refused.code or 400, FieldError(f"{item}.{fault.field}", fault.message))
            for fault in refused.errors
        ]
    raise refused
