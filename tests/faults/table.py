"""The table of all measures: printed at the end, and written to docs/faults.md."""

import operator
import os
import platform
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

# A busy machine is slower: a time fails its test only beyond so many times its pass line. The table
# shows whether it has met the line itself.
MARGIN = 5
TIMES = "s", "ms"
PROPER = {
    "patroni": "Patroni",
    "pgbouncer": "PgBouncer",
    "postgresql": "PostgreSQL",
    "sigterm": "SIGTERM",
}

PAGE = Path(__file__).with_name("page.md")


@dataclass
class Measure:
    """One figure of a scenario, and the line that it has to meet."""

    text: str
    line: str
    shown: str
    passed: bool


@dataclass
class Scenario:
    """One test and its measures; ``reason`` if it did not run or failed."""

    title: str
    heading: str
    measures: list[Measure] = field(default_factory=list)
    reason: str = ""

    def measure(self, text, figure, *, exactly=None, at_most=None, at_least=None, unit=""):
        """Record a figure and fail the test if it misses its pass line; a time has a margin."""
        for sign, limit, holds in (
            ("", exactly, operator.eq),
            ("≤ ", at_most, operator.le),
            ("≥ ", at_least, operator.ge),
        ):
            if limit is not None:
                line, passed = sign + show(limit, unit), holds(figure, limit)
                self.measures.append(Measure(text, line, show(figure, unit), passed))
                tolerated = unit in TIMES and figure <= limit * MARGIN
                assert passed or tolerated, f"{text}: {show(figure, unit)}, pass line {line}"
                return
        self.measures.append(Measure(text, "", show(figure, unit), True))


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
    """docs/faults.md."""
    return PAGE.read_text(encoding="utf-8").format(
        options=options,
        date=datetime.now(UTC).date(),
        cores=os.cpu_count(),
        load=load,
        versions=", ".join(versions()),
        margin=MARGIN,
        rows=rows(scenarios),
    )


def versions():
    """Everything that takes part, with its version."""
    yield f"Python {platform.python_version()}"
    for name in ("gunicorn", "psycopg"):
        yield f"{name} {metadata.version(name)}"
    # The embedded PostgreSQL of the extra `contribute`, and the one of the system.
    from faults.cluster import installed_version

    yield "PostgreSQL 18 (embedded)"
    if found := installed_version():
        yield f"PostgreSQL {found} (pair, Patroni)"
    for name, *arguments in (
        ("nginx", "-v"),
        ("haproxy", "-v"),
        ("pgbouncer", "--version"),
        ("patroni", "--version"),
        ("etcd", "--version"),
        ("slowhttptest", "-h"),
    ):
        if shutil.which(name):
            ran = subprocess.run([name, *arguments], capture_output=True, text=True)
            found = re.search(r"\d+\.\d+[.\d]*", ran.stdout + ran.stderr)
            yield f"{name} {found[0]}" if found else name
