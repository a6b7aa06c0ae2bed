"""Tasks of the active workspace: list, create, read, change, remove."""

from service import db, webhooks
from service.fields import REFERENCE, TEXT, TITLE, Body, Choice, Id, Moment, Page, Text
from service.inputs import Blueprint
from service.preconditions import expected_versions, idempotent, reply_one, require_match
from service.replies import reply, reply_page
from service.shapes import Shape, answers, moment, text, uuid, whole, word

STATUSES = "todo", "in_progress", "done"
PRIORITIES = "urgent", "high", "medium", "low"

tasks = Blueprint("tasks", "Work to be done, and its subtasks")


class Task(Shape):
    id = uuid()
    workspace_id = uuid()
    title = text(TITLE, 1)
    description = text(TEXT, null=True)
    status = word(*STATUSES)
    priority = word(*PRIORITIES)
    due_date = moment(null=True)
    assignee_id = uuid(null=True)
    project_id = text(REFERENCE, 1, null=True)
    parent_id = uuid(null=True)
    created_by = uuid()
    created_at = moment()
    updated_at = moment()
    completed_at = moment(null=True)
    version = whole(1)


class NewTask(Body):
    title = Text(TITLE, 1, trim=True, required=True)
    description = Text(TEXT, allow_none=True, load_default=None)
    status = Choice(*STATUSES, load_default="todo")
    priority = Choice(*PRIORITIES, load_default="medium")
    due_date = Moment(allow_none=True, load_default=None)
    assignee_id = Id(allow_none=True, load_default=None)
    project_id = Text(REFERENCE, 1, allow_none=True, load_default=None)
    parent_id = Id(allow_none=True, load_default=None)


class TaskChanges(NewTask):
    """Any of a task's fields."""


class TaskFilter(Page):
    status = Choice(*STATUSES, load_default=None)
    priority = Choice(*PRIORITIES, load_default=None)
    assignee_id = Id(data_key="assignee", load_default=None)
    project_id = Text(REFERENCE, 1, load_default=None)
    parent_id = Id(load_default=None)


@tasks.get("/tasks")
@tasks.arguments(TaskFilter, location="query")
@answers(Task, form="page")
def list_tasks(wanted):
    """List the tasks of the active workspace, newest first"""
    _, after_id = wanted.pop("cursor")
    limit = wanted.pop("limit")
    if any(wanted.values()):
        return reply_page(
            db.row("tasks/filter", prepare=False, after_id=after_id, limit=limit, **wanted)
        )
    return reply_page(db.row("tasks/list", after_id=after_id, limit=limit))


@tasks.post("/tasks")
@tasks.arguments(NewTask)
@idempotent
@answers(Task, 201)
def create_task(task):
    """Create a task in the active workspace"""
    created = db.row("tasks/create", **task)
    webhooks.announce(created.event_id)
    return reply_one(created, 201, {"Location": f"/api/tasks/{created.id}"})


@tasks.get("/tasks/<id:id>")
@answers(Task)
def get_task(id):
    """Read one task"""
    return reply_one(db.one("tasks/get", id=id))


@tasks.patch("/tasks/<id:id>")
@tasks.arguments(TaskChanges(partial=True))
@idempotent
@answers(Task)
def update_task(changes, id):
    """Change some fields of a task; null clears one (RFC 7396)"""
    task = db.one("tasks/update", id=id, changes=db.document(changes), versions=expected_versions())
    webhooks.announce(task.event_id)
    return reply_one(task)


@tasks.delete("/tasks/<id:id>")
@idempotent
@answers(status=204)
def delete_task(id):
    """Remove a task and its subtasks for good"""
    deleted = db.one("tasks/delete", id=id, versions=expected_versions())
    require_match(deleted)
    webhooks.announce(*deleted.event_ids)
    return reply(None, 204)
