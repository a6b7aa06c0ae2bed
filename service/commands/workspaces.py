"""Commands for workspaces. No request can create one (docs/specification.md, section 4)."""

import re
from typing import NamedTuple

import click

from service.commands.base import (
    FoundWorkspace,
    confirm,
    connect,
    echo_ids,
    echo_rows,
    json_option,
    one_row,
    query,
    slug_argument,
    validate,
    yes_option,
)
from service.commands.plans import check_plan
from service.database.statements import STATEMENTS
from service.values.types import URL


class ListedWorkspace(NamedTuple):
    id: str
    slug: str
    name: str
    plan: str
    member_count: int
    created_at: str
    state: str


class Contents(NamedTuple):
    members: int
    tasks: int
    meetings: int


class DeletedRows(NamedTuple):
    deleted: int


def find_workspace(slug: str) -> FoundWorkspace:
    absent = f"there is no workspace {slug}"
    return one_row(FoundWorkspace, "workspaces/find", absent, slugs=[slug])


workspace = click.Group("workspace")


@workspace.command("create")
@click.argument("name")
@click.option("--slug", help="Short name for URLs and commands.", show_default="made from NAME")
@click.option(
    "--plan",
    default="Starter",
    show_default=True,
    help="Name of a plan; plan list shows all plans.",
)
def create_workspace(name: str, slug: str | None, plan: str) -> None:
    """Create a workspace; prints its id."""
    name = name.strip()
    if slug is None:
        slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    check_plan(plan)
    echo_ids("workspaces/create", name=name, slug=slug, plan=plan)


@workspace.command("list")
@json_option
def list_workspaces(as_json: bool) -> None:
    """List all workspaces, oldest first.

    Columns: id, slug, name, plan, number of members, created, and open, frozen or moved.
    """
    echo_rows(query(ListedWorkspace, "workspaces/list_all"), as_json=as_json)


@workspace.command("plan")
@slug_argument
@click.argument("plan")
def change_plan(slug: str, plan: str) -> None:
    """Change the plan of the workspace SLUG.

    Takes effect with the next request. Prints the id of the workspace.
    """
    check_plan(plan)
    echo_ids("workspaces/set_plan", f"there is no workspace {slug}", slug=slug, plan=plan)


@workspace.command("freeze")
@slug_argument
@click.option("--to", "url", help="URL of the other installation, for the error.")
@click.option("--moved", is_flag=True, help="Requests may not even read: they get 404.")
def freeze_workspace(slug: str, url: str | None, moved: bool) -> None:
    """Let requests only read the workspace SLUG while it moves.

    Writes get 503. Waits for the writes that run, so that an export has all that succeeded.
    Commands can still write, and so can processes of releases before 1.3.0. Prints the id of the
    workspace.
    """
    place = "" if url is None else validate(URL(), "--to", url)
    set_frozen(slug, place, has_moved=moved)


@workspace.command("unfreeze")
@slug_argument
def unfreeze_workspace(slug: str) -> None:
    """Let requests write in the workspace SLUG again. Prints its id."""
    set_frozen(slug, None, has_moved=False)


def set_frozen(slug: str, moves_to: str | None, *, has_moved: bool) -> None:
    absent = f"there is no workspace {slug}"
    echo_ids("workspaces/freeze", absent, slug=slug, moves_to=moves_to, has_moved=has_moved)


# A statement exports the lines of each type.
EXPORTED = [name.removeprefix("export/") for name in STATEMENTS if name.startswith("export/")]


@workspace.command(
    "export",
    help=f"""Print the workspace SLUG as JSON Lines.

    The command load reads these lines, and keeps ids and times. The lines are one snapshot of the
    workspace, with lines of the types {", ".join(sorted(EXPORTED))}. Tokens, events and deliveries
    are not exported. The first line has the type export and the last line the type end, so that
    load can reject an export that was cut off.
    """,
)
@slug_argument
def export_workspace(slug: str) -> None:
    # Imported late: the schemas of the lines import the whole API, which no other command here
    # needs.
    from service.commands.load import export

    with connect() as connection, click.open_file("-", "wb") as output:
        output.writelines(export.lines(connection, slug))
        output.flush()


@workspace.command("delete")
@slug_argument
@yes_option
def delete_workspace(slug: str, yes: bool) -> None:
    """Delete the workspace SLUG and everything in it.

    Its members keep their accounts. Prints the id of the workspace.
    """
    absent, id = f"there is no workspace {slug}", find_workspace(slug).id
    contents = one_row(Contents, "workspaces/count", absent, id=id)
    confirm(
        f"Delete {slug} with its {contents.tasks} tasks and {contents.meetings} meetings?"
        f" It has {contents.members} members.",
        yes=yes,
    )
    with connect() as connection:
        # From now on no request finds the workspace. The rest is deleted in small transactions. If
        # the command is interrupted, another run goes on.
        connection.run("workspaces/end_memberships", id=id)
        while connection.row(DeletedRows, "workspaces/delete_rows", id=id).deleted:
            pass
    echo_ids("workspaces/delete", absent, id=id)
