"""Runs statements with libpq directly, without a cursor of psycopg.

This module relies on two things that psycopg does not document: ``error_from_result``, and that one
``Transformer``, a class with the methods of ``psycopg.abc``, serves all statements of a connection.
"""

from time import monotonic
from typing import cast

import psycopg
from psycopg import abc
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.pq import DiagnosticField, ExecStatus
from psycopg.pq.abc import PGresult

from service.database import statements
from service.database.statements import STALE, STATEMENTS, Page, Row

SUCCESS = ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK

# The SQLSTATE of a write that a read-only session refuses.
READ_ONLY = b"25006"


class Prepared:
    """The arguments with which psycopg calls libpq to prepare and run a statement."""

    def __init__(self, name: str) -> None:
        statement = STATEMENTS[name]
        self.name, self.text = name.encode(), statement.text
        self.parameters = statement.parameters
        # All parameters are sent as text; PostgreSQL finds their types in the statement.
        self.formats = [PyFormat.TEXT] * len(self.parameters)


class AllPrepared(dict[str, Prepared]):
    """All statements that have run in this process, by their names."""

    def __missing__(self, name: str) -> Prepared:
        self[name] = prepared = Prepared(name)
        return prepared


PREPARED = AllPrepared()


class Connection(statements.Connection):
    """A connection whose named statements need no cursor."""

    _transformer: abc.Transformer | None = None
    # The statements that the server has prepared on this connection.
    _named: set[bytes] = set()

    def _rows(self, kind: type[Row], name: str, values: dict[str, object]) -> list[Row]:
        if STATEMENTS[name].is_planned_for_values:
            return super()._rows(kind, name, values)
        rows, number = self._run(name, values)
        return rows.load_rows(0, number, kind._make)

    def page(self, name: str, /, limit: int, **values: object) -> Page:
        """Take the bytes from libpq, because loaders and a tuple for each row cost more."""
        if STATEMENTS[name].is_planned_for_values:
            return super().page(name, limit, **values)
        transformer, number = self._run(name, {"limit": limit, **values})
        value = cast(PGresult, transformer.pgresult).get_value
        rows = [value(row, 0) for row in range(min(number, limit))]
        bodies = [body for body in rows if body is not None]
        cursor = value(len(bodies), 1) if len(bodies) < number else None
        return Page(bodies, None if cursor is None else cursor.decode())

    def run(self, name: str, /, **values: object) -> None:
        self._run(name, values)

    def _run(self, name: str, values: dict[str, object]) -> tuple[abc.Transformer, int]:
        statement, libpq, began = PREPARED[name], self.pgconn, monotonic()
        transformer = self._transformer or self._new_transformer()
        values = {**self.parameters, **values}
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
            # Run this statement once more, without a name; the next statement deallocates all
            # prepared statements. Within a transaction the repetition fails too, because the error
            # has aborted the transaction.
            self._transformer = None
            found = libpq.exec_params(statement.text, parameters)
            self._check(found)
        transformer.set_pgresult(found)
        return transformer, found.ntuples

    def _new_transformer(self) -> abc.Transformer:
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
            if sqlstate == READ_ONLY:
                self.is_read_only = True
            raise error_from_result(result)
