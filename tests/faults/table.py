"""The table of all scenarios, printed at the end of a run. docs/operations/faults.md shows one."""

import operator
from dataclasses import dataclass, field
from itertools import groupby

# A busy machine is slower, so a time fails its test only if it exceeds this many times its pass
# line. The table shows whether the time has met the line itself.
MARGIN = 5
TIMES = "s", "ms"
PROPER = {
    "json": "JSON",
    "patroni": "Patroni",
    "pgbouncer": "PgBouncer",
    "postgresql": "PostgreSQL",
    "sigterm": "SIGTERM",
}


@dataclass
class Measure:
    """One figure of a scenario, and the line that it has to meet."""

    text: str
    figure: float
    unit: str
    limit: float
    line: str
    passed: bool


@dataclass
class Scenario:
    """One test and its measures. ``reason`` says that the test failed, or why it did not run."""

    title: str
    heading: str
    measures: list[Measure] = field(default_factory=list)
    reason: str = ""

    def measure(
        self, text, figure, *, exactly=None, at_most=None, at_least=None, unit="", margin=MARGIN
    ):
        """Record a figure and fail the test if it misses its pass line; a time has a margin."""
        for sign, limit, holds in (
            ("", exactly, operator.eq),
            ("≤ ", at_most, operator.le),
            ("≥ ", at_least, operator.ge),
        ):
            if limit is not None:
                line, passed = sign + show(limit, unit), holds(figure, limit)
                self.measures.append(Measure(text, figure, unit, limit, line, passed))
                tolerated = unit in TIMES and figure <= limit * margin
                assert passed or tolerated, f"{text}: {show(figure, unit)}, pass line {line}"


def show(figure, unit):
    text = f"{figure:,.2f}" if isinstance(figure, float) else f"{figure:,}"
    return f"{text} {unit}".strip().replace(",", " ")


def title_of(name):
    words = name.partition("[")[0].removeprefix("test_").capitalize().split("_")
    return " ".join(PROPER.get(word.lower(), word) for word in words)


def total(scenario, *texts):
    """Return the sum of the measures with one of these words, or "" if there is none."""
    found = [one.figure for one in scenario.measures if any(text in one.text for text in texts)]
    return sum(found) if found else ""


def worst(scenario):
    """Return the measured time that comes closest to its pass line, with the line."""
    times = [one for one in scenario.measures if one.unit in TIMES]
    if not times:
        return ""
    one = max(times, key=lambda one: one.figure / one.limit)
    return f"{one.text}: {show(one.figure, one.unit)} ({one.line})"


def rows(scenarios):
    """Return the table in Markdown, with a row for each test, which may have several scenarios."""
    lines = ["", "| scenario | lost | doubled | worst time | |", "|---|---|---|---|---|"]
    heading = None
    for (above, title), group in groupby(scenarios, key=operator.attrgetter("heading", "title")):
        if above != heading:
            heading = above
            lines.append(f"| **{heading}** | | | | |")
        found = list(group)
        whole = Scenario(title, heading, [one for each in found for one in each.measures])
        missed = [f"**missed**: {one.text}" for one in whole.measures if not one.passed]
        reasons = [each.reason for each in found if each.reason]
        outcome = ", ".join(dict.fromkeys(reasons + missed)) or "passed"
        lost = total(whole, "lost", "did not arrive", "without an event")
        doubled = total(whole, "doubled", "arrived twice")
        lines.append(f"| {title} | {lost} | {doubled} | {worst(whole)} | {outcome} |")
    return "\n".join(lines)
