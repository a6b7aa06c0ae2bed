"""Your user, credential and active workspace."""

from typing import NamedTuple

from flask import Blueprint, Response

from service.api.workspaces import PLAN, SLUG
from service.callers import CREDENTIALS, SCOPES
from service.database import db
from service.database.db import current_state
from service.http.errors import http_error, invalid_field
from service.http.gate import way_out
from service.http.requests import Values, arguments
from service.http.responses import Body, reply, response
from service.http.safe_writes import idempotent_of_user
from service.values import fields, schemas

ACTIVE = "The id of one of your workspaces, which becomes the active one"

me = Blueprint("me", __name__)


class User(schemas.Resource):
    id = fields.Id(description="The id of the user")
    name = fields.PersonName(description="The user's name")
    email = fields.Email(description="The user's e-mail address")


class ActiveWorkspace(schemas.Resource):
    id = fields.Id(description="The id of the workspace")
    name = fields.Text(fields.MAX_NAME, min=1, description="The display name")
    slug = fields.Text(fields.MAX_REFERENCE, min=1, **SLUG)
    plan = fields.Text(fields.MAX_REFERENCE, min=1, **PLAN)
    role = fields.OneOf(*fields.ROLES, schema_name="Role", description="What the user may do in it")


class RateLimitWindow(schemas.Resource):
    limit = fields.Integer(min=1, description="The number of requests that the window allows")
    remaining = fields.Integer(description="The number of requests left in it")
    resets_at = fields.Timestamp(description="When the window ends")


class RateLimits(schemas.Resource):
    minute = fields.Nested(RateLimitWindow, description="The window of 60 seconds")
    day = fields.Nested(
        RateLimitWindow,
        allow_none=True,
        description="The window of 24 hours; null on a plan without a daily limit",
    )


class Me(schemas.Resource):
    user = fields.Nested(User, dump_only=True, description="The user who sends this request")
    scope = fields.OneOf(
        *SCOPES, schema_name="Scope", dump_only=True, description="What the credential may do"
    )
    credential = fields.OneOf(
        *CREDENTIALS,
        schema_name="CredentialKind",
        dump_only=True,
        description="An API token, or a session",
    )
    expires_at = fields.Timestamp(
        dump_only=True, allow_none=True, description="When the credential expires; null means never"
    )
    workspace = fields.Nested(
        ActiveWorkspace,
        dump_only=True,
        allow_none=True,
        description="The active workspace; null without one",
    )
    limits = fields.Nested(
        RateLimits, dump_only=True, description="The rate limits and what is left"
    )
    workspace_id = fields.Id(load_only=True, description=ACTIVE)
    name = fields.PersonName(load_only=True, description="Your name, as every workspace shows it")


class ChangedMe(NamedTuple):
    """The row of a change; without the permission, or a membership, nothing changes."""

    can_change: bool
    # True also if the request chooses no workspace.
    is_member: bool
    # The active workspace after the change.
    workspace_id: str | None


@me.get("/me")
@way_out
@response(Me, kind="object")
def get_me() -> Response:
    """Return your user, credential, active workspace and rate limits

    ``workspace`` is the active workspace, or null, whatever ``Workspace-Id`` says. ``limits`` has
    the values of the headers of this response, so it counts this request. On a plan without a daily
    limit, ``day`` is null.
    """
    return reply_me()


@me.patch("/me")
@way_out
@arguments(Me(partial=True))
@idempotent_of_user
@response(Me, kind="object")
def update_me(changes: Values) -> Response:
    """Choose your active workspace, or change your name

    From the next request on, the choice applies to all your sessions and to the API tokens without
    a workspace, unless a request has the header ``Workspace-Id``. ``limits`` and the headers of
    this response still describe the previous workspace. Every workspace shows the name; if your
    login page sends names, the next sign-in replaces it. A token for one workspace changes neither
    (409). The change sends no event. The service ignores read-only fields.
    """
    if not changes:
        return reply_me()
    usage = current_state().usage
    changed = db.row_or_none(
        ChangedMe,
        "me/update",
        id=changes.get("workspace_id"),
        name=changes.get("name"),
        token_id=usage and usage.token_id,
    )
    if changed is None:
        raise http_error("unauthorized")
    if not changed.can_change:
        raise http_error("token_of_workspace")
    if not changed.is_member:
        raise invalid_field("workspaceId", "not_your_workspace")
    return reply_me(workspace_id=changed.workspace_id)


def reply_me(**values: object) -> Response:
    """Answer with the caller; raises 401 if the user or the token is deleted."""
    usage = current_state().usage
    profile = usage and db.row_or_none(
        Body,
        "me/get",
        token_id=usage.token_id,
        per_minute=usage.per_minute,
        minute_left=usage.windows[0].left,
        minute_ends=usage.minute_ends,
        per_day=usage.per_day,
        day_left=usage.windows[-1].left,
        day_ends=usage.day_ends,
        **values,
    )
    if profile is None:
        raise http_error("unauthorized")
    return reply(profile.body)
