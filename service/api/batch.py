"""Many tasks in one request.

A batch runs the statements for single tasks, one task after another, in one transaction, which
first takes the locks that they need. If a task is refused, the batch goes through all tasks again,
in order to find every refused one; then everything is rolled back.
"""

# A field of a batch may have another class than the same field of a task: a client sends the id
# and the version of each task.
# mypy: disable-error-code="assignment"

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import psycopg
from flask import Blueprint, Response
from marshmallow import ValidationError, post_load, pre_load

from service import webhooks
from service.api.tasks import Task, create, delete, set_due_days, update
from service.context import db
from service.database.statements import NotFound, to_json
from service.values import Values, schemas
from service.values.schemas import FieldError
from service.values.types import CountingNumber, Id, Items, List, Nested, StringList
from service.web.errors import (
    MESSAGES,
    HTTPError,
    http_error,
    invalid_fields,
    to_http_error,
)
from service.web.operation import operation
from service.web.responses import reply
from service.web.safe_writes import ANY_VERSION, only

MAX_ITEMS = 100
VERSION = "Only if the task has this version; by default, any version"

blueprint = Blueprint("batch", __name__)


class BatchedTask(Task):
    """The changes of one task of a batch."""

    id = Id("The id of the task", required=True)
    version = CountingNumber(VERSION)


class TaskDeletion(schemas.StrictSchema):
    """One task that a batch deletes."""

    id = Id("The id of the task", required=True)
    version = CountingNumber(VERSION, load_default=None, allow_none=False)


# A PATCH needs no field, but here the id is required.
CHANGES = BatchedTask(partial=[name for name in BatchedTask().fields if name != "id"])


def wrong_size(actual: int) -> ValidationError:
    return ValidationError(MESSAGES["batch_size"][1].format(max=MAX_ITEMS, actual=actual), "body")


class TaskBatch(schemas.StrictSchema):
    """The tasks to create, then those to change, then those to delete."""

    json_schema = {"minProperties": 1}

    create = Items(Task(), MAX_ITEMS, "The tasks to create, in order", load_default=list)
    update = Items(CHANGES, MAX_ITEMS, "The tasks to change", load_default=list)
    delete = Items(
        TaskDeletion(), MAX_ITEMS, "The tasks to delete, with their subtasks", load_default=list
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
        errors: dict[str, dict[int, object]] = defaultdict(dict)
        places = {item["id"]: place for place, item in enumerate(values["create"]) if item["id"]}
        for number, item in enumerate(values["create"]):
            place = places.get(item["parent_id"], number)
            if place > number:
                message = MESSAGES["later_parent"][1].format(item=f"create[{place}]")
                errors["create"][number] = {"parentId": [message]}
        seen: dict[str, str] = {}
        for name, items in values.items():
            for number, item in enumerate(items):
                if item["id"] in seen:
                    message = MESSAGES["repeated_id"][1].format(item=seen[item["id"]])
                    errors[name][number] = {"id": [message]}
                elif item["id"]:
                    seen[item["id"]] = f"{name}[{number}]"
        if errors:
            raise ValidationError(errors)
        if not any(values.values()):
            raise wrong_size(0)
        return values


class TaskBatchResult(schemas.StrictSchema):
    """The tasks of a batch after it, each list in the order of the request."""

    created = List(Nested(Task), "The new tasks", dump_only=True)
    updated = List(
        Nested(Task), "The tasks with their changes, even if nothing changed", dump_only=True
    )
    deleted = StringList(Id(), MAX_ITEMS, "The ids of the deleted tasks", dump_only=True)


class Begun(NamedTuple):
    # The ids of the tasks of ``update`` and ``delete`` that do not exist.
    missing: list[str]
    # False if the tasks are more than one batch may change and delete.
    fits: bool


# The arguments of ``create``, ``update`` or ``delete`` for each item, by the names of the lists.
Arguments = dict[str, list[tuple[Any, ...]]]
WRITES: dict[str, Callable[..., object]] = {"create": create, "update": update, "delete": delete}
# The errors of a refused task.
REFUSALS = (NotFound, HTTPError, psycopg.IntegrityError, psycopg.DataError)


@blueprint.post("/tasks/batch")
@operation(TaskBatch(), TaskBatchResult, also=(412,), idempotent="workspace")
def change_tasks(batch: Values) -> Response:
    """Create, change and delete up to 100 tasks: all of them, or none

    The service first creates the tasks of ``create``, then changes those of ``update``, then
    deletes those of ``delete`` with their subtasks, each list in its order. A ``parentId`` can be
    the ``id`` of an earlier task of ``create``. The request counts as one for the limits. The
    service sends an event for each task that it created, changed or deleted, in this order.

    If one task is refused, nothing changes. The errors then name every refused task, for example
    ``create[3].title`` or ``update[0].version``. The status is that of the first error: 400 for
    invalid values, 404 for a task that does not exist, 409 for an ``id`` that is taken, 412 for
    another version. The response is also 409 if the tasks of ``update`` and ``delete``, with the
    subtasks of the latter, have more than 4 MiB of JSON together, or if their events would be more
    than 20 000 deliveries to webhooks.
    """
    creates, changes, deletes = batch["create"], batch["update"], batch["delete"]
    set_due_days([*creates, *changes])
    items: Arguments = {
        "create": [(task,) for task in creates],
        "update": [(item["id"], changed(item), versions(item)) for item in changes],
        "delete": [(item["id"], versions(item)) for item in deletes],
    }
    with db.transaction():
        begun = begin(changes, deletes)
        try:
            # A rollback of this savepoint keeps the locks.
            with db.transaction():
                if begun.missing:
                    raise NotFound("task")
                created = [create(*item) for item in items["create"]]
                updated = [update(*item) for item in items["update"]]
                deleted: list[str] = []
                for item in items["delete"]:
                    # A subtask of an earlier item is deleted already, and has its event.
                    with suppress(NotFound):
                        deleted += delete(*item).event_ids
        except REFUSALS:
            raise refusal(items, {*begun.missing}) from None
    event_ids = [row.event_id for row in created] + [row.event_id for row in updated]
    webhooks.post_before_response(*event_ids, *deleted)
    lists = [b",".join(row.body for row in rows) for rows in (created, updated)]
    ids = to_json([item["id"] for item in deletes]).encode()
    return reply(b'{"created":[%b],"updated":[%b],"deleted":%b}' % (*lists, ids))


def changed(item: Values) -> Values:
    return {name: value for name, value in item.items() if name not in ("id", "version")}


def versions(item: Values) -> str:
    return only([item["version"]]) if item.get("version") else ANY_VERSION


def begin(changes: list[Values], deletes: list[Values]) -> Begun:
    """Take the locks of the batch; raises 409 if its tasks are too large."""
    begun = db.row(
        Begun,
        "tasks/begin_batch",
        ids=[item["id"] for item in (*changes, *deletes)],
        deleted_ids=[item["id"] for item in deletes],
        is_alone=bool(deletes) or any("parent_id" in item for item in changes),
    )
    if not begun.fits:
        raise http_error("batch_too_large")
    return begun


def refusal(items: Arguments, missing: set[str]) -> HTTPError:
    """Return an error that names every refused task.

    Each task is tried after the earlier ones that are not refused. A deleted task comes back after
    its attempt, so that a later item can name its subtask.
    """
    status = 0
    errors: list[FieldError] = []
    for name, write in WRITES.items():
        for number, item in enumerate(items[name]):
            try:
                if name != "create" and item[0] in missing:
                    raise NotFound("task")
                with db.transaction(force_rollback=name == "delete"):
                    write(*item)
            except REFUSALS as error:
                refused = to_http_error(error)
                status = status or refused.status
                for fault in faults_of(error, refused):
                    errors.append(fault._replace(field=f"{name}[{number}].{fault.field}"))
    if not errors:
        # What a task refers to has appeared meanwhile.
        return http_error("concurrent_change")
    return invalid_fields(errors, status)


def faults_of(error: Exception, refused: HTTPError) -> Sequence[FieldError]:
    """Return the field errors of one refused task; raise any other error."""
    if isinstance(error, NotFound):
        return [FieldError("id", refused.message)]
    if refused.version:
        message = MESSAGES["stale_version"][1].format(version=refused.version)
        return [FieldError("version", message, refused.current)]
    if not refused.errors:
        raise refused
    return refused.errors
