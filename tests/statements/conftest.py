"""Fixtures for statements that meet the open transaction of another connection."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest
from psycopg.rows import dict_row
from support.receivers import announce, deliveries, subscribe
from support.statements import URL, run, until_waiting


@pytest.fixture
def connect(database_url):
    opened = []

    def connect(**options):
        opened.append(psycopg.connect(database_url, row_factory=dict_row, **options))
        return opened[-1]

    yield connect
    for connection in opened:
        connection.close()


@pytest.fixture
def meanwhile(connection, connect):
    """Run a statement while the transaction of another connection blocks it; then commit that one.

    ``held`` is the other connection, or the SQL that a new connection runs to block the statement.
    The body of the ``with`` statement runs while the statement waits. The yielded list has the
    statement's rows afterwards.
    """

    @contextmanager
    def meanwhile(held, name, /, **values):
        rows, other = [], connect() if isinstance(held, str) else held
        if other is not held:
            other.execute(held)
        with connect() as late, ThreadPoolExecutor(1) as threads:
            running = threads.submit(run, late, name, **values)
            try:
                until_waiting(connection, running)
                yield rows
            finally:
                other.commit()
                try:
                    rows += running.result(20)
                except TimeoutError:
                    pytest.fail(f"sql/{name}.sql still waits, although nobody blocks it")
            late.commit()

    return meanwhile


@pytest.fixture
def after(meanwhile):
    """Return a function that runs a statement which first waits for another transaction to commit.

    It returns the rows of the statement.
    """

    def after(held, name, /, **values):
        with meanwhile(held, name, **values) as rows:
            return rows

    return after


@pytest.fixture
def delivery(connection, cast):
    subscribe(connection, cast["acme"], URL)
    announce(connection, cast["acme"])
    (row,) = deliveries(connection)
    return row
