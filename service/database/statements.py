"""The statements. Each is an SQL file, and runs by its name on a connection of psycopg."""

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple, TypeVar

import psycopg
from psycopg import errors
from psycopg.adapt import AdaptersMap, Loader
from psycopg.rows import RowFactory, TupleRow, args_row, tuple_row
from psycopg.types.json import JsonbDumper
from psycopg.types.string import TextLoader

from service.values.types import singular
from service.version import version

# The wheel contains this folder; in a checkout it is a symbolic link to ../sql.
SQL = (Path(__file__).parents[1] / "sql").resolve()

PARAMETER = re.compile(rb"%\((\w+)\)s")

# A first line that says how psycopg runs a statement; the command migrate reads its own.
MODE = re.compile(rb"(?:/\*.*\*/ )?-- (?!migrate: )([a-z]+: .*)")
PLANNED = b"planned: for its values"

# Errors of a statement that was planned for a schema that is out of date, so that it has done
# nothing and can run again. A migration has changed the type of its result; a connection pooler has
# dropped the prepared statement; or PostgreSQL has inlined the old text of a function that already
# has a new type.
STALE = (
    errors.FeatureNotSupported,
    errors.InvalidSqlStatementName,
    errors.CannotCoerce,
    errors.InvalidFunctionDefinition,
)

# A row is a NamedTuple: its members are the columns of the statement, in order.
Row = TypeVar("Row", bound=NamedTuple)


class IdRow(NamedTuple):
    """The row of a statement that returns only the id of the object that it created or changed."""

    id: str


def to_json(value: object) -> str:
    """Write a value as JSON without spaces, like the JSON that PostgreSQL writes for responses."""
    return json.dumps(value, default=datetime.isoformat, separators=(",", ":"))


class Statement:
    """The text of a file as PostgreSQL takes it: ``$1`` instead of ``%(name)s``.

    A statement with the first line ``-- planned: for its values`` is not prepared. Raises
    ValueError if the first line has this form but another text.
    """

    def __init__(self, source: bytes) -> None:
        self.source = source
        mode = MODE.match(source)
        self.is_planned_for_values = mode is not None
        if mode and mode[1].strip() != PLANNED:
            raise ValueError(
                f"{mode[0].decode().strip()}: a statement runs in another way only with the first"
                f" line '-- {PLANNED.decode()}'"
            )
        self.parameters = list(dict.fromkeys(match.decode() for match in PARAMETER.findall(source)))
        numbers = {name.encode(): number for number, name in enumerate(self.parameters, 1)}
        self.text = PARAMETER.sub(lambda match: b"$%d" % numbers[match[1]], source).replace(
            b"%%", b"%"
        )


def read_statements(folder: Path) -> dict[str, Statement]:
    """Read the statements of all files in a folder, by their paths there without ``.sql``.

    Each begins with its name, ``/* tasks/list */``, by which pg_stat_statements, pg_stat_activity
    and the log of PostgreSQL show it.
    """
    return {
        name: Statement(b"/* %s */ " % name.encode() + path.read_bytes())
        for path in sorted(folder.rglob("*.sql"))
        for name in [str(path.relative_to(folder).with_suffix(""))]
    }


# Loaded at import, so that an upgrade on disk does not affect a running process. The test double
# adds its own statements.
STATEMENTS = read_statements(SQL)


@cache
def migrations() -> list[str]:
    return [name.removeprefix("schema/") for name in STATEMENTS if name.startswith("schema/")]


@cache
def function_files() -> list[str]:
    return [name for name in STATEMENTS if name.startswith("functions/")]


class FunctionFile(NamedTuple):
    name: str


@cache
def texts_of_functions() -> dict[str, object]:
    """Return the parameters of migrate/functions, which finds the files of functions to apply."""
    files = function_files()
    sha256s = [checksum(name) for name in files]
    return {"functions": files, "sha256s": sha256s, "release": version()}


def text_of(name: str) -> bytes:
    """Return the text of a file, without the name with which :func:`read_statements` begins it."""
    return STATEMENTS[name].source.removeprefix(b"/* %s */ " % name.encode())


def checksum(name: str) -> str:
    """Return the SHA-256 of the text of a file."""
    # Git for Windows may have written CRLF at the ends of lines.
    return hashlib.sha256(text_of(name).replace(b"\r\n", b"\n")).hexdigest()


@cache
def catalogue() -> dict[str, Any]:
    """Return what a migrated database has: sequences, and tables with their parts.

    A test fails and rewrites this file when it differs from the catalogue of PostgreSQL.
    """
    found: dict[str, Any] = json.loads(SQL.joinpath("catalogue.json").read_text(encoding="utf-8"))
    return found


@cache
def schema_objects() -> dict[str, list[str]]:
    """Name the tables, sequences and functions of the schema, for status/unusable."""
    texts = b"".join(STATEMENTS[name].source for name in function_files())
    return {
        "tables": [*catalogue()["tables"]],
        "sequences": catalogue()["sequences"],
        "functions": re.findall(r"CREATE OR REPLACE FUNCTION (\w+)", texts.decode()),
    }


class UnusableObject(NamedTuple):
    """The row of an object of the service that is missing, or that this role may not use."""

    # table, sequence, function or schema.
    kind: str
    name: str
    # Null if it is missing.
    owner: str | None


class Part(NamedTuple):
    """The row of a part of a table that is missing or does not work."""

    # column, index, trigger or constraint.
    kind: str
    table_name: str
    name: str

    def __str__(self) -> str:
        name = self.name if self.kind == "index" else f"{self.table_name}.{self.name}"
        return f"{self.kind} {name}"

    @property
    def is_tolerable(self) -> bool:
        """Return whether requests that do not need the part are right without it.

        Without a trigger or a constraint, requests succeed that should not, and leave wrong rows.
        """
        return self.kind in ("column", "index")


@cache
def parts_of_tables() -> str:
    """Return the parameter ``tables`` of status/parts, which finds the parts that are missing."""
    return to_json(catalogue()["tables"])


class JsonAsBytes(Loader):
    """Loads JSON as the bytes that PostgreSQL wrote, because the service only passes them on."""

    # A list loads many, and a method of its own would cost more than this type.
    load = bytes  # type: ignore[assignment]


# How each connection of the service loads values: JSON as bytes, UUIDs as text. An object is a
# parameter of the type jsonb.
ADAPTERS = AdaptersMap(psycopg.adapters)
ADAPTERS.register_loader("json", JsonAsBytes)
ADAPTERS.register_loader("uuid", TextLoader)
ADAPTERS.register_dumper(dict, JsonbDumper)


class Page(NamedTuple):
    """The objects of one page as JSON, and the cursor of the next page, if any."""

    bodies: list[bytes]
    cursor: str | None


class NotFound(LookupError):
    """The caller can see no row of ``resource`` with this id."""

    def __init__(self, resource: str) -> None:
        super().__init__(resource)
        self.resource = resource


class Connection(psycopg.Connection[TupleRow]):
    """Runs statements by name; each method raises psycopg.Error.

    The connection is in autocommit mode: outside ``transaction()``, each statement commits by
    itself.

    ``prepare_threshold=0`` prepares each statement when it first runs, and None prepares nothing.
    After a migration has changed the type of a result, the statements are prepared again; within a
    transaction they fail.
    """

    # Seconds that statements and commits have taken since the pool gave the connection away.
    seconds: float = 0
    # True once PostgreSQL has refused a write. The session stays read-only even when the database
    # is writable again, so the pool replaces the connection.
    is_read_only = False

    # What every statement may use besides its own values.
    parameters: dict[str, object] = {}

    def run(self, name: str, /, **values: object) -> None:
        """Run ``sql/<name>.sql``, and ignore its rows."""
        self._execute(name, values)

    def rows(self, kind: type[Row], name: str, /, **values: object) -> list[Row]:
        """Run ``sql/<name>.sql``, and return all its rows."""
        return self._rows(kind, name, values)

    def page(self, name: str, /, limit: int, **values: object) -> Page:
        """Run the statement of a list, and return one page of at most ``limit`` objects.

        A row of the statement has the JSON of an object, and the cursor of a page that begins with
        it. The JSON is null if the page ends before the row, however few rows it has.
        """
        rows = self._execute(name, {"limit": limit, **values}).fetchall()
        bodies = [body for body, _ in rows[:limit] if body is not None]
        return Page(bodies, rows[len(bodies)][1] if len(bodies) < len(rows) else None)

    def row_or_none(self, kind: type[Row], name: str, /, **values: object) -> Row | None:
        """Run ``sql/<name>.sql``; return its only row, or None. A second row is a ValueError."""
        (row,) = self._rows(kind, name, values) or (None,)
        return row

    def row(self, kind: type[Row], name: str, /, **values: object) -> Row:
        """Run ``sql/<name>.sql``, and return its only row; raise NotFound if it has none.

        The folder of the statement names the resource: for tasks/get, the message is "Task not
        found".
        """
        (row,) = self._rows(kind, name, values) or (None,)
        if row is None:
            raise NotFound(singular(name.partition("/")[0]))
        return row

    @contextmanager
    def transaction(
        self, savepoint_name: str | None = None, force_rollback: bool = False
    ) -> Iterator[psycopg.Transaction]:
        """Begin a transaction, or a savepoint of an outer one, and count the time of its end."""
        with super().transaction(savepoint_name, force_rollback) as begun:
            yield begun
            ended = monotonic()
        self.seconds += monotonic() - ended

    def _rows(self, kind: type[Row], name: str, values: dict[str, object]) -> list[Row]:
        return self._execute(name, values, args_row(kind)).fetchall()

    def _execute(
        self, name: str, values: dict[str, object], row_factory: RowFactory[Any] = tuple_row
    ) -> psycopg.Cursor[Any]:
        """Run a statement with these values and the parameters of the connection.

        Values that the statement does not name are ignored: several statements get all filters,
        even if they use only some of them.

        psycopg interpolates (and escapes) the values of a statement that PostgreSQL plans for them.
        Planning takes time, but pays off for statements with many optional filters, for which a
        generic plan would be slow.
        """
        statement, values = STATEMENTS[name], {**self.parameters, **values}
        cursor: psycopg.Cursor[Any]
        if statement.is_planned_for_values:
            cursor = psycopg.ClientCursor(self, row_factory=row_factory)
            query: tuple[bytes, Any] = statement.source, values
        else:
            cursor = psycopg.RawCursor(self, row_factory=row_factory)
            query = statement.text, [values[name] for name in statement.parameters]
        began = monotonic()
        try:
            cursor.execute(*query)
        except STALE:
            # Inside a transaction, this fails as well, because the error has aborted it.
            if not statement.is_planned_for_values:
                if self.prepare_threshold is None:
                    raise
                self.execute(STATEMENTS["connection/deallocate"].source)
            cursor.execute(*query, prepare=False)
        except errors.ReadOnlySqlTransaction:
            self.is_read_only = True
            raise
        finally:
            self.seconds += monotonic() - began
        return cursor
