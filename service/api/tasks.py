"""Work to be done, and its subtasks."""

from typing import Any

from flask import Blueprint, Response
from marshmallow import post_load

from service import db, fields, webhooks
from service.http.errors import http_error
from service.http.requests import arguments
from service.http.responses import reply, reply_one, reply_page, require_match, response
from service.http.safe_writes import expected_versions, idempotent, require_unchanged

STATUSES = "todo", "in_progress", "done"
PRIORITIES = "urgent", "high", "medium", "low"

tasks = Blueprint("tasks", __name__)


class Task(fields.Resource):
    """A task; a subtask is a task with a parent."""

    id = fields.Id(dump_only=True)
    workspace_id = fields.Id(dump_only=True)
    title = fields.Text(fields.MAX_TITLE, min=1, trim=True, required=True)
    description = fields.Text(fields.MAX_TEXT, allow_none=True, load_default=None)
    status = fields.Enum(*STATUSES, load_default="todo")
    priority = fields.Enum(*PRIORITIES, load_default="medium")
    due_date = fields.Timestamp(allow_none=True, load_default=None)
    assignee_id = fields.Id(allow_none=True, load_default=None)
    project_id = fields.Text(fields.MAX_REFERENCE, min=1, allow_none=True, load_default=None)
    parent_id = fields.Id(allow_none=True, load_default=None)
    created_by = fields.Id(dump_only=True)
    created_at = fields.Timestamp(dump_only=True)
    updated_at = fields.Timestamp(dump_only=True)
    completed_at = fields.Timestamp(dump_only=True, allow_none=True)
    version = fields.Integer(min=1)


class Assignee(fields.Id):
    """A filter by assignee: an id, or one of two words."""

    words = "me", "none"

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.metadata = {
            "type": "string",
            "minLength": self.min,
            "maxLength": self.max,
            "description": "The id of a member, `me` (yourself) or `none` (unassigned)",
        }

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> str:
        return value if value in self.words else super()._deserialize(value)


class TaskFilter(fields.Page):
    """The query of the list."""

    status = fields.Enum(*STATUSES, load_default=None)
    priority = fields.Enum(*PRIORITIES, load_default=None)
    assignee = Assignee(load_default=None)
    project_id = fields.Text(fields.MAX_REFERENCE, min=1, load_default=None)
    parent_id = fields.Id(load_default=None)

    @post_load
    def split_assignee(self, values: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Name the id apart from the words; for them it is the nil UUID."""
        return {**values, "assignee_id": fields.uuid_or_nil(values["assignee"])}


FILTERS = TaskFilter().fields.keys() - fields.Page().fields.keys()


@tasks.get("/tasks")
@arguments(TaskFilter())
@response(Task, kind="page")
def list_tasks(query: dict[str, Any]) -> Response:
    """List the tasks of the active workspace, newest first"""
    if any(query[name] for name in FILTERS):
        return reply_page(db.row_custom_plan("tasks/filter", **query))
    return reply_page(db.row("tasks/list", **query))


@tasks.post("/tasks")
@arguments(Task())
@idempotent
@response(Task, 201)
def create_task(task: dict[str, Any]) -> Response:
    """Create a task in the active workspace"""
    created = db.row("tasks/create", **task)
    webhooks.announce(created.event_id)
    return reply_one(created, 201, {"Location": f"/api/tasks/{created.id}"})


@tasks.get("/tasks/<id:id>")
@response(Task)
def get_task(id: str) -> Response:
    """Read one task"""
    return reply_one(db.row_or_raise("tasks/get", id=id))


@tasks.patch("/tasks/<id:id>")
@arguments(Task(partial=True))
@idempotent
@response(Task)
def update_task(changes: dict[str, Any], id: str) -> Response:
    """Change some fields of a task; null clears one (RFC 7396)"""
    require_unchanged("tasks/get", id)
    task = db.row_or_raise(
        "tasks/update", id=id, changes=db.to_json(changes), versions=expected_versions()
    )
    webhooks.announce(task.event_id)
    return reply_one(task)


@tasks.delete("/tasks/<id:id>")
@idempotent
@response(status=204)
def delete_task(id: str) -> Response:
    """Remove a task and its subtasks for good"""
    deleted = db.row_or_raise("tasks/delete", id=id, versions=expected_versions())
    require_match(deleted)
    if not deleted.deletable:
        raise http_error("subtasks_too_large")
    webhooks.announce(*deleted.event_ids)
    return reply(None, 204)
