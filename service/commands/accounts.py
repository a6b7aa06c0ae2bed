"""Commands for workspaces, users, members and credentials.

The specification has these in the product's settings, outside the REST interface.
"""

import re
from typing import NamedTuple

import click
from flask.cli import AppGroup

from service.api.me import SCOPES
from service.api.workspaces import ROLES
from service.commands.base import Id, echo_row, one_row, query, report_errors, validate
from service.fields import MAX_NAME, Email, Text, uuid_or_nil
from service.http.gate import generate_token, hash_of

workspace = AppGroup("workspace", help="Make workspaces.")
user = AppGroup("user", help="Make users and choose their active workspace.")
member = AppGroup("member", help="Put users into workspaces.")
token = AppGroup("token", help="Make, list and revoke API tokens.")
session = AppGroup("session", help="Make session cookies.")


@workspace.command("create")
@click.argument("name")
@click.option("--slug", help="Short name for URLs and commands.", show_default="made from NAME")
@click.option(
    "--plan",
    default="Starter",
    show_default=True,
    help="Starter, Pro, Team, or another row of plans.",
)
@report_errors
def create_workspace(name: str, slug: str | None, plan: str) -> None:
    """Make a workspace; prints its id."""
    name = validate(Text(MAX_NAME, min=1, trim=True), "NAME", name)
    if slug is None:
        slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    click.echo(query(Id, "workspaces/create", name=name, slug=slug, plan=plan)[0].id)


@user.command("create")
@click.argument("email")
@click.argument("name")
@report_errors
def create_user(email: str, name: str) -> None:
    """Make a user; prints the id."""
    email = validate(Email(), "EMAIL", email)
    name = validate(Text(MAX_NAME, min=1, trim=True), "NAME", name)
    click.echo(query(Id, "users/create", email=email, name=name)[0].id)


@user.command("activate")
@click.argument("email")
@click.argument("slug")
@report_errors
def activate_workspace(email: str, slug: str) -> None:
    """Make the workspace SLUG the active one of the user EMAIL; prints its id."""
    absent = f"{email} is not a member of {slug}"
    click.echo(one_row(Id, "users/activate", absent, email=email, slug=slug).id)


@member.command("add")
@click.argument("slug")
@click.argument("email")
@click.option(
    "--role",
    type=click.Choice(ROLES),
    default="member",
    show_default=True,
    help="What the user may do: owners and admins may change the workspace.",
)
@report_errors
def add_member(slug: str, email: str, role: str) -> None:
    """Put the user EMAIL into the workspace SLUG, or change the role there; prints the user's id.

    A user's first workspace becomes the active one.
    """
    absent = f"there is no workspace {slug} or no user {email}"
    click.echo(one_row(Id, "members/add", absent, slug=slug, email=email, role=role).id)


class Token(NamedTuple):
    """The row of a token in the list; all is null for a user without tokens."""

    id: str | None
    kind: str | None
    scope: str | None
    created: str | None
    last_used: str | None
    expires: str | None
    revoked: str | None
    name: str | None


def new_token(
    kind: str, email: str, scope: str = "write", expires_in: int | None = None, name: str = ""
) -> str:
    """Make a credential and return it; the database keeps only its SHA-256."""
    secret = generate_token(kind)
    one_row(
        Id,
        "tokens/create",
        f"there is no user {email}",
        email=email,
        kind=kind,
        scope=scope,
        days=expires_in,
        name=name,
        hash=hash_of(secret),
    )
    return secret


@token.command("create")
@click.argument("email")
@click.option(
    "--scope",
    type=click.Choice(SCOPES),
    default="write",
    show_default=True,
    help="What it may do; write includes read.",
)
@click.option(
    "--expires-in",
    type=click.IntRange(1, 36500),
    metavar="DAYS",
    help="How long it is valid.",
    show_default="for ever",
)
@click.option("--name", default="", help="What it is for.")
@report_errors
def create_token(email: str, scope: str, expires_in: int | None, name: str) -> None:
    """Make an API token for the user EMAIL; prints it, this once."""
    click.echo(new_token("api", email, scope, expires_in, validate(Text(MAX_NAME), "--name", name)))


@token.command("list")
@click.argument("email")
@report_errors
def list_tokens(email: str) -> None:
    """List a user's tokens, tab-separated.

    Columns: id, kind, scope, created, last used, expires, revoked, name.
    """
    rows = query(Token, "tokens/list", email=email)
    if not rows:
        raise click.ClickException(f"there is no user {email}")
    for row in rows:
        # A user without tokens is one row of nothing.
        if row.id:
            echo_row(row)


@token.command("revoke")
@click.argument("id")
@report_errors
def revoke_token(id: str) -> None:
    """Revoke a token from now on, API token or session; prints its id."""
    click.echo(one_row(Id, "tokens/revoke", f"there is no token {id}", id=uuid_or_nil(id)).id)


@session.command("create")
@click.argument("email")
@click.option(
    "--expires-in",
    type=click.IntRange(1, 36500),
    metavar="DAYS",
    default=30,
    show_default=True,
    help="How long it is valid.",
)
@report_errors
def create_session(email: str, expires_in: int) -> None:
    """Make a session for the user EMAIL; prints the value of the cookie 'session', this once."""
    click.echo(new_token("session", email, expires_in=expires_in))
