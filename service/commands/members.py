"""Commands for members of workspaces."""

from typing import NamedTuple

import click

from service.api.members import AddedMember, ChangedMember
from service.callers import OPERATOR
from service.commands.base import (
    confirm,
    echo_rows,
    email_argument,
    json_option,
    one_row,
    query,
    slug_argument,
    validate,
    yes_option,
)
from service.commands.workspaces import find_workspace
from service.values.types import ROLES, StoredEmail


class ListedMember(NamedTuple):
    user_id: str
    email: str
    name: str
    role: str
    joined_at: str


def require_owner(change: ChangedMember, slug: str, email: str) -> None:
    """Raise ClickException if the change was refused because the member is the last owner."""
    if not change.has_owner:
        raise click.ClickException(
            f"{email} is the last owner of {slug}: first make another member an owner with"
            " member add --role owner"
        )


member = click.Group("member")


@member.command("add")
@slug_argument
@email_argument
@click.option(
    "--role",
    type=click.Choice(ROLES),
    default="member",
    show_default=True,
    help="Role in the workspace: owners and admins may change the workspace.",
)
def add_member(slug: str, email: str, role: str) -> None:
    """Add the user EMAIL to the workspace SLUG.

    If the user is already a member, changes the role. Prints the id of the user. If the user has no
    active workspace, SLUG becomes the active one. The last owner cannot be demoted.
    """
    values = {**OPERATOR, "id": find_workspace(slug).id, "role": role}
    (added,) = query(AddedMember, "members/add", email=email, name=None, **values)
    if added.id is None:
        validate(StoredEmail(), "EMAIL", email)
        raise click.ClickException(f"there is no user {email}")
    if added.body is None:
        absent = f"{email} is not a member of {slug}"
        changed = one_row(ChangedMember, "members/update", absent, member_id=added.id, **values)
        require_owner(changed, slug, email)
    click.echo(added.id)


@member.command("list")
@slug_argument
@json_option
def list_members(slug: str, as_json: bool) -> None:
    """List the members of SLUG in the order in which they joined.

    Columns: id of the user, e-mail address, name, role, joined.
    """
    rows = query(ListedMember, "members/list", id=find_workspace(slug).id, email=None)
    echo_rows(rows, as_json=as_json)


@member.command("remove")
@slug_argument
@email_argument
@yes_option
def remove_member(slug: str, email: str, yes: bool) -> None:
    """Remove the user EMAIL from the workspace SLUG.

    Prints the id of the user. The tasks assigned to the user stay, without an assignee. The last
    owner cannot be removed.
    """
    id = find_workspace(slug).id
    absent = f"{email} is not a member of {slug}"
    found = one_row(ListedMember, "members/list", absent, id=id, email=email)
    confirm(f"Remove {found.name} ({email}) from {slug}?", yes=yes)
    values = {**OPERATOR, "id": id, "member_id": found.user_id}
    require_owner(one_row(ChangedMember, "members/remove", absent, **values), slug, email)
    click.echo(found.user_id)
