"""Your API tokens, and the session of the request."""

from functools import partial
from typing import NamedTuple

from flask import Blueprint, Response

from service.callers import SCOPES, create_credential
from service.context import current_usage, db
from service.database.statements import IdRow
from service.values import Values, schemas
from service.values.types import MAX_NAME, Id, OneOf, Text, Timestamp
from service.web.errors import http_error, invalid_field
from service.web.operation import operation
from service.web.responses import Body, headers_of_created, reply, reply_list, reply_secret

# Removes the cookie. Name and path must be the same as in docs/sign-in.md, which tells login pages
# how to set the cookie: a browser replaces only a cookie with the same name and path.
NO_COOKIE = "session=; Path=/api; Max-Age=0; HttpOnly; Secure; SameSite=Lax"


blueprint = Blueprint("tokens", __name__)


class Token(schemas.Resource):
    """An API token as the list shows it, without the token itself."""

    id = Id("The id of the token", dump_only=True)
    name = Text(MAX_NAME, "What the token is for; empty if the operator gave it no name")
    scope = OneOf(*SCOPES, load_default="write", description="What the token may do")
    created_at = Timestamp("When the token was created", dump_only=True)
    expires_at = Timestamp("When the token expires; null means never", load_default=None)
    last_used_at = Timestamp(
        "When the token was last used, to the minute; null if never",
        dump_only=True,
        allow_none=True,
    )
    workspace_id = Id(
        "The only workspace that the token can use; with null, it acts in your active workspace",
        load_default=None,
    )


class NewToken(Token):
    name = Text(MAX_NAME, "What the token is for", min=1, trim=True, required=True)
    token = Text(
        MAX_NAME,
        "The token, shown once; null if you repeat an Idempotency-Key",
        dump_only=True,
        allow_none=True,
    )


class CreatedToken(NamedTuple):
    """The row of a new token; without all three conditions, no token is created."""

    # The token expires in the future, or never.
    in_future: bool
    # The user is a member of the workspace, or the token is for all workspaces.
    is_member: bool
    # The user has fewer than 100 tokens. None if the session has just ended.
    has_room: bool | None
    id: str | None
    body: bytes | None


@blueprint.get("/tokens")
@operation(
    response=Token,
    kind="list",
    also=(403,),
    session_only="token_for_tokens",
    ignores_workspace_header=True,
)
def list_tokens() -> Response:
    """List your API tokens that are neither revoked nor expired, newest first

    Requires a session. The list has no pages. It does not contain the tokens themselves, because
    the service does not store them.
    """
    return reply_list(row.body for row in db.rows(Body, "tokens/list_own"))


@blueprint.post("/tokens")
@operation(
    NewToken(),
    NewToken,
    201,
    idempotent="user",
    has_dry_run=False,
    session_only="token_for_tokens",
)
def create_token(token: Values) -> Response:
    """Create an API token for yourself; the response shows it once

    Requires a session, because a leaked token could otherwise create tokens that still work after
    you have revoked it. Give each program a token with a ``workspaceId``. Such a token can see and
    change this workspace only, and the service revokes it when you leave the workspace. A token
    without a ``workspaceId`` acts in your active workspace. You can have 100 tokens. If you repeat
    the request with its ``Idempotency-Key``, ``token`` is null, because the service does not store
    secrets: revoke that token and create another one.
    """
    secret, created = create_credential(
        partial(db.row, CreatedToken, "tokens/create_own"),
        "api",
        session_id=current_usage().token_id,
        **token,
    )
    if not created.in_future:
        raise invalid_field("expiresAt", "not_in_future")
    if not created.is_member:
        raise invalid_field("workspaceId", "not_your_workspace")
    if created.has_room is False:
        raise http_error("too_many_tokens")
    if created.id is None or created.body is None:
        # The session has ended, or an operator has deactivated or deleted the user, after the gate
        # authenticated this request.
        raise http_error("unauthorized")
    return reply_secret(created.body, "token", secret, 201, headers_of_created(created.id))


@blueprint.delete("/tokens/<id:id>")
@operation(
    status=204,
    idempotent="user",
    has_dry_run=False,
    session_only="token_for_tokens",
    ignores_workspace_header=True,
)
def revoke_token(id: str) -> Response:
    """Revoke one of your API tokens immediately

    Requires a session. The next request with the token returns 401.
    """
    db.row(IdRow, "tokens/revoke_own", id=id, kind="api")
    return reply(None, 204)


@blueprint.delete("/session")
@operation(status=204, session_only="token_for_session", ignores_workspace_header=True)
def end_session() -> Response:
    """End the session of this request and remove its cookie

    Requires a session. Your other sessions continue.
    """
    session_id = current_usage().token_id
    if db.row_or_none(IdRow, "tokens/revoke_own", id=session_id, kind="session") is None:
        raise http_error("unauthorized")
    return reply(None, 204, {"Set-Cookie": NO_COOKIE})
