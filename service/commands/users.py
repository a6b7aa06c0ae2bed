"""Commands for users. Over HTTP, adding a member can also create a user (api/members.py)."""

from typing import Any, NamedTuple

import click

from service.commands.base import (
    confirm,
    connect,
    echo_ids,
    echo_rows,
    email_argument,
    json_option,
    one_row,
    query,
    slug_argument,
    validate,
    yes_option,
)
from service.values.types import NIL_UUID, Email, PersonName, uuid_or_nil


class Membership(NamedTuple):
    slug: str
    role: str


class ListedUser(NamedTuple):
    id: str
    # For a deleted user only the id, the state and the last column have values; workspaces is
    # empty.
    email: str | None
    name: str | None
    # The slug; null without an active workspace.
    active_workspace: str | None
    # Texts like acme:owner, which become Memberships in JSON.
    workspaces: list[str]
    created_at: str | None
    # The last use of a token or session.
    last_seen_at: str | None
    # One of: active, deactivated, deleted.
    state: str
    # Null unless the user is deactivated.
    deactivated_at: str | None
    # Null unless the user is deleted.
    deleted_at: str | None


class Deactivation(NamedTuple):
    id: str
    # Null if the user was deactivated earlier.
    since: str | None


class Deletion(NamedTuple):
    """The outcome of deleting a user. The last owner of a workspace cannot be deleted."""

    id: str
    # The slugs of the workspaces whose last owner the user is; if there are none, the user is
    # deleted.
    last_owner_of: list[str]


user = click.Group("user")


@user.command("create")
@email_argument
@click.argument("name")
def create_user(email: str, name: str) -> None:
    """Create a user with this e-mail address and name; prints the id."""
    email = validate(Email(), "EMAIL", email)
    name = validate(PersonName(), "NAME", name)
    echo_ids("users/create", email=email, name=name)


@user.command("rename")
@email_argument
@click.argument("name")
def rename_user(email: str, name: str) -> None:
    """Change the name of the user EMAIL; prints the id.

    Every workspace of the user shows the new name. If your login page sends names, the name that it
    sends at the next sign-in replaces this one.
    """
    name = validate(PersonName(), "NAME", name)
    echo_ids("users/rename", f"there is no user {email}", email=email, name=name)


@user.command("activate")
@email_argument
@slug_argument
def activate_workspace(email: str, slug: str) -> None:
    """Make the workspace SLUG the active workspace of the user EMAIL.

    Prints the id of the workspace.
    """
    echo_ids("users/activate", f"{email} is not a member of {slug}", email=email, slug=slug)


@user.command("list")
@json_option
def list_users(as_json: bool) -> None:
    """List all users, oldest first.

    Columns: id, e-mail address, name, active workspace, workspaces with the user's roles, created,
    last seen, state (active or deactivated), deactivated at, deleted at (only in user show).
    """
    echo_users(query(ListedUser, "users/list", email=None, id=None), as_json=as_json)


@user.command("show")
@click.argument("name", metavar="ID_OR_EMAIL")
@json_option
def show_user(name: str, as_json: bool) -> None:
    """Show one user, with the columns of user list.

    For a deleted user, give the id: shows the state deleted, and the time of the deletion.
    """
    echo_users([find_user(name, uuid_or_nil(name))], as_json=as_json)


def find_user(email: str, id: str = NIL_UUID) -> ListedUser:
    return one_row(ListedUser, "users/list", f"there is no user {email}", email=email, id=id)


def echo_users(rows: list[ListedUser], *, as_json: bool) -> None:
    """Print users; in JSON each workspace is an object with slug and role."""

    def roles(row: ListedUser) -> list[Any]:
        return [Membership(*text.split(":")) for text in row.workspaces]

    if as_json:
        rows = [row._replace(workspaces=roles(row)) for row in rows]
    echo_rows(rows, as_json=as_json)


@user.command("deactivate")
@email_argument
def deactivate_user(email: str) -> None:
    """Take away the access of the user EMAIL.

    Takes effect with the next request: the user's API tokens and sessions are rejected, and nobody
    can assign a task to the user. The user's name, memberships, roles and tasks stay. To undo it,
    run user reactivate. Prints the id.
    """
    found = one_row(Deactivation, "users/deactivate", f"there is no user {email}", email=email)
    if found.since:
        # The access has ended, but writes that already run may still assign tasks to the user.
        with connect() as connection:
            connection.run("users/finish_deactivation", **found._asdict())
    click.echo(found.id)


@user.command("reactivate")
@email_argument
def reactivate_user(email: str) -> None:
    """Undo deactivate for the user EMAIL.

    The user's tokens and sessions work again. Prints the id.
    """
    echo_ids("users/reactivate", f"there is no user {email}", email=email)


@user.command("delete")
@email_argument
@yes_option
def delete_user(email: str, yes: bool) -> None:
    """Delete the user EMAIL; prints the id.

    Also deletes the user's tokens, memberships and mail. Tasks and meetings stay, with the user's
    id in createdBy, updatedBy and completedBy. The last owner of a workspace cannot be deleted. To
    take away only the access, run user deactivate.
    """
    confirm(f"Delete the user {email} with all tokens, memberships and mail?", yes=yes)
    row = one_row(Deletion, "users/delete", f"there is no user {email}", email=email)
    if row.last_owner_of:
        raise click.ClickException(
            f"{email} is the last owner of {', '.join(row.last_owner_of)}: first make another"
            " member an owner with member add --role owner, or delete the workspace"
        )
    click.echo(row.id)
