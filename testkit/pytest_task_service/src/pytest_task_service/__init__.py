"""The pytest plugin: the fixture ``task_service`` is the real service, reset before each test.

The plugin imports nothing from the service, so the service can be installed in another environment.
The project under test may need other versions of the libraries, or have its own package named
``service``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import pytest

from pytest_task_service.client import Post, Request, Service, Snapshot, User, Webhooks, Workspace
from pytest_task_service.process import VARIABLE, Command

__all__ = ["Post", "Request", "Service", "Snapshot", "User", "Webhooks", "Workspace"]

# pytest leaves the frames of this module out of tracebacks.
__tracebackhide__ = True

DATABASE = "TASK_SERVICE_DATABASE_URL"
# The key under which a worker of pytest-xdist sends its figures to the controller.
OUTPUT = "task_service"

figures: dict[str, Any] = {"start": [], "reset": [], "version": ""}
# The service of a test, and the size of its log before the test.
used = pytest.StashKey[Any]()
# The messages of failed starts, each with the number of reports that have it so far: pytest reports
# the same error for every test.
failed_starts: dict[str, int] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("task-service")
    group.addoption(
        "--task-service-command",
        metavar="COMMAND",
        help="how to start the service, like --task-service-command=/opt/double/bin/task-service"
        f" [default: {VARIABLE}, else task-service of this environment, else on PATH]",
    )
    group.addoption(
        "--task-service-database",
        metavar="URL",
        help="PostgreSQL server on which the fixture 'task_service' makes its database"
        f" [default: {DATABASE}, else an embedded server]",
    )


def pytest_report_header(config: pytest.Config) -> str:
    """Return a line with the command. The version is known only after the start."""
    try:
        command = Command.find(config.getoption("task_service_command"), *folders(config))
        return f"task-service: {command}"
    except RuntimeError as error:
        return f"task-service: {error}"


def folders(config: pytest.Config) -> tuple[Path, Path]:
    """Return the folders in which the plugin looks for a relative path of the command.

    In a project without a configuration file, pytest may take the folder of the command for its
    root. So the folder in which pytest was started counts as well.
    """
    return config.rootpath, config.invocation_params.dir


@pytest.fixture(scope="session")
def service_environment() -> dict[str, str]:
    """Return settings of the service as environment variables. A project overrides this fixture."""
    return {}


@pytest.fixture(scope="session")
def task_service_running(
    request: pytest.FixtureRequest, service_environment: dict[str, str]
) -> Iterator[Service]:
    """Yield the running service, one for each worker of pytest-xdist."""
    began, reason = perf_counter(), ""
    try:
        running = Service.start(
            request.config.getoption("task_service_command"),
            folders=folders(request.config),
            database=request.config.getoption("task_service_database") or os.environ.get(DATABASE),
            environment=service_environment,
        )
    except RuntimeError as error:
        reason = str(error)
    if reason:
        # Outside of the except block, because pytest would print both errors with the same text.
        failed_starts[reason] = 0
        pytest.fail(reason, pytrace=False)
    figures["start"].append(perf_counter() - began)
    figures["version"] = running.version
    with running:
        yield running


@pytest.fixture
def task_service(request: pytest.FixtureRequest, task_service_running: Service) -> Service:
    """Return the service in its initial state: an owner, a member, a stranger and a webhook."""
    began = perf_counter()
    task_service_running.reset()
    figures["reset"].append(perf_counter() - began)
    process = task_service_running.process
    assert process is not None  # noqa: S101
    request.node.stash[used] = task_service_running, process.log_size()
    return task_service_running


@pytest.fixture
def service(task_service: Service) -> Service:
    """Return ``task_service`` under a shorter name, which a project may use for another fixture."""
    return task_service


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Add to the report of a failed test the faults that still wait for a request, and the log."""
    outcome: Any = yield
    report = outcome.get_result()
    message = str(call.excinfo.value) if call.excinfo else ""
    if message in failed_starts:
        if failed_starts[message]:
            report.longrepr = "task-service did not start; the first error says why"
        failed_starts[message] += 1
    if report.failed and used in item.stash:
        service: Service
        service, size = item.stash[used]
        unmet = describe_unmet(service)
        if unmet:
            report.sections.append(("Faults that wait for a request, and seeds", unmet))
        assert service.process is not None  # noqa: S101
        report.sections.append(("Log of the service", service.process.log(size)))


def describe_unmet(service: Service) -> str:
    """Return a line for each fault that still waits for a request, or has a seed.

    Return "" if the service has ended.
    """
    try:
        unmet = service.unmet_faults
    except Exception:
        return ""
    return "\n".join(
        " ".join(f"{name}={value!r}" for name, value in fault.items() if value is not None)
        for fault in unmet
    )


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send the figures of a pytest-xdist worker to the controller."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[OUTPUT] = figures


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Add the figures of a pytest-xdist worker that has ended to the figures of all."""
    sent = getattr(node, "workeroutput", {}).get(OUTPUT, figures)
    if sent is not figures:
        figures["start"] += sent["start"]
        figures["reset"] += sent["reset"]
        figures["version"] = sent["version"] or figures["version"]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the version of the service and the times of its starts and resets."""
    if figures["reset"]:
        terminalreporter.write_line(
            f"task-service {figures['version']}: started in {max(figures['start']):.1f} s, reset"
            f" {len(figures['reset'])} times in {1000 * median(figures['reset']):.0f} ms each"
            " (median)"
        )
