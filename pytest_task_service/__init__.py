"""The pytest plugin: the fixture ``service`` is the real service, clean for each test.

It imports nothing of the package ``service``: the project under test may have one of that name.
"""

import os
from collections.abc import Generator, Iterator
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import pytest

from pytest_task_service.client import Service, User, Webhooks, Workspace
from pytest_task_service.process import Process

__all__ = ["Service", "User", "Webhooks", "Workspace"]

DATABASE = "TASK_SERVICE_DATABASE_URL"

figures: dict[str, list[float]] = {"start": [], "reset": []}
log = pytest.StashKey[tuple[Path, int]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.getgroup("task-service").addoption(
        "--task-service-database",
        metavar="URL",
        help="PostgreSQL server on which the fixture 'service' makes its database"
        f" [default: {DATABASE}, else an embedded server]",
    )


@pytest.fixture(scope="session")
def service_environment() -> dict[str, str]:
    """Settings of the service as environment variables; override it to change some."""
    return {}


@pytest.fixture(scope="session")
def service_process(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    service_environment: dict[str, str],
) -> Iterator[tuple[Process, Service]]:
    """The running service, one for each process of pytest-xdist."""
    began = perf_counter()
    process = Process(
        tmp_path_factory.mktemp("task-service") / "log",
        service_environment,
        request.config.getoption("task_service_database") or os.environ.get(DATABASE),
    )
    try:
        running = process.wait()
        figures["start"].append(perf_counter() - began)
        yield process, running
    finally:
        process.stop()


@pytest.fixture
def service(request: pytest.FixtureRequest, service_process: tuple[Process, Service]) -> Service:
    """The service with nothing in it but the cast: an owner, a member, a stranger, a webhook."""
    process, running = service_process
    began = perf_counter()
    running.reset()
    figures["reset"].append(perf_counter() - began)
    request.node.stash[log] = process.log, process.log.stat().st_size
    return running


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Show what the service logged during a test that failed, or the fixtures around it."""
    report = yield
    if report.failed and log in item.stash:
        path, size = item.stash[log]
        with path.open("rb") as file:
            file.seek(size)
            report.sections.append(("Log of the service", file.read().decode(errors="replace")))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what the service cost."""
    if figures["reset"]:
        terminalreporter.write_line(
            f"task-service: started in {figures['start'][0]:.1f} s, reset {len(figures['reset'])}"
            f" times in {1000 * median(figures['reset']):.0f} ms each (median)"
        )
