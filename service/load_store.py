"""Storing the lines of a file: names become ids, a batch becomes one statement, a refusal finds its line."""

import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg

from service import db
from service.commands import in_words
from service.load_lines import BadLine

# The rows that one statement takes: enough that its round trip does not count.
ROWS = 5000

# The types that have an author: the oldest owner of the workspace, if a line names nobody.
AUTHORED = "task", "meeting"

# The columns that hold a user, and what lines call them.
PEOPLE = {"user_id": "user", "assignee_id": "assigneeId", "created_by": "createdBy"}

# Errors of the line at hand; all others (no connection, no space) are no line's fault.
REFUSALS = psycopg.DataError, psycopg.IntegrityError, psycopg.errors.ProgramLimitExceeded


def store(connection, batches, advance):
    """Insert each batch while the next one is being read; return how many objects there were."""
    total = 0
    with sharing(), ThreadPoolExecutor(1) as thread:
        store = Store(connection, thread)
        try:
            for batch in batches:
                store.add(batch.kind, batch.rows)
                total += len(batch.rows)
                advance(batch.size)
        finally:
            store.settle()
    return total


@contextmanager
def sharing():
    """Threads take turns often: the one that sends else waits 5 ms each time that the socket takes more."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(0.0001)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)


class Store:
    """The open transaction, and the one insert that is under way in it."""

    def __init__(self, connection, thread):
        self.connection, self.thread = connection, thread
        self.pending = self.kind = None
        self.workspaces, self.users = {}, {}

    def add(self, kind, rows):
        """Begin to insert rows of one type, as soon as those before them are in."""
        if kind != self.kind or len(self.workspaces) + len(self.users) > ROWS:
            # Lines of another type may have changed what names stand for.
            self.kind, self.workspaces, self.users = kind, {}, {}
        self.learn(rows)
        for position, row in enumerate(rows):
            try:
                resolve(kind, row, self.workspaces, self.users)
            except BadLine:
                self.settle()
                insert(self.connection, kind, rows[:position])
                raise
        document = db.document(rows)
        self.settle()
        self.pending = self.thread.submit(insert, self.connection, kind, rows, document)

    def settle(self):
        """Wait for the insert under way; raises what it raised."""
        pending, self.pending = self.pending, None
        if pending:
            pending.result()

    def learn(self, rows):
        """Look up the slugs, addresses and user ids that the rows name and no row before them did."""
        slugs = {row["workspace_id"] for row in rows if "workspace_id" in row}
        people = {row[column] for row in rows for column in PEOPLE if row.get(column)}
        slugs.difference_update(self.workspaces)
        people.difference_update(self.users)
        if slugs:
            for found in self.find("load/find_workspaces", slugs=list(slugs)):
                self.workspaces[found.slug] = found
        if people:
            addresses = [name for name in people if "@" in name]
            ids = list(people.difference(addresses))
            for found in self.find("load/find_users", addresses=addresses, ids=ids):
                self.users[found.name] = found.id

    def find(self, name, **values):
        self.settle()
        return self.connection.execute(db.statement(name), values)


def resolve(kind, row, workspaces, users):
    """Put ids in the place of names; raises BadLine for a name that nothing has."""
    for column, field in PEOPLE.items():
        name = row.get(column)
        if name and name not in users:
            raise BadLine(row["line"], f"{field}: there is no user {name!r}")
        if name:
            row[column] = users[name]
    if "workspace_id" in row:
        slug = row["workspace_id"]
        workspace = workspaces.get(slug)
        if workspace is None:
            raise BadLine(row["line"], f"workspace: there is no workspace {slug!r}")
        row["workspace_id"] = workspace.id
        if kind in AUTHORED and not row.get("created_by"):
            if workspace.owner_id is None:
                raise BadLine(row["line"], f"createdBy: is required, as {slug!r} has no owner")
            row["created_by"] = workspace.owner_id


def insert(connection, kind, rows, document=None):
    """Insert rows by one statement; if it is refused, halve them down to the first that is at fault."""
    try:
        with connection.transaction():
            document = document or db.document(rows)
            connection.execute(db.statement(f"load/{kind}"), {"rows": document})
    except REFUSALS as error:
        if len(rows) == 1:
            raise BadLine(rows[0]["line"], refusal(error)) from None
        middle = len(rows) // 2
        insert(connection, kind, rows[:middle])
        insert(connection, kind, rows[middle:])


def refusal(error):
    """Why Postgres refused a line; the constraints are sentences that begin with the field."""
    constraint = error.diag.constraint_name or ""
    if constraint == "members_pkey":
        return "user: is a member of the workspace already"
    if constraint.endswith("_pkey"):
        return "id: is taken"
    return ": ".join(constraint.split(" ", 1)) if " " in constraint else in_words(error)
