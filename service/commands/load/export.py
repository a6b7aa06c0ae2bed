"""``task-service workspace export``: the lines that ``task-service load`` reads."""

import json
from collections.abc import Iterator

import click
from psycopg import IsolationLevel

from service.commands.base import FoundWorkspace
from service.commands.load.lines import TYPES
from service.database.statements import STATEMENTS, Connection
from service.version import version


def lines(connection: Connection, slug: str) -> Iterator[bytes]:
    """Yield the lines of a snapshot of a workspace, in an order that ``load`` can read.

    A line has the members that ``load`` reads, except null ones. The first line says that this is
    an export, and which release made it. The last line has the number of lines between the two, so
    that ``load`` can reject an export that was cut off. The connection must not be in a
    transaction. The process holds one object at a time. Raises ClickException if there is no such
    workspace.
    """
    connection.isolation_level = IsolationLevel.REPEATABLE_READ
    with connection.transaction():
        workspace = connection.row_or_none(FoundWorkspace, "workspaces/find", slugs=[slug])
        if workspace is None:
            raise click.ClickException(f"there is no workspace {slug}")
        yield encode({"type": "export", "release": version()})
        total = 0
        for kind, schema in TYPES.items():
            known = {field.data_key for field in schema.load_fields.values()}
            statement = STATEMENTS[f"export/{kind}"].source
            with connection.cursor() as cursor:
                # The object as the API returns it, but users and members in the form of load,
                # because the API shows them differently.
                for (body,) in cursor.stream(statement, {"id": workspace.id}):
                    document = {"workspace": slug, **json.loads(body)}
                    members = {
                        key: value
                        for key, value in document.items()
                        if key in known and value is not None
                    }
                    yield encode({"type": kind, **members})
                    total += 1
        yield encode({"type": "end", "lines": total})


def encode(line: dict[str, object]) -> bytes:
    return json.dumps(line, ensure_ascii=False).encode() + b"\n"
