"""Your user, credential and active workspace."""

from math import ceil
from typing import NamedTuple

from flask import Blueprint, Response

from service.api.workspaces import Plan, Slug
from service.callers import CREDENTIALS, SCOPES
from service.context import current_usage, db
from service.database.statements import to_json
from service.logs import timestamp
from service.values import Values, schemas
from service.values.types import (
    MAX_NAME,
    ROLES,
    Email,
    Id,
    Nested,
    OneOf,
    PersonName,
    ReadOnlyInteger,
    Text,
    Timestamp,
)
from service.web.errors import http_error, invalid_field
from service.web.operation import operation
from service.web.responses import Body, reply

blueprint = Blueprint("me", __name__)


class User(schemas.Resource):
    id = Id("The id of the user")
    name = PersonName("The user's name")
    email = Email("The user's e-mail address")


class ActiveWorkspace(schemas.Resource):
    id = Id("The id of the workspace")
    name = Text(MAX_NAME, "The display name", min=1)
    slug = Slug()
    plan = Plan()
    role = OneOf(*ROLES, schema_name="Role", description="What the user may do in the workspace")


class RateLimitWindow(schemas.Resource):
    limit = ReadOnlyInteger("The number of requests that the window allows")
    remaining = ReadOnlyInteger("The number of requests left in the window")
    resets_at = Timestamp("When the window ends")


class RateLimits(schemas.Resource):
    minute = Nested(RateLimitWindow, "The window of 60 seconds")
    day = Nested(
        RateLimitWindow,
        "The window of 24 hours; null on a plan without a daily limit",
        allow_none=True,
    )


class Me(schemas.Resource):
    user = Nested(User, "The user who sends this request", dump_only=True)
    scope = OneOf(*SCOPES, dump_only=True, description="What the credential may do")
    credential = OneOf(
        *CREDENTIALS,
        dump_only=True,
        description="Whether the credential is an API token or a session",
    )
    expires_at = Timestamp(
        "When the credential expires; null means never", dump_only=True, allow_none=True
    )
    workspace = Nested(
        ActiveWorkspace,
        "The active workspace; null if there is none",
        dump_only=True,
        allow_none=True,
    )
    limits = Nested(RateLimits, "The rate limits, and how many requests are left", dump_only=True)
    workspace_id = Id(
        "The id of the workspace to activate; must be one of your workspaces", load_only=True
    )
    name = PersonName("Your name, as every workspace shows it", load_only=True)


class ChangedMe(NamedTuple):
    """The row of a change; nothing changes unless ``can_change`` and ``is_member`` are true."""

    # False for a token that can use one workspace only.
    can_change: bool
    # Also true if the request does not choose a workspace.
    is_member: bool
    # The active workspace after the change.
    workspace_id: str | None


@blueprint.get("/me")
@operation(response=Me, ignores_workspace_header=True)
def get_me() -> Response:
    """Return your user, credential, active workspace and rate limits

    ``workspace`` is the active workspace, or null if there is none. This operation ignores the
    header ``Workspace-Id``. ``limits`` has the same values as the headers of this response, so this
    request is already counted. On a plan without a daily limit, ``day`` is null.
    """
    return reply_me()


@blueprint.patch("/me")
@operation(Me(partial=True), Me, idempotent="user", ignores_workspace_header=True)
def update_me(changes: Values) -> Response:
    """Choose your active workspace, or change your name

    Your next request acts in the new workspace. The choice applies to all your sessions and to all
    your API tokens without a ``workspaceId``, except for requests with the header ``Workspace-Id``.
    In this response, ``limits`` and the headers still describe the previous workspace. All
    workspaces show the new name. If your login page sends names, the next sign-in replaces it. With
    a token that has a ``workspaceId``, both changes are 409. A change sends no event. The
    service ignores read-only fields.
    """
    if not changes:
        return reply_me()
    changed = db.row_or_none(
        ChangedMe,
        "me/update",
        id=changes.get("workspace_id"),
        name=changes.get("name"),
        token_id=current_usage().token_id,
    )
    if changed is None:
        raise http_error("unauthorized")
    if not changed.can_change:
        raise http_error("token_of_workspace")
    if not changed.is_member:
        raise invalid_field("workspaceId", "not_your_workspace")
    return reply_me(workspace_id=changed.workspace_id)


def reply_me(**values: object) -> Response:
    """Return the response that describes the caller.

    Raise 401 if the user or the token has been deleted since the request began.
    """
    usage = current_usage()
    limits: Values = {"minute": None, "day": None}
    for window in usage.windows:
        limits[window.name] = {
            "limit": window.quota,
            "remaining": window.left,
            # Rounded up, so that a client that waits until then does not come too early.
            "resetsAt": timestamp(ceil(window.ends * 1000) / 1000),
        }
    profile = db.row_or_none(
        Body, "me/get", token_id=usage.token_id, limits=to_json(limits), **values
    )
    if profile is None:
        raise http_error("unauthorized")
    return reply(profile.body)
