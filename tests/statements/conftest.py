"""Other connections, whose transactions are in the way."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest
from psycopg.rows import dict_row
from support.receivers import announce, deliveries, subscribe
from support.statements import URL, run, until_waiting


@pytest.fixture
def connect(database_url):
    """Return a function that opens one more connection."""
    opened = []

    def connect(**options):
        opened.append(psycopg.connect(database_url, row_factory=dict_row, **options))
        return opened[-1]

    yield connect
    for connection in opened:
        connection.close()


@pytest.fixture
def meanwhile(connection, connect):
    """Run a statement while the transaction of ``other`` holds it up; then commit that one."""

    @contextmanager
    def meanwhile(other, name, **values):
        rows = []
        with connect() as late, ThreadPoolExecutor(1) as threads:
            running = threads.submit(run, late, name, **values)
            try:
                until_waiting(connection, running)
                yield rows
            finally:
                other.commit()
                rows += running.result(20)
            late.commit()

    return meanwhile


@pytest.fixture
def delivery(connection, cast):
    """A due delivery of Acme, with its event and its webhook."""
    subscribe(connection, cast["acme"], URL)
    announce(connection, cast["acme"])
    (row,) = deliveries(connection)
    return row
