"""Commands for workspaces, users, members and credentials.

The specification has these in the product's settings, outside the REST interface.
"""

import re
from hashlib import sha256
from secrets import token_hex

import click
from flask.cli import AppGroup

from service.commands import checked, only, run, told
from service.fields import NAME, Address, Text, as_id

workspace = AppGroup("workspace", help="Make workspaces.")
user = AppGroup("user", help="Make users and choose their active workspace.")
member = AppGroup("member", help="Put users into workspaces.")
token = AppGroup("token", help="Make, list and revoke API tokens.")
session = AppGroup("session", help="Make session cookies.")


@workspace.command("create")
@click.argument("name")
@click.option("--slug", help="Short name for URLs and commands [default: made from NAME].")
@click.option(
    "--plan",
    default="Starter",
    show_default=True,
    help="Starter, Pro, Team, or another row of plans.",
)
@told
def create_workspace(name, slug, plan):
    """Make a workspace; prints its id."""
    name = checked(Text(NAME, 1, trim=True), "NAME", name)
    slug = slug or re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    click.echo(run("accounts/create_workspace", name=name, slug=slug, plan=plan)[0].id)


@user.command("create")
@click.argument("email")
@click.argument("name")
@told
def create_user(email, name):
    """Make a user; prints the id."""
    email = checked(Address(), "EMAIL", email)
    name = checked(Text(NAME, 1, trim=True), "NAME", name)
    click.echo(run("accounts/create_user", email=email, name=name)[0].id)


@user.command("activate")
@click.argument("email")
@click.argument("slug")
@told
def activate_workspace(email, slug):
    """Make the workspace SLUG the active one of the user EMAIL; prints its id."""
    rows = run("accounts/activate", email=email, slug=slug)
    click.echo(only(rows, f"{email} is not a member of {slug}").id)


@member.command("add")
@click.argument("slug")
@click.argument("email")
@click.option(
    "--role", type=click.Choice(["owner", "admin", "member"]), default="member", show_default=True
)
@told
def add_member(slug, email, role):
    """Put the user EMAIL into the workspace SLUG, or change the role there; prints the user's id.

    A user's first workspace becomes the active one.
    """
    rows = run("accounts/add_member", slug=slug, email=email, role=role)
    click.echo(only(rows, f"there is no workspace {slug} or no user {email}").user_id)


def new_token(kind, email, scope="write", expires_in=None, name=""):
    """Make a credential and return it; the database keeps only its SHA-256."""
    secret = f"tmw_{kind}_{token_hex(20)}"
    rows = run(
        "accounts/create_token",
        email=email,
        kind=kind,
        scope=scope,
        days=expires_in,
        name=name,
        hash=sha256(secret.encode()).digest(),
    )
    only(rows, f"there is no user {email}")
    return secret


@token.command("create")
@click.argument("email")
@click.option("--scope", type=click.Choice(["read", "write"]), default="write", show_default=True)
@click.option(
    "--expires-in", type=click.IntRange(1, 36500), metavar="DAYS", help="[default: never]"
)
@click.option("--name", default="", help="What it is for.")
@told
def create_token(email, scope, expires_in, name):
    """Make an API token for the user EMAIL; prints it, this once."""
    click.echo(new_token("api", email, scope, expires_in, checked(Text(NAME), "--name", name)))


@token.command("list")
@click.argument("email")
@told
def list_tokens(email):
    """List a user's tokens, tab-separated.

    Columns: id, kind, scope, created, last used, expires, revoked, name.
    """
    rows = run("accounts/list_tokens", email=email)
    only(rows, f"there is no user {email}")
    for row in rows:
        # A user without tokens is one row of nothing.
        if row.id:
            click.echo("\t".join("-" if value is None else str(value) for value in row))


@token.command("revoke")
@click.argument("id")
@told
def revoke_token(id):
    """Make a token useless from now on, API token or session; prints its id."""
    click.echo(only(run("accounts/revoke_token", id=as_id(id)), f"there is no token {id}").id)


@session.command("create")
@click.argument("email")
@click.option(
    "--expires-in", type=click.IntRange(1, 36500), metavar="DAYS", default=30, show_default=True
)
@told
def create_session(email, expires_in):
    """Make a session for the user EMAIL; prints the value of the cookie 'session', this once."""
    click.echo(new_token("session", email, expires_in=expires_in))
