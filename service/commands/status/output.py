"""The three forms of ``task-service status``: a page to read, JSON, and Prometheus metrics."""

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path

from service.commands.base import json_of, printable
from service.commands.status.section import Section
from service.values.types import camel_case
from service.version import build

# The only metric with several series per set of labels: buckets, sum and count.
HISTOGRAM = "request_duration_seconds"


def page(status: Section) -> Iterator[str]:
    """Yield the lines of the page, then the notes, then one line for each problem."""
    lines = [*status.lines, *(("note", note) for note in status.notes)]
    for name, text in [*lines, *(("PROBLEM", str(problem)) for problem in status.problems)]:
        yield f"{name:<14}{printable(text)}"


def document(status: Section) -> str:
    figures = {camel_case(name): json_of(value) for name, value in status.figures.items()}
    notes = [{"text": note} for note in status.notes]
    found = [{"text": text, "remedy": remedy or None} for text, remedy, _ in status.problems]
    return json.dumps({**figures, "notes": notes, "problems": found}, indent=1)


def metrics(status: Section, *, up: bool) -> Iterator[str]:
    """Yield the lines of each metric for the textfile collector: HELP, TYPE and the numbers."""
    helps = tomllib.loads(Path(__file__).with_name("metrics.toml").read_text(encoding="utf-8"))
    version = f'build_info{{version="{build()}"}}'
    numbers = {"up": up, "problems": len(status.problems), version: 1, **status.metrics}
    described = ""
    for name, number in numbers.items():
        family, kind = name.partition("{")[0], "gauge"
        if family.endswith("_total"):
            kind = "counter"
        elif family.startswith(HISTOGRAM):
            family, kind = HISTOGRAM, "histogram"
        if family != described:
            yield f"# HELP task_service_{family} {helps[family]}"
            yield f"# TYPE task_service_{family} {kind}"
            described = family
        yield f"task_service_{name} {number:.15g}"
