"""Store lines: replace names by ids, insert each batch with one statement, find a rejected line.

A name is the slug of a workspace, or the e-mail address or id of a user.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import psycopg

from service.commands.base import FoundWorkspace, describe, printable
from service.database.statements import Connection, to_json

Row = dict[str, Any]

# The types with an author. The default author is the oldest owner of the workspace. Loading these
# types creates no events.
AUTHORED = "task", "meeting"

# The columns that hold a user, and their names in a line.
USER_COLUMNS = {
    "user_id": "user",
    "assignee_id": "assigneeId",
    "created_by": "createdBy",
    "updated_by": "updatedBy",
    "completed_by": "completedBy",
}

# The errors that the content of a line can cause. Others, such as a lost connection or a full disk,
# say nothing about a line.
REJECTIONS = psycopg.DataError, psycopg.IntegrityError, psycopg.errors.ProgramLimitExceeded


class InvalidLine(Exception):
    """A line of a file is invalid. The message is a single line of text."""

    def __init__(self, line: int, message: object) -> None:
        super().__init__(printable(" ".join(str(message).split())))
        self.line = line


class FoundUser(NamedTuple):
    name: str
    id: str


def store(
    connection: Connection, batches: Iterable[tuple[str, list[Row]]], *, match_users: bool
) -> int:
    """Insert all batches in order, and return the number of objects.

    A batch has a type and rows. With ``match_users``, a line about a user does not create a user if
    a user with its e-mail address exists. All lines that refer to this user then refer to the
    existing user.
    """
    total, versions = 0, []
    # The people of tasks and meetings, each with the workspace; None where a line names nobody.
    named: set[tuple[str, str | None]] = set()
    # The ids of the file that stand for existing users, and the ids of these.
    existing: dict[str, str] = {}
    for kind, rows in batches:
        if match_users and kind == "user":
            existing |= take_existing_users(connection, rows)
        resolved = []
        try:
            for row in resolve(connection, kind, rows, existing):
                resolved.append(row)
        except InvalidLine:
            # The database may reject an earlier line, which must then be reported.
            insert(connection, kind, resolved)
            raise
        insert(connection, kind, resolved)
        total += len(rows)
        if kind == "workspace":
            versions += [row for row in rows if row["version"]]
        if kind in AUTHORED:
            for column in "created_by", "updated_by", "completed_by":
                named |= {(row["workspace_id"], row.get(column)) for row in rows}
    connection.run("load/versions", rows=to_json(versions))
    # At the end, because a user is a former member only if no line makes the user a member.
    rows = [{"workspace_id": workspace, "user_id": user} for workspace, user in named]
    connection.run("load/former_members", rows=to_json(rows))
    # At the end, because the statement locks the feeds, and requests for events wait for the lock.
    connection.run("load/end_histories", workspace_ids=list({workspace for workspace, _ in named}))
    return total


def take_existing_users(connection: Connection, rows: list[Row]) -> dict[str, str]:
    """Give each user who already exists in the database the existing id; return it by the old."""
    found, ids = find_users(connection, {row["email"] for row in rows}), {}
    for row in rows:
        if id := found.get(row["email"]):
            ids[row["id"]] = id
            row["id"] = id
    return ids


def find_users(connection: Connection, names: set[str]) -> dict[str, str]:
    """Return the id of each user that one of the names, addresses and ids, belongs to."""
    emails = {name for name in names if "@" in name}
    ids = names - emails
    found = connection.rows(FoundUser, "users/find", emails=[*emails], ids=[*ids])
    return {user.name: user.id for user in found}


def resolve(
    connection: Connection, kind: str, rows: list[Row], existing: dict[str, str]
) -> Iterator[Row]:
    """Yield the rows with ids instead of names; raises InvalidLine for an unknown name.

    ``existing`` has the ids of existing users by the ids that the file has instead.
    """
    slugs = {row["workspace_id"] for row in rows if "workspace_id" in row}
    names = {row[column] for row in rows for column in USER_COLUMNS if row.get(column)}
    found = connection.rows(FoundWorkspace, "workspaces/find", slugs=[*slugs])
    workspaces = {workspace.slug: workspace for workspace in found}
    users = find_users(connection, names)
    for row in rows:
        for column, field in USER_COLUMNS.items():
            if name := row.get(column):
                id = existing.get(name.lower()) or users.get(name)
                if id is None:
                    raise InvalidLine(row["line"], f"{field}: there is no user {name!r}")
                row[column] = id
        if slug := row.get("workspace_id"):
            workspace = workspaces.get(slug)
            if workspace is None:
                raise InvalidLine(row["line"], f"workspace: there is no workspace {slug!r}")
            row["workspace_id"] = workspace.id
            if kind in AUTHORED and not row.get("created_by"):
                if workspace.owner_id is None:
                    message = f"createdBy: is required, as {slug!r} has no owner"
                    raise InvalidLine(row["line"], message)
                row["created_by"] = workspace.owner_id
        yield row


def insert(connection: Connection, kind: str, rows: list[Row]) -> None:
    """Insert the rows with one statement; raises InvalidLine.

    If PostgreSQL rejects the statement, bisect the rows to find the first invalid one.
    """
    try:
        with connection.transaction():
            connection.run(f"load/{kind}", rows=to_json(rows))
    except REJECTIONS as error:
        if len(rows) == 1:
            raise InvalidLine(rows[0]["line"], rejection(error)) from None
        middle = len(rows) // 2
        insert(connection, kind, rows[:middle])
        insert(connection, kind, rows[middle:])


def rejection(error: psycopg.Error) -> str:
    """Say why PostgreSQL rejected a line.

    The name of a constraint is a sentence that begins with a field; the message has a colon after
    the field, like all messages about fields.
    """
    constraint = error.diag.constraint_name or ""
    if constraint == "members_pkey":
        return "user: is a member of the workspace already"
    if constraint == "workspaces_pkey":
        return "id: is taken: the workspace exists; to replace it, run workspace delete first"
    if constraint.endswith("_pkey"):
        return "id: is taken"
    return ": ".join(constraint.split(" ", 1)) if " " in constraint else describe(error)
