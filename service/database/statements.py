"""The statements: one SQL file each, run by libpq without a cursor of psycopg.

Only ``db.row_client_bound``, migrate and ``workspace export`` use a cursor, which does more. One
RawCursor for each statement, with ``prepare=True``, takes 19 % more of a list of one task. Without
a cursor, this module alone uses what psycopg makes its own of: ``Transformer``, a documented class
with the methods of ``psycopg.abc``, and ``error_from_result``, which is not documented.
"""

import json
import re
from datetime import datetime
from functools import cache
from pathlib import Path
from time import monotonic
from typing import NamedTuple, TypeVar

import psycopg
from psycopg import abc, errors
from psycopg.adapt import Buffer, Loader, PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.pq import DiagnosticField, ExecStatus, Format
from psycopg.pq.abc import PGresult
from psycopg.rows import TupleRow

# The wheel contains this folder; in a checkout it is a symbolic link to ../sql.
SQL = (Path(__file__).parents[1] / "sql").resolve()

PARAMETER = re.compile(rb"%\((\w+)\)s")

SUCCESS = ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK

# The errors of a prepared statement whose result has got another type, by a migration, or that a
# connection pooler has dropped.
STALE = errors.FeatureNotSupported, errors.InvalidSqlStatementName

# The SQLSTATE of a write that a read-only session refuses.
READ_ONLY = b"25006"

# A row is a NamedTuple: its members are the columns of the statement, in order.
Row = TypeVar("Row", bound=NamedTuple)


class IdRow(NamedTuple):
    """The row of a statement that returns only the id of what it has created or changed."""

    id: str


def to_json(value: object) -> str:
    """Write a value as JSON text without spaces, as PostgreSQL writes that of responses."""
    return json.dumps(value, default=datetime.isoformat, separators=(",", ":"))


class Statement:
    """The text of a file for PREPARE: ``$1`` in place of ``%(name)s``."""

    def __init__(self, name: str, source: bytes) -> None:
        # The name of the prepared statement.
        self.name = name.encode()
        self.source = source
        self.parameters = list(dict.fromkeys(match.decode() for match in PARAMETER.findall(source)))
        numbers = {name.encode(): number for number, name in enumerate(self.parameters, 1)}
        self.text = PARAMETER.sub(lambda match: b"$%d" % numbers[match[1]], source).replace(
            b"%%", b"%"
        )
        # All parameters are sent as text; the casts in the statement name their types.
        self.formats = [PyFormat.TEXT] * len(self.parameters)


def read_statements(folder: Path) -> dict[str, Statement]:
    """Read the statements of all files in a folder, by their paths there without ``.sql``.

    Each begins with its name, ``/* tasks/list */``, by which pg_stat_statements, pg_stat_activity
    and the log of PostgreSQL show it.
    """
    return {
        name: Statement(name, b"/* %s */ " % name.encode() + path.read_bytes())
        for path in sorted(folder.rglob("*.sql"))
        for name in [str(path.relative_to(folder).with_suffix(""))]
    }


# Loaded at import, so an upgrade on disk changes nothing here. The test double adds its own.
STATEMENTS = read_statements(SQL)


@cache
def migrations() -> list[str]:
    return [name.removeprefix("schema/") for name in STATEMENTS if name.startswith("schema/")]


@cache
def schema_objects() -> dict[str, list[str]]:
    """Name what the migrations create, and the table of migrations, for status/unusable."""
    sources = b"".join(STATEMENTS[f"schema/{name}"].source for name in migrations())
    found = re.findall(rb"(?m)^CREATE (?:UNLOGGED )?(TABLE|SEQUENCE|FUNCTION) (\w+)", sources)
    objects = {"tables": ["schema_migrations"], "sequences": [], "functions": []}
    for kind, name in found:
        objects[f"{kind.decode().lower()}s"].append(name.decode())
    return objects


class UnusableObject(NamedTuple):
    """The row of an object of the service that is missing, or that this role may not use."""

    # table, sequence, function or schema.
    kind: str
    name: str
    # Null if it is missing.
    owner: str | None


class JsonAsBytes(Loader):
    """Loads JSON as the bytes that PostgreSQL wrote; the service parses no JSON of a response."""

    def load(self, data: Buffer) -> bytes:
        return bytes(data)


def single_row(rows: list[Row]) -> Row | None:
    """Take the only row, or None; raises ValueError if there are more."""
    (row,) = rows or (None,)
    return row


class Connection(psycopg.Connection[TupleRow]):
    """Runs statements by name; JSON is loaded as bytes and UUIDs as text.

    Each method raises psycopg.Error. ``prepare_threshold=None`` prepares nothing. A migration that
    changes the type of a result fails no prepared statement, except within a transaction.
    """

    # When the pool got this connection from psycopg_pool, by ``monotonic()``.
    taken_at: float = 0
    # Seconds that statements and commits have taken since the pool gave the connection away.
    seconds: float = 0
    # True once PostgreSQL has refused a write. A session keeps a setting of its role or database.
    is_read_only = False

    _transformer: abc.Transformer | None = None
    # The statements that the server has prepared on this connection.
    _named: set[bytes] = set()

    def row(self, kind: type[Row], name: str, values: dict[str, object]) -> Row | None:
        return single_row(self.rows(kind, name, values))

    def rows(self, kind: type[Row], name: str, values: dict[str, object]) -> list[Row]:
        rows, number = self._run(name, values)
        return rows.load_rows(0, number, kind._make)

    def run(self, name: str, values: dict[str, object]) -> int:
        return self._run(name, values)[1]

    def _run(self, name: str, values: dict[str, object]) -> tuple[abc.Transformer, int]:
        statement, libpq, began = STATEMENTS[name], self.pgconn, monotonic()
        transformer = self._transformer or self._new_transformer()
        parameters = transformer.dump_sequence(
            [values[name] for name in statement.parameters], statement.formats
        )
        if self.prepare_threshold is None:
            found = libpq.exec_params(statement.text, parameters)
        else:
            if statement.name not in self._named:
                self._check(libpq.prepare(statement.name, statement.text))
                self._named.add(statement.name)
            found = libpq.exec_prepared(statement.name, parameters)  # type: ignore[arg-type]
        self.seconds += monotonic() - began
        try:
            self._check(found)
        except STALE:
            if self.prepare_threshold is None:
                raise
            # The next statement deallocates all; this one runs once more, without a name. Within a
            # transaction, which the error has ended, that fails too.
            self._transformer = None
            found = libpq.exec_params(statement.text, parameters)
            self._check(found)
        transformer.set_pgresult(found)
        return transformer, found.ntuples

    def _new_transformer(self) -> abc.Transformer:
        self.adapters.register_loader("json", JsonAsBytes)
        text = self.adapters.get_loader(self.adapters.types["text"].oid, Format.TEXT)
        if text:
            self.adapters.register_loader("uuid", text)
        if self._named:
            self._check(self.pgconn.exec_(STATEMENTS["connection/deallocate"].text))
        self._named = set()
        # A transformer caches how to dump and load each type.
        self._transformer = transformer = Transformer(self)
        return transformer

    def _check(self, result: PGresult) -> None:
        """Raise the error of the server; an error without an SQLSTATE means a lost connection."""
        if result.status not in SUCCESS:
            sqlstate = result.error_field(DiagnosticField.SQLSTATE)
            if sqlstate is None:
                raise psycopg.OperationalError("the connection to the database is lost")
            self.is_read_only = sqlstate == READ_ONLY
            raise error_from_result(result)
