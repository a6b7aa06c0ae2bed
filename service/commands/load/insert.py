"""Store lines: replace names by ids, insert each batch with one statement, find a rejected line.

A name is the slug of a workspace, or the e-mail address or id of a user.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import psycopg

from service.commands.base import FoundWorkspace, describe, printable
from service.database.statements import Connection, to_json

Row = dict[str, Any]

# The maximum number of rows in one statement. With so many rows, the round trip hardly matters.
MAX_ROWS = 5000

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


class Batch:
    """Consecutive lines of one type, for one statement."""

    # A batch with this many bytes of lines is full. Its lines are twice in the memory of the
    # process.
    MAX_BYTES = 2**22

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.rows: list[Row] = []
        self.size = 0
        self.parents: set[str] = set()

    def takes(self, kind: str, row: Row) -> bool:
        """Return whether the row may join this batch."""
        return (
            kind == self.kind
            and len(self.rows) < MAX_ROWS
            and self.size < self.MAX_BYTES
            # A parent must precede its subtasks; a single statement would accept the wrong order.
            and row.get("id") not in self.parents
        )

    def add(self, row: Row, size: int) -> None:
        self.rows.append(row)
        self.size += size
        if row.get("parent_id"):
            self.parents.add(row["parent_id"].lower())


def store(connection: Connection, batches: Iterable[Batch], *, match_users: bool) -> int:
    """Insert all batches in order, and return the number of objects.

    With ``match_users``, a line about a user does not create a user if a user with its e-mail
    address exists. All lines that refer to this user then refer to the existing user.
    """
    total, versions = 0, []
    # The authors, last editors and completers of tasks and meetings, each with the workspace.
    named: set[tuple[str, str]] = set()
    ids: dict[str, str] = {}
    for batch in batches:
        if match_users:
            take_existing_users(connection, batch, ids)
        references = References(connection, batch.rows)
        for position, row in enumerate(batch.rows):
            try:
                references.resolve(batch.kind, row)
            except InvalidLine:
                # The database may reject an earlier line, which must then be reported.
                insert(connection, batch.kind, batch.rows[:position])
                raise
        insert(connection, batch.kind, batch.rows)
        total += len(batch.rows)
        if batch.kind == "workspace":
            versions += [row for row in batch.rows if row["version"]]
        if batch.kind in AUTHORED:
            for row in batch.rows:
                users = {row["created_by"], row["updated_by"], row.get("completed_by")} - {None}
                named |= {(row["workspace_id"], user) for user in users}
    connection.run("load/versions", rows=to_json(versions))
    # At the end, because a user is a former member only if no line makes the user a member.
    rows = [{"workspace_id": workspace, "user_id": user} for workspace, user in named]
    connection.run("load/former_members", rows=to_json(rows))
    # At the end, because the statement locks the feeds, and requests for events wait for the lock.
    workspaces = {workspace for workspace, _ in named}
    connection.run("load/end_histories", workspace_ids=[*workspaces])
    return total


def take_existing_users(connection: Connection, batch: Batch, ids: dict[str, str]) -> None:
    """Replace the id of each user who already exists in the database by the existing id.

    Replaces the id in the line of the user, and in all rows of the batch that refer to the user.
    ``ids`` maps the ids in the file to the existing ids; this function adds the users of the batch.
    """
    if batch.kind == "user":
        emails = [row["email"] for row in batch.rows]
        found = connection.rows(FoundUser, "users/find", emails=emails, ids=[])
        here = {user.name: user.id for user in found}
        for row in batch.rows:
            if row["email"] in here:
                id = here[row["email"]]
                ids[row["id"]] = id
                row["id"] = id
    for row in batch.rows:
        for column in USER_COLUMNS:
            name = row.get(column)
            if name:
                row[column] = ids.get(name.lower(), name)


class References:
    """The workspaces and users that the rows of a batch name, by slug, e-mail address or id."""

    def __init__(self, connection: Connection, rows: list[Row]) -> None:
        slugs = {row["workspace_id"] for row in rows if "workspace_id" in row}
        names = {row[column] for row in rows for column in USER_COLUMNS if row.get(column)}
        emails = {name for name in names if "@" in name}
        ids = list(names - emails)
        workspaces = connection.rows(FoundWorkspace, "workspaces/find", slugs=list(slugs))
        users = connection.rows(FoundUser, "users/find", emails=list(emails), ids=ids)
        self.workspaces = {workspace.slug: workspace for workspace in workspaces}
        self.users = {user.name: user.id for user in users}

    def resolve(self, kind: str, row: Row) -> None:
        """Replace names by ids; raises InvalidLine for an unknown name."""
        for column, field in USER_COLUMNS.items():
            name = row.get(column)
            if name and name not in self.users:
                raise InvalidLine(row["line"], f"{field}: there is no user {name!r}")
            if name:
                row[column] = self.users[name]
        if "workspace_id" in row:
            slug = row["workspace_id"]
            workspace = self.workspaces.get(slug)
            if workspace is None:
                raise InvalidLine(row["line"], f"workspace: there is no workspace {slug!r}")
            row["workspace_id"] = workspace.id
            if kind in AUTHORED and not row.get("created_by"):
                if workspace.owner_id is None:
                    message = f"createdBy: is required, as {slug!r} has no owner"
                    raise InvalidLine(row["line"], message)
                row["created_by"] = workspace.owner_id


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
    if constraint.endswith("_pkey"):
        return "id: is taken"
    return ": ".join(constraint.split(" ", 1)) if " " in constraint else describe(error)
