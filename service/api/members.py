"""The members of workspaces."""

from typing import NamedTuple

from flask import Blueprint, Response

from service.context import current_settings, db
from service.database.statements import NotFound
from service.values import Values, schemas
from service.values.types import ROLES, Email, Id, OneOf, PersonName, Timestamp
from service.web.errors import http_error
from service.web.operation import operation
from service.web.responses import Body, headers_of_created, reply, reply_list

blueprint = Blueprint("members", __name__)


class Member(schemas.Resource):
    user_id = Id("The id of the user", dump_only=True)
    name = PersonName("The user's name", dump_only=True)
    email = Email("The user's e-mail address", dump_only=True)
    role = OneOf(
        *ROLES,
        schema_name="Role",
        load_default="member",
        description="What the user may do in the workspace",
    )
    joined_at = Timestamp("When the user became a member", dump_only=True)


class Person(Member):
    """A member, or a user who has left; the service shows only the name of a user who has left."""

    email = Email(
        "The user's e-mail address; null if the user has left", dump_only=True, allow_none=True
    )
    role = OneOf(
        *ROLES,
        schema_name="Role",
        allow_none=True,
        description="What the user may do in the workspace; null if the user has left",
    )
    joined_at = Timestamp(
        "When the user became a member; null if the user has left", dump_only=True, allow_none=True
    )


class NewMember(Member):
    email = Email("The user's e-mail address; case does not matter", required=True)
    name = PersonName(
        "The name of a new user; by default the part of the address before the @. An"
        " existing user keeps their name",
        load_default=None,
        allow_none=False,
    )


class AddedMember(NamedTuple):
    permitted: bool
    # False if the user is deactivated.
    can_join: bool
    # Null if no user has the address.
    id: str | None
    # Null if the user is already a member, or may not become one.
    body: bytes | None


class ChangedMember(NamedTuple):
    """The row of a change of role or of a removal; without both conditions, nothing changes."""

    # The caller may change this member.
    permitted: bool
    # The workspace still has an owner after the change.
    has_owner: bool
    # The member as JSON; null after a removal.
    body: bytes | None


@blueprint.get("/workspaces/<id:id>/members")
@operation(response=Member, kind="list")
def list_members(id: str) -> Response:
    """List all members of a workspace with their roles

    The members are in the order in which they joined. Use a ``userId`` as the ``assigneeId`` of a
    task.
    """
    members = db.rows(Body, "workspaces/members", id=id)
    if not members:
        raise NotFound("workspace")
    return reply_list(row.body for row in members)


@blueprint.post("/workspaces/<id:id>/members")
@operation(NewMember(), Member, 201, idempotent="path")
def add_member(member: Values, id: str) -> Response:
    """Add a user to a workspace by e-mail address; owners and admins only

    If no user has the address, the service creates a user with ``name``, and this workspace becomes
    the user's active one. If the operator has switched off the creation of users, the response is
    404 instead. An existing user keeps their name and active workspace. An existing user without an
    active workspace does not get one, but can choose one with PATCH /api/me. Only owners may add
    owners and admins. The response is 409 if the user is already a member, or is deactivated.
    """
    # Only a user who gets a name is created.
    name = None
    if current_settings().members_create_users:
        name = member["name"] or member["email"].partition("@")[0]
    added = db.row_or_none(AddedMember, "members/add", id=id, **{**member, "name": name})
    if added is None:
        raise http_error("not_found", resource="Workspace")
    if not added.permitted:
        raise http_error("member_role")
    if added.id is None:
        raise http_error("unknown_address")
    if not added.can_join:
        raise http_error("deactivated_user")
    if added.body is None:
        raise http_error("member_already")
    return reply(added.body, 201, headers_of_created(added.id))


@blueprint.get("/workspaces/<id:id>/members/<id:member>")
@operation(response=Person)
def get_member(id: str, member: str) -> Response:
    """Return a member, or the name of a person who has left

    Use it to show the name of a user whom ``createdBy``, ``updatedBy``, ``completedBy`` or
    ``assigneeId`` names, or the ``actorId`` of an event. For a user who has left, every field
    except ``userId`` and ``name`` is null. The response is 404 for a user who was never a member,
    and for a deleted user.
    """
    return reply(db.row(Body, "members/get", id=id, member_id=member).body)


@blueprint.patch("/workspaces/<id:id>/members/<id:member>")
@operation(Member(partial=True), Member, idempotent="path")
def update_member(changes: Values, id: str, member: str) -> Response:
    """Change the role of a member; owners and admins only

    ``memberId`` is the ``userId`` of the member. Only owners may change the role of an owner or an
    admin, or make a member an owner or an admin. The last owner cannot be demoted (409). The
    service ignores read-only fields.
    """
    return change_member("members/update", id=id, member_id=member, role=changes.get("role"))


@blueprint.delete("/workspaces/<id:id>/members/<id:member>")
@operation(status=204, idempotent="path")
def remove_member(id: str, member: str) -> Response:
    """Remove a member from a workspace, or leave it yourself

    Any member may leave. Only owners and admins may remove others, and only owners may remove
    owners and admins. The last owner can neither leave nor be removed (409). Tasks of the workspace
    that are assigned to the user lose their assignee, and the service sends an event for each such
    task. The service revokes the tokens with which the user could use only this workspace.
    """
    return change_member("members/remove", id=id, member_id=member)


def change_member(statement: str, **values: object) -> Response:
    changed = db.row(ChangedMember, statement, **values)
    if not changed.permitted:
        raise http_error("member_role")
    if not changed.has_owner:
        raise http_error("last_owner")
    return reply(changed.body, 200 if changed.body else 204)
