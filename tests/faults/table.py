"""The table of what the scenarios have measured: printed at the end, and docs/faults.md."""

import os
import platform
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata

# A busy machine is slower: a time fails its test only beyond so many times its pass line. The table
# shows whether it has met the line itself.
MARGIN = 5
TIMES = "s", "ms"
PROPER = {"postgresql": "PostgreSQL", "pgbouncer": "PgBouncer", "sigterm": "SIGTERM"}

INTRODUCTION = """\
# Faults

Each scenario runs the web processes and the worker by the lines of the [Procfile](../Procfile), breaks something under load, and
compares what clients, receivers and the database have with a pass line. `.venv/bin/pytest -m faults` runs them in less than four
minutes; `--long` runs more rounds and longer outages; `--soak 30` adds half an hour of load. This page was written by

    .venv/bin/pytest -m faults {options}--table docs/faults.md

on {date}, on {cores} cores with a load average of {load:.1f} before: {versions}.

A scenario whose program is missing is not run, and its line says so. A count fails the test as soon as it misses its pass line.
A time fails it at {margin} times the pass line, because other work slows a machine; then the outcome says *missed*.

"Acknowledged" is a write whose response was 201. "Doubled" is a task that exists twice for one request, or an event that arrives
twice without a fault.
"""

ELSEWHERE = """
## In the ordinary tests

| scenario | test |
|---|---|
| Receivers that drip, send a gigabyte, redirect, reset, fail in TLS or answer 410 | [test_outbound.py](../tests/webhooks/test_outbound.py), [test_worker.py](../tests/webhooks/test_worker.py) |
| A webhook that fails past WEBHOOK_DISABLE_AFTER is disabled, one with a success is not | [test_worker.py](../tests/webhooks/test_worker.py) |
| Destinations that are not public, in every spelling, and by a name that changes its address | [test_outbound.py](../tests/webhooks/test_outbound.py) |
| An event that fails among others keeps its whole schedule | [test_worker.py](../tests/webhooks/test_worker.py) |
| Ids of other workspaces are 404 on every route | [test_tenants.py](../tests/test_tenants.py) |
| Writes from other sites by cookie are 403 or 415 | [test_gate.py](../tests/http/test_gate.py) |
| 61 malformed requests, odd paths, headers and bodies | [test_configuration.py](../tests/gunicorn/test_configuration.py), [test_hostile.py](../tests/proof/test_hostile.py) |
"""  # noqa: E501


@dataclass
class Measure:
    """One figure of a scenario, and the line that it has to meet."""

    text: str
    line: str
    shown: str
    passed: bool


@dataclass
class Scenario:
    """What one test has measured; ``reason`` if it did not run or failed."""

    title: str
    heading: str
    measures: list[Measure] = field(default_factory=list)
    reason: str = ""

    def measure(self, text, figure, *, at_most=None, at_least=None, unit=""):
        """Record a figure and fail the test if it misses its pass line; a time has a margin."""
        if at_most is None and at_least is None:
            self.measures.append(Measure(text, "", show(figure, unit), True))
            return
        limit = at_most if at_least is None else at_least
        passed = figure <= limit if at_least is None else figure >= limit
        sign = "≤ " if at_least is None else "≥ "
        line = ("" if limit == 0 and at_least is None else sign) + show(limit, unit)
        self.measures.append(Measure(text, line, show(figure, unit), passed))
        if unit in TIMES:
            passed = figure <= limit * MARGIN
        assert passed, f"{text}: {show(figure, unit)}, pass line {line}"


def show(figure, unit):
    text = f"{figure:,.2f}" if isinstance(figure, float) else f"{figure:,}"
    return f"{text} {unit}".strip().replace(",", " ")


def title_of(name):
    """The claim that the name of a test is."""
    words = name.partition("[")[0].removeprefix("test_").capitalize().split("_")
    return " ".join(PROPER.get(word.lower(), word) for word in words)


def rows(scenarios):
    """The table in Markdown, a heading for each module."""
    lines, heading = [], None
    for scenario in scenarios:
        if scenario.heading != heading:
            heading = scenario.heading
            lines += ["", f"## {heading}", "", "| scenario | measure | pass line | measured | |"]
            lines += ["|---|---|---|---|---|"]
        title = scenario.title
        for one in scenario.measures:
            outcome = ("passed" if one.passed else "**missed**") if one.line else ""
            lines.append(f"| {title} | {one.text} | {one.line} | {one.shown} | {outcome} |")
            title = ""
        if scenario.reason:
            lines.append(f"| {title} | | | {scenario.reason} | |")
    return "\n".join(lines)


def page(scenarios, *, options, load):
    return (
        INTRODUCTION.format(
            options=options,
            date=datetime.now(UTC).date(),
            cores=os.cpu_count(),
            load=load,
            versions=", ".join(versions()),
            margin=MARGIN,
        )
        + rows(scenarios)
        + "\n"
        + ELSEWHERE
    )


def versions():
    """Everything that takes part, with its version."""
    yield f"Python {platform.python_version()}"
    for name in ("gunicorn", "psycopg"):
        yield f"{name} {metadata.version(name)}"
    # The embedded PostgreSQL of the extra `test`, and the one of the system.
    from faults.cluster import installed_version

    yield "PostgreSQL 18 (embedded)"
    if found := installed_version():
        yield f"PostgreSQL {found} (pair)"
    for name, *arguments in (
        ("nginx", "-v"),
        ("haproxy", "-v"),
        ("pgbouncer", "--version"),
        ("slowhttptest", "-h"),
    ):
        if shutil.which(name):
            ran = subprocess.run([name, *arguments], capture_output=True, text=True)
            found = re.search(r"\d+\.\d+[.\d]*", ran.stdout + ran.stderr)
            yield f"{name} {found[0]}" if found else name
