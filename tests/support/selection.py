"""A pytest plugin: choose which tests run, and in how many processes.

The conftest.py of the project loads it for the tests of all folders.
"""

import fcntl
import gc
import os
import re
import resource
import shutil
import socket
import sys
from contextlib import suppress
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.guard import start as start_guard
from support.project import PROJECT

from service.devkit.children import end_with_parent
from service.devkit.loopback import LIBPQ, SERVERS, forget
from service.settings import PLATFORMS, Settings

# The marks of long tests, and the names of their folders. Only an expression of -m that names one
# of them selects such tests.
LONG = "proof", "faults"
# How many seconds a long test may take; one of them installs Debian.
LONG_TIMEOUT = 1500
# With SPEEDUPS=off the tests run without the package: this process cannot import it, and the
# programs that tests start get the variable.
if os.environ.get("SPEEDUPS") == "off":
    sys.modules["service.speedups"] = None
SPEEDUPS = Settings.read({}).uses_speedups
# The folders in which all tests need the speedups.
OF_SPEEDUPS = {PROJECT / "speedups", PROJECT / "tests" / "with_speedups"}
# Variables of pytest and its plugins that are read after the tests have been collected.
READ_LATER = "PYTEST_CURRENT_TEST", "PYTEST_DEBUG_TEMPROOT", "PYTEST_VERSION", "PYTEST_XDIST_"
# The packages of this project that the tests import.
PACKAGES = "service", "task_service_double", "pytest_task_service"
# The folder that the guard of this process removes.
FOLDER = pytest.StashKey[str]()
# The fixtures of services that all tests share.
SHARED_SERVICES = {"app", "webhooks_app", "silent_app"}
DESCRIPTORS = resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def pytest_addoption(parser):
    group = parser.getgroup("faults", "the scenarios of -m faults")
    group.addoption("--long", action="store_true", help="more rounds and longer outages")
    group = parser.getgroup("releases", "what tests/releases keeps")
    group.addoption("--record", metavar="VERSION", help="write what this release freezes")
    group = parser.getgroup("steadiness", "whether tests depend on each other")
    group.addoption(
        "--cut-pools",
        action="store_true",
        help="run the tests that use a shared service, and end its connections before each test",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    """Remove settings of the service, of libpq and of Python servers that the shell has set.

    SPEEDUPS stays, because programs that tests start need it too. Also let the test double make its
    database on the server that all tests use, and occupy the service's default port, which may
    belong to another program: no test can rely on it.
    """
    require_own_packages()
    with suppress(OSError):
        config.add_cleanup(socket.create_server(("127.0.0.1", Settings.read({}).port)).close)
    server = os.environ.get("TEST_DATABASE_URL")
    config.option.task_service_database = config.option.task_service_database or server
    settings = {field.name.upper() for field in fields(Settings)}
    for name in {*settings - {"SPEEDUPS"}, *(f"{name}_FILE" for name in settings), *PLATFORMS}:
        os.environ.pop(name, None)
    # TEST_DATABASE_URL may be incomplete and rely on the variables of libpq.
    forget(*SERVERS, *([] if server else [LIBPQ]))
    # Each process and program of the tests would compile all modules again.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    # Let curl and Python send requests to this machine directly, and not through a proxy.
    os.environ["no_proxy"] = "localhost,127.0.0.1,::1"
    if is_long(config):
        config.option.timeout = config.option.timeout or LONG_TIMEOUT
    else:
        config.option.markexpr = with_deselected(config)


def require_own_packages():
    """Refuse the environment of another clone, whose code the tests would test instead."""
    for name in PACKAGES:
        folder = Path(find_spec(name).origin).resolve().parent
        if PROJECT not in folder.parents:
            raise pytest.UsageError(
                f"{sys.prefix} has the package {name} of {folder}, so the tests would not test this"
                f" clone: run make setup in {PROJECT}, then .venv/bin/pytest"
            )


def is_long(config):
    """Return whether the expression of -m asks for long tests."""
    return any(re.search(rf"(?<!not )\b{mark}\b", config.option.markexpr) for mark in LONG)


def is_part(config):
    """Return whether the command line names files, folders or tests, or words of their names."""
    named = config.args_source is pytest.Config.ArgsSource.ARGS
    return named or bool(config.option.keyword) or config.getoption("lf", False)


def with_deselected(config):
    """Return the expression of -m with the marks that this run leaves out.

    It leaves out long tests, and slow ones if it is a run of the whole suite without -m.
    """
    given = config.option.markexpr
    left_out = LONG if given or is_part(config) else (*LONG, "slow")
    return " and ".join([*([f"({given})"] if given else []), *(f"not {mark}" for mark in left_out)])


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """Prepare a process that runs tests, and let one of several processes collect them first.

    The others wait, and then read the modules that it has compiled. The garbage collector would go
    again and again through what lives until the end.
    """
    # With processes of xdist, this process runs no tests.
    if getattr(session.config.option, "dist", "no") != "no":
        return (yield)
    prepare(session.config)
    gc.disable()
    try:
        with open(__file__) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                fcntl.flock(lock, fcntl.LOCK_SH)
            return (yield)
    finally:
        gc.freeze()
        gc.enable()


def prepare(config):
    """Start the guard of a process that runs tests, and remove variables that pytest has read.

    A pytest that a test starts must not get them. xdist reads its own variables later, and pytest
    the one of tmp_path.
    """
    for name in [*os.environ]:
        if name.startswith("PYTEST_") and not name.startswith(READ_LATER):
            del os.environ[name]
    if hasattr(config, "workerinput"):
        # xdist would let this process run on for seconds.
        end_with_parent()
    guard, folder = start_guard()
    config.stash[FOLDER] = folder
    config.add_cleanup(guard.communicate)


def pytest_collection_modifyitems(config, items):
    """Skip tests for which the speedups, a program or file descriptors are missing.

    The reason of the skip names what is missing. With --cut-pools, also deselect the tests that use
    no shared service.
    """
    if config.option.cut_pools:
        others = [item for item in items if not SHARED_SERVICES.intersection(item.fixturenames)]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in {*others}]
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
    has_long = collection_path.parent == PROJECT / "tests" and collection_path.name in LONG
    is_of_speedups = OF_SPEEDUPS & {collection_path, *collection_path.parents}
    return True if (has_long and not is_long(config)) or (is_of_speedups and not SPEEDUPS) else None


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    """Return how many processes run the tests; with 0, this process runs them.

    Tests spend a third of their time waiting, so three processes keep two cores busy. A part of the
    suite runs in this process, and so do the long tests, so that breakpoints work.
    """
    if is_part(config) or is_long(config):
        return 0
    # Each process starts its own PostgreSQL, so there is an upper limit.
    return min((os.cpu_count() or 1) * 3 // 2, 12)
