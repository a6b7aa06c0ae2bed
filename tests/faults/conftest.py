"""A PostgreSQL that scenarios may kill, and the table of what the scenarios have measured."""

import os
import tempfile
from contextlib import ExitStack

import psycopg
import pytest
from faults.table import Scenario, rows, title_of
from psycopg.rows import dict_row
from support.receivers import subscribe

from service.commands.migrate import migrate
from service.devkit import postgres as embedded
from service.settings import Settings

SCENARIOS = pytest.StashKey()


def pytest_collection_modifyitems(config, items):
    config.stash.setdefault(SCENARIOS, {})


def scenario_of(item):
    scenarios = item.config.stash[SCENARIOS]
    heading = item.module.__doc__.splitlines()[0].removesuffix(".")
    title = title_of(item.name)
    return scenarios.setdefault(item.nodeid, Scenario(title, heading))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.skipped:
        scenario_of(item).reason = f"not run: {report.longrepr[2].removeprefix('Skipped: ')}"
    elif report.failed:
        scenario_of(item).reason = "**failed**"
    return report


def pytest_terminal_summary(terminalreporter, config):
    if scenarios := config.stash.get(SCENARIOS, {}):
        terminalreporter.section("faults")
        terminalreporter.line(rows(scenarios.values()))


@pytest.fixture
def measure(request):
    """Return a function that records a figure of the scenario and asserts its pass line."""
    return scenario_of(request.node).measure


@pytest.fixture
def rounds(request):
    """Return a function that chooses the first value, or the second one with ``--long``."""
    return lambda short, long: long if request.config.option.long else short


@pytest.fixture(scope="session")
def postgres():
    """Yield a server that scenarios may stop, kill and freeze."""
    with tempfile.TemporaryDirectory(
        prefix="service-faults-", ignore_cleanup_errors=True
    ) as folder:
        os.chmod(folder, 0o711)
        server = embedded.Postgres(folder).start()
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            # The data need not survive a crash of the machine, and recovery should be short.
            connection.execute("ALTER SYSTEM SET fsync = off")
            connection.execute("ALTER SYSTEM SET max_wal_size = '64MB'")
            connection.execute("SELECT pg_reload_conf()")
        yield server
        server.close()


@pytest.fixture(scope="session")
def database_url(postgres):
    url = postgres.get_uri()
    migrate(Settings.read({"DATABASE_URL": url}))
    return url


@pytest.fixture
def connection(database_url):
    """Yield a connection of the tests; it breaks in scenarios that stop the server."""
    with psycopg.connect(database_url, autocommit=True, row_factory=dict_row) as connection:
        yield connection


@pytest.fixture
def reconnect(database_url):
    options = {"autocommit": True, "row_factory": dict_row, "connect_timeout": 5}
    with ExitStack() as stack:
        yield lambda: stack.enter_context(psycopg.connect(database_url, **options))


@pytest.fixture(autouse=True)
def plan(connection, cast):
    connection.execute(
        "INSERT INTO plans (name, per_minute) VALUES ('Faults', 10000000) ON CONFLICT DO NOTHING"
    )
    connection.execute("UPDATE workspaces SET plan = 'Faults'")
    connection.execute("UPDATE workspaces SET version = 1")


@pytest.fixture
def subscribed(connection, cast, receiver):
    """Subscribe the receiver to task.created of Acme; return the id of the webhook."""
    return subscribe(connection, cast["acme"], receiver.url, "task.created")
