"""Workspaces that the caller belongs to: list, read, change; and who else is in them."""

from werkzeug.exceptions import Forbidden

from service import db
from service.fields import ADDRESS, NAME, REFERENCE, Body, Text, Timezone
from service.inputs import Blueprint
from service.preconditions import expected_versions, idempotent, reply_one
from service.replies import reply
from service.shapes import Shape, answers, moment, text, uuid, value, whole, word

workspaces = Blueprint("workspaces", "Workspaces and their members")


class Workspace(Shape):
    id = uuid()
    name = text(NAME, 1)
    slug = value("string", pattern="^[a-z0-9][a-z0-9-]{0,127}$")
    plan = text(REFERENCE, 1, examples=["Starter", "Pro", "Team"])
    member_count = whole()
    created_at = moment()


class WorkspaceDetails(Workspace):
    timezone = text(REFERENCE, 1)


class Member(Shape):
    user_id = uuid()
    name = text(NAME, 1)
    email = text(ADDRESS, 3)
    role = word("owner", "admin", "member")
    joined_at = moment()


class WorkspaceChanges(Body):
    name = Text(NAME, 1, trim=True)
    timezone = Timezone()


@workspaces.get("/workspaces")
@answers(Workspace, form="list")
def list_workspaces():
    """List all workspaces that you belong to"""
    return reply(db.row("workspaces/list").body)


@workspaces.get("/workspaces/<id:id>")
@answers(WorkspaceDetails)
def get_workspace(id):
    """Read one workspace"""
    return reply_one(db.one("workspaces/get", id=id))


@workspaces.patch("/workspaces/<id:id>")
@workspaces.arguments(WorkspaceChanges(partial=True))
@idempotent
@answers(WorkspaceDetails)
def update_workspace(changes, id):
    """Change the name or the timezone of a workspace; for owners and admins"""
    workspace = db.one(
        "workspaces/update", id=id, changes=db.document(changes), versions=expected_versions()
    )
    if not workspace.permitted:
        raise Forbidden("Only an owner or an admin of this workspace may change it")
    return reply_one(workspace)


@workspaces.get("/workspaces/<id:id>/members")
@answers(Member, form="list")
def list_members(id):
    """List all members of a workspace with their roles"""
    return reply(db.one("workspaces/members", id=id).body)
