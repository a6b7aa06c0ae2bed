"""``flask load``: workspaces, users and all that is theirs, from files of JSON Lines.

A line is an object with its ``type`` and the fields that the API gives it, checked as the API checks
them, plus what names its owner. A file is one transaction: loaded as a whole or not at all.
"""

import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import count

import click
import psycopg
from flask import current_app
from flask.cli import with_appcontext
from marshmallow import ValidationError, fields, missing

from service import db, errors
from service.commands import in_words, told
from service.fields import (
    ADDRESS,
    COMMON,
    NAME,
    NOBODY,
    REFERENCE,
    TEXT,
    TITLE,
    UUID,
    Address,
    Body,
    Choice,
    Id,
    Moment,
    Text,
    Texts,
    Timezone,
)
from service.inputs import parse_object
from service.meetings import MeetingChanges
from service.tasks import NewTask
from service.workspaces import WorkspaceChanges

# What one statement takes: enough that its round trip does not count, little enough to hold twice in memory.
ROWS, BYTES = 5000, 2**22

# The types that have an author: the oldest owner of the workspace, if a line names nobody.
AUTHORED = "task", "meeting"

# The columns that hold a user, and what lines call them.
PEOPLE = {"user_id": "user", "assignee_id": "assigneeId", "created_by": "createdBy"}

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Errors of the line at hand; all others (no connection, no space) are no line's fault.
REFUSALS = psycopg.DataError, psycopg.IntegrityError, psycopg.errors.ProgramLimitExceeded


class GivenId(Text):
    """The id that something is to have, so that later lines can refer to it."""

    default_error_messages = {"uuid": "must be a UUID, like 0190163d-8694-739b-aea5-966c26f8ad91"}

    # Cursors and absent ids are compared with these two.
    reserved = NOBODY, NOBODY.replace("0", "f")

    def __init__(self):
        super().__init__(REFERENCE, load_default=None)

    def _deserialize(self, value, attr, data, **kwargs):
        text = super()._deserialize(value, attr, data, **kwargs).lower()
        if not UUID.fullmatch(text) or text in self.reserved:
            raise self.make_error("uuid")
        return text


class Person(Text):
    """A user, by e-mail address or by id."""

    default_error_messages = {"person": "must be the e-mail address or the id of a user"}

    def __init__(self, **options):
        super().__init__(ADDRESS, 1, **options)

    def _deserialize(self, value, attr, data, **kwargs):
        text = super()._deserialize(value, attr, data, **kwargs)
        if "@" not in text and not UUID.fullmatch(text):
            raise self.make_error("person")
        return text


class Past(Moment):
    """A moment that an id can be made from, and that is not still to come."""

    default_error_messages = {"past": "must lie between 1970 and now"}

    def _deserialize(self, value, attr, data, **kwargs):
        moment = super()._deserialize(value, attr, data, **kwargs)
        if not EPOCH <= moment <= datetime.now(UTC):
            raise self.make_error("past")
        return moment


class Truth(fields.Field):
    """JSON's true or false."""

    default_error_messages = {**COMMON, "truth": "must be true or false"}

    def _deserialize(self, value, attr, data, **kwargs):
        if not isinstance(value, bool):
            raise self.make_error("truth")
        return value


class Line(Body):
    """One object of a file."""

    def __init__(self):
        super().__init__()
        known = self.load_fields.items()
        self.checks = {field.data_key: (name, field.deserialize) for name, field in known}
        self.required = {name for name, field in known if field.required}
        self.defaults = {
            name: field.load_default
            for name, field in known
            if field.load_default not in (missing, None)
        }

    def check(self, document):
        """What ``load`` returns but for the absent, in half the time; that is for finding all faults."""
        row = {name: item() if callable(item) else item for name, item in self.defaults.items()}
        try:
            for key, value in document.items():
                name, deserialize = self.checks[key]
                row[name] = deserialize(value)
        except (KeyError, ValidationError):
            return self.load(document)
        return row if self.required <= row.keys() else self.load(document)


class Created(Line):
    id = GivenId()
    created_at = Past(load_default=None)


class WorkspaceLine(Created, WorkspaceChanges):
    name = Text(NAME, 1, trim=True, required=True)
    slug = Text(REFERENCE, 1, required=True)
    plan = Text(REFERENCE, 1, load_default="Starter")
    timezone = Timezone(load_default="UTC")


class UserLine(Created):
    email = Address(required=True)
    name = Text(NAME, 1, trim=True, required=True)


class Owned(Line):
    """What belongs to a workspace."""

    workspace_id = Text(REFERENCE, 1, data_key="workspace", required=True)


class MemberLine(Owned):
    user_id = Person(data_key="user", required=True)
    role = Choice("owner", "admin", "member", load_default="member")
    joined_at = Moment(load_default=None)


class TaskLine(Owned, Created, NewTask):
    assignee_id = Person(allow_none=True, load_default=None)
    created_by = Person(load_default=None)
    updated_at = Moment(load_default=None)
    completed_at = Moment(allow_none=True, load_default=None)


class MeetingLine(Owned, Created, MeetingChanges):
    status = Choice("scheduled", "completed", load_default="scheduled")
    created_by = Person(load_default=None)


class MailLine(Owned):
    id = GivenId()
    user_id = Person(data_key="user", required=True)
    sender = Address(data_key="from", required=True)
    recipients = Texts(Address(), 200, data_key="to", load_default=list)
    subject = Text(TITLE, load_default="")
    snippet = Text(2000, load_default="")
    read = Truth(load_default=False)
    received_at = Moment(required=True)


class KnowledgeLine(Owned, Created):
    title = Text(TITLE, 1, trim=True, required=True)
    content = Text(TEXT, load_default="")
    tags = Texts(Text(NAME, 1), 50, load_default=list)
    updated_at = Moment(load_default=None)


class SuggestionLine(Owned, Created):
    kind = Text(REFERENCE, 1, required=True)
    title = Text(TITLE, 1, trim=True, required=True)
    body = Text(TEXT, allow_none=True, load_default=None)
    task_id = Id(allow_none=True, load_default=None)
    status = Choice("pending", "accepted", "dismissed", load_default="pending")


TYPES = {
    "workspace": WorkspaceLine(),
    "user": UserLine(),
    "member": MemberLine(),
    "task": TaskLine(),
    "meeting": MeetingLine(),
    "mail": MailLine(),
    "knowledge": KnowledgeLine(),
    "suggestion": SuggestionLine(),
}


@click.command("load")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path())
@with_appcontext
@told
def load(files):
    """Load JSON Lines: an object a line, with its type and the API's fields; - is standard input.

    Prints each file and how many objects it had, tab-separated. Each is loaded as a whole or not
    at all; the first bad line is named and ends the command.
    """
    for file in files:
        total = load_file(current_app.config["SETTINGS"], file)
        click.echo(f"{click.format_filename(file)}\t{total}")


def load_file(settings, path):
    """Load all lines of a file in one transaction and return how many objects they held."""
    name = click.format_filename(path)
    try:
        with (
            click.open_file(path, "rb") as file,
            # Prepared statements would gain nothing on large batches and not pass an old PgBouncer.
            db.connect(settings, prepare_threshold=None) as connection,
            connection.transaction(),
            progress(path) as advance,
        ):
            return store(connection, batches(read(file, settings.max_body)), advance)
    except OSError as error:
        raise click.ClickException(f"{name}: {error.strerror or error}") from None
    except BadLine as error:
        raise click.ClickException(f"{name}:{error.line}: {error}") from None


class BadLine(Exception):
    """What is wrong with one line, in one line and with nothing that a terminal would obey."""

    def __init__(self, line, fault):
        fault = " ".join(str(fault).split())
        super().__init__("".join(c if c.isprintable() else repr(c)[1:-1] for c in fault))
        self.line = line


def read(file, limit):
    """Yield the type, the checked content and the size of every line; raises BadLine."""
    for line in count(1):
        text = file.readline(limit + 1)
        if not text:
            return
        if text.isspace():
            continue
        try:
            if len(text) > limit:
                raise ValueError(f"must have at most {limit} bytes")
            document = parse_object(text.rstrip())
            kind = document.pop("type", None)
            if not isinstance(kind, str) or kind not in TYPES:
                raise ValueError(f"type: must be one of: {', '.join(TYPES)}")
            row = TYPES[kind].check(document)
            if row.get("completed_at") and row["status"] != "done":
                raise ValueError("completedAt: needs status done")
        except ValidationError as error:
            raise BadLine(line, errors.from_schema(error).description) from None
        except ValueError as error:
            # The decoder counts lines too: for it, this one is always the first.
            fault = re.sub(r"line 1 (column [0-9]+) \(char [0-9]+\)", r"\1", str(error))
            raise BadLine(line, fault) from None
        row["line"] = line
        yield kind, row, len(text)


class Batch:
    """Consecutive lines of one type, for one statement."""

    def __init__(self, kind):
        self.kind, self.rows, self.size, self.parents = kind, [], 0, set()

    def takes(self, kind, row):
        return (
            kind == self.kind
            and len(self.rows) < ROWS
            and self.size < BYTES
            # A parent goes first: within one statement the wrong order would pass, but only there.
            and row.get("id") not in self.parents
        )

    def add(self, row, size):
        self.rows.append(row)
        self.size += size
        if row.get("parent_id"):
            self.parents.add(row["parent_id"].lower())


def batches(lines):
    """Gather lines into batches."""
    batch = None
    try:
        for kind, row, size in lines:
            if batch and not batch.takes(kind, row):
                yield batch
                batch = None
            batch = batch or Batch(kind)
            batch.add(row, size)
    except BadLine:
        # A line before it may be bad too, and is then the one to name.
        if batch:
            yield batch
        raise
    if batch:
        yield batch


def store(connection, batches, advance):
    """Insert each batch while the next one is being read; return how many objects there were."""
    total, pending = 0, None
    with ThreadPoolExecutor(1) as database:
        try:
            for batch in batches:
                if pending:
                    pending.result()
                    pending = None
                resolve(connection, batch.kind, batch.rows)
                document = db.document(batch.rows)
                pending = database.submit(insert, connection, batch.kind, batch.rows, document)
                total += len(batch.rows)
                advance(batch.size)
        finally:
            if pending:
                pending.result()
    return total


def resolve(connection, kind, rows):
    """Put ids in the place of slugs and e-mail addresses; raises BadLine for what nobody has."""
    workspaces, users = find_owners(connection, rows)
    for position, row in enumerate(rows):
        try:
            resolve_row(kind, row, workspaces, users)
        except BadLine:
            insert(connection, kind, rows[:position])
            raise


def find_owners(connection, rows):
    """The workspaces and users that the rows name, by these names."""

    def find(name, **values):
        return connection.execute(db.statement(name), values)

    slugs = {row["workspace_id"] for row in rows if "workspace_id" in row}
    people = {row[column] for row in rows for column in PEOPLE if row.get(column)}
    addresses = [name for name in people if "@" in name]
    ids = list(people.difference(addresses))
    workspaces = find("load/find_workspaces", slugs=list(slugs)) if slugs else ()
    users = find("load/find_users", addresses=addresses, ids=ids) if people else ()
    return {found.slug: found for found in workspaces}, {found.name: found.id for found in users}


def resolve_row(kind, row, workspaces, users):
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
            rows_in_json = document or db.document(rows)
            connection.execute(db.statement(f"load/{kind}"), {"rows": rows_in_json})
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


@contextmanager
def progress(path):
    """A function to tell how many bytes were read: it moves a bar if there is a terminal, and tqdm."""
    try:
        if not sys.stderr.isatty():
            raise ImportError
        from tqdm import tqdm
    except ImportError:
        yield lambda size: None
        return
    size = os.path.getsize(path) if os.path.isfile(path) else None
    with tqdm(desc=str(path), total=size, unit="B", unit_scale=True, leave=False) as bar:
        yield bar.update
