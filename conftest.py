"""For all tests: choose which tests run and in how many processes, and provide a PostgreSQL."""

import os
import resource
import shutil
import sys
import tempfile
from dataclasses import fields

import psycopg
import pytest
from support.project import PROJECT
from support.statements import new_database

from service.devkit.loopback import LIBPQ, SERVERS, forget
from service.settings import PLATFORMS, Settings

# The marks of long tests, and the names of their folders. The options in setup.cfg deselect them.
LONG = {"proof", "faults"}
# How many seconds a long test may take; one of them installs Debian.
LONG_TIMEOUT = 1500
# With SPEEDUPS=off the tests run without the package: this process cannot import it, and the
# programs that tests start get the variable.
if os.environ.get("SPEEDUPS") == "off":
    sys.modules["speedups"] = None
SPEEDUPS = Settings.read({}).uses_speedups
# The folders in which all tests need the speedups.
OF_SPEEDUPS = {PROJECT / "speedups", PROJECT / "tests" / "with_speedups"}
DESCRIPTORS = resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def pytest_addoption(parser):
    group = parser.getgroup("faults", "the scenarios of -m faults")
    group.addoption("--long", action="store_true", help="more rounds and longer outages")
    group = parser.getgroup("releases", "what tests/releases keeps")
    group.addoption("--record", metavar="VERSION", help="write what this release freezes")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    """Remove settings of the service, of libpq and of Python servers that the shell has set.

    SPEEDUPS stays, because programs that tests start need it too. Also let the test double make its
    database on the server that all tests use.
    """
    server = os.environ.get("TEST_DATABASE_URL")
    config.option.task_service_database = config.option.task_service_database or server
    settings = {field.name.upper() for field in fields(Settings)}
    for name in {*settings - {"SPEEDUPS"}, *(f"{name}_FILE" for name in settings), *PLATFORMS}:
        os.environ.pop(name, None)
    # TEST_DATABASE_URL may be incomplete and rely on the variables of libpq.
    forget(*SERVERS, *([] if server else [LIBPQ]))
    # Let curl and Python send requests to this machine directly, and not through a proxy.
    os.environ["no_proxy"] = "localhost,127.0.0.1,::1"
    if not is_short(config):
        config.option.timeout = config.option.timeout or LONG_TIMEOUT


def pytest_collection_modifyitems(items):
    """Skip tests for which the speedups, a program or file descriptors are missing.

    The reason of the skip names what is missing.
    """
    for item in items:
        marks = [*item.iter_markers("needs")]
        missing = [name for mark in marks for name in mark.args if not shutil.which(name)]
        if any(mark.kwargs.get("descriptors", 0) > DESCRIPTORS for mark in marks):
            missing.append(f"a limit of more than {DESCRIPTORS} file descriptors")
        if not SPEEDUPS and item.get_closest_marker("speedups"):
            missing.append("the package speedups")
        if missing:
            item.add_marker(pytest.mark.skip(reason=f"{' and '.join(missing)} is missing"))
        if os.geteuid() != 0 and (root := item.get_closest_marker("root")):
            item.add_marker(pytest.mark.skip(reason=f"only root {root.args[0]}"))


def pytest_ignore_collect(collection_path, config):
    """Ignore files whose tests would all be deselected, or need speedups that are missing."""
    is_long = collection_path.parent == PROJECT / "tests" and collection_path.name in LONG
    is_of_speedups = collection_path in OF_SPEEDUPS
    return True if (is_long and is_short(config)) or (is_of_speedups and not SPEEDUPS) else None


def is_short(config):
    """Return whether this run has the mark expression of setup.cfg, which deselects long tests."""
    return config.option.markexpr in config.getini("addopts")


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    """Return how many processes run the tests; with 0, this process runs them.

    Tests spend a third of their time waiting, so three processes keep two cores busy. A part of the
    suite runs in this process, and so do the long tests, so that breakpoints work.
    """
    option = config.option
    named = config.args_source is pytest.Config.ArgsSource.ARGS
    if named or option.keyword or not is_short(config):
        return 0
    # Each process starts its own PostgreSQL, so there is an upper limit.
    return min((os.cpu_count() or 1) * 3 // 2, 12)


@pytest.fixture(scope="session")
def database_url():
    """Yield a new, migrated database on the server of TEST_DATABASE_URL or an embedded one."""
    server = os.environ.get("TEST_DATABASE_URL")
    if server:
        yield from new_database(server)
        return
    from service.devkit import postgres as embedded

    with tempfile.TemporaryDirectory(prefix="service-tests-", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o711)
        postgres = embedded.start(folder)
        with psycopg.connect(postgres.get_uri(), autocommit=True) as connection:
            # Nobody needs the data after a crash of the machine, so do not wait for the disk.
            connection.execute("ALTER SYSTEM SET fsync = off")
            connection.execute("SELECT pg_reload_conf()")
        yield from new_database(postgres.get_uri())
        postgres.cleanup()
