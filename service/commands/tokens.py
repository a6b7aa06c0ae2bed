"""Commands for credentials: API tokens, and session cookies for browsers."""

from datetime import datetime
from functools import partial
from typing import NamedTuple

import click

from service.callers import SCOPES, SESSION_DAYS, CreatedSession, create_credential
from service.commands.base import (
    confirm,
    echo_ids,
    echo_rows,
    email_argument,
    json_option,
    one_row,
    query,
    timestamp,
    yes_option,
)
from service.commands.users import ListedUser, find_user
from service.database.statements import IdRow
from service.output import echo_secret
from service.values.types import uuid_or_nil

# What to do if a new token or session could not be printed.
NOBODY_HAS = "the {} exists, but nobody has it: token list {} shows its id, revoke it"


class ListedToken(NamedTuple):
    id: str
    kind: str
    scope: str
    created_at: str
    last_used_at: str | None
    expires_at: str | None
    revoked_at: str | None
    workspace: str | None
    name: str | None


class ListedSession(NamedTuple):
    id: str
    email: str
    created_at: str
    last_used_at: str | None
    expires_at: str


token = click.Group("token")


@token.command("create")
@email_argument
@click.option(
    "--scope",
    type=click.Choice(SCOPES),
    default="write",
    show_default=True,
    help="What the token may do; write includes read.",
)
@click.option(
    "--expires-in",
    type=click.IntRange(1, 36500),
    metavar="DAYS",
    help="Days until the token expires.",
    show_default="never",
)
@click.option("--name", default="", help="What the token is for, to recognize it in lists.")
@click.option(
    "--workspace",
    metavar="SLUG",
    help="The only workspace in which the token works.",
    show_default="every workspace of the user",
)
def create_token(
    email: str, scope: str, expires_in: int | None, name: str, workspace: str | None
) -> None:
    """Create an API token for the user EMAIL.

    Prints the token. Save it: no command can print it again. With --workspace, the token works in
    that workspace only, and is revoked when the user leaves the workspace. Make such a token for
    each program.
    """
    secret = new_token(email, scope=scope, days=expires_in, name=name, workspace=workspace)
    echo_secret(secret, NOBODY_HAS.format("token", email))


def new_token(email: str, *, workspace: str | None, **values: object) -> str:
    """Create an API token and return its text; the database stores only the SHA-256 of the text.

    Raises ClickException if the user does not exist, is deactivated, or is not a member of the
    workspace.
    """
    user_id = require_active_user(email).id
    store = partial(one_row, IdRow, "tokens/create", f"{email} is not a member of {workspace}")
    return create_credential(store, "api", user_id=user_id, workspace=workspace, **values)[0]


def new_session(email: str, days: int = SESSION_DAYS) -> str:
    """Create a session, as ``POST /api/session`` does, and return the value of its cookie.

    Raises ClickException if the user does not exist or is deactivated.
    """
    user_id = require_active_user(email).id
    store = partial(one_row, CreatedSession, "sessions/create", f"there is no user {email}")
    values = {"user_id": user_id, "days": days, "expires_at": None, "name": None}
    return create_credential(store, "session", **values)[0]


@token.command("list")
@email_argument
@json_option
def list_tokens(email: str, as_json: bool) -> None:
    """List a user's API tokens and sessions, oldest first. The worker deletes them 90 days after
    they have expired or were revoked.

    Columns: id, kind, scope, created, last used, expires, revoked, workspace, name.
    """
    rows = query(ListedToken, "tokens/list", user_id=find_user(email).id)
    echo_rows(rows, as_json=as_json)


@token.command("revoke")
@click.argument("id", metavar="ID_OR_EMAIL")
@click.option("--all", "of_user", is_flag=True, help="Revoke all API tokens and sessions of EMAIL.")
@yes_option
def revoke_tokens(id: str, of_user: bool, yes: bool) -> None:
    """Revoke an API token or a session; prints its id.

    With --all, give the e-mail address of a user instead of an id: revokes all API tokens and
    sessions of this user, and prints one id per line.
    """
    if not of_user:
        echo_ids("tokens/revoke", f"there is no token {id}", id=uuid_or_nil(id))
        return
    find_user(id)
    confirm(f"Revoke all API tokens and sessions of {id}?", yes=yes)
    echo_ids("tokens/revoke_present", email=id)
    echo_ids("tokens/revoke_all", email=id)


def require_active_user(email: str) -> ListedUser:
    user = find_user(email)
    if user.state == "deactivated":
        raise click.ClickException(f"{email} is deactivated: first run user reactivate")
    return user


session = click.Group("session")


@session.command("create")
@email_argument
@click.option(
    "--expires-in",
    type=click.IntRange(1, 36500),
    metavar="DAYS",
    default=SESSION_DAYS,
    show_default=True,
    help="Days until the session expires.",
)
def create_session(email: str, expires_in: int) -> None:
    """Create a session for the user EMAIL.

    Prints the value of the cookie 'session'. Save it: no command can print it again.
    """
    echo_secret(new_session(email, expires_in), NOBODY_HAS.format("session", email))


# The commands list and revoke have this option.
since_option = partial(
    click.option,
    "--since",
    type=timestamp,
    metavar="TIMESTAMP",
    help="Only sessions created since this time, like 2026-11-20T11:00:00Z.",
)


@session.command("list")
@since_option()
@json_option
def list_sessions(since: datetime | None, as_json: bool) -> None:
    """List the active sessions of all users, oldest first.

    Columns: id, email, created, last used, expires.
    """
    rows = query(ListedSession, "sessions/list", since=since or "-infinity")
    echo_rows(rows, as_json=as_json)


@session.command("revoke")
@since_option(required=True)
@yes_option
def revoke_sessions(since: datetime, yes: bool) -> None:
    """Revoke the sessions of all users that were created since a time.

    Prints the ids of the sessions. If LOGIN_KEY has leaked, first change it and restart the
    service, so that nobody can create more sessions.
    """
    confirm(f"Revoke the sessions of all users created since {since.isoformat()}?", yes=yes)
    echo_ids("sessions/revoke", since=since)
