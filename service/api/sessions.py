"""Sessions, which a login page creates with the operator's key."""

from functools import partial

from flask import Blueprint, Response

from service.api.me import User
from service.callers import SESSION_DAYS, CreatedSession, create_credential
from service.context import current_request, current_state, db
from service.database.statements import IdRow
from service.values import Values, schemas
from service.values.types import MAX_NAME, Nested, PersonName, StoredEmail, Text, Timestamp
from service.web.errors import http_error, invalid_field
from service.web.operation import operation
from service.web.responses import reply_secret

NAME = (
    "The user's name at your identity provider. It replaces the stored name; null keeps the stored"
    " name"
)

blueprint = Blueprint("sessions", __name__)


class Session(schemas.Resource):
    email = StoredEmail("The user's e-mail address", load_only=True, required=True)
    name = PersonName(NAME, load_only=True, load_default=None)
    expires_at = Timestamp(
        f"When the session expires; by default in {SESSION_DAYS} days", load_default=None
    )
    user = Nested(User, "The user", dump_only=True)
    token = Text(
        MAX_NAME,
        "The value of the cookie `session`; null if you repeat an Idempotency-Key",
        dump_only=True,
        allow_none=True,
    )


def become_user(session: Values) -> None:
    """Let the request act as the user whom the body names; raise 404 if there is none."""
    user = db.row_or_none(IdRow, "sessions/find_user", email=session["email"])
    if user is None:
        raise http_error("not_found", resource="User")
    current_state().caller["user_id"] = user.id


@blueprint.post("/session")
@operation(
    Session(),
    Session,
    201,
    idempotent="user",
    has_dry_run=False,
    become_user=become_user,
)
def create_session(session: Values) -> Response:
    """Create a session for a user who has logged in to your login page

    Requires a key of the setting `LOGIN_KEY` as the bearer token. Anyone who has the key can become
    any user. The response shows the session token once: set it as the cookie `session`. If the user
    is unknown or deactivated, the response is 404. If you send `name`, it becomes the user's name
    in all workspaces.
    """
    secret, created = create_credential(
        partial(db.row, CreatedSession, "sessions/create"), "session", days=SESSION_DAYS, **session
    )
    if created.id is None:
        raise invalid_field("expiresAt", "not_in_future")
    current_state().created = created.id
    # The session of a client is at the URL of this request, which may end with a slash.
    here = current_request().path.rpartition("/")[2] or "."
    return reply_secret(created.body, "token", secret, 201, {"Location": here})
