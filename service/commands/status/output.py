"""The three forms of ``task-service status``: a page to read, JSON, and Prometheus metrics."""

import json
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

from service.commands.base import json_of, printable
from service.commands.status.section import Problem, Section
from service.values.types import camel_case
from service.version import build

# The only metric with several series per set of labels: buckets, sum and count.
HISTOGRAM = "request_duration_seconds"


def page(sections: Sequence[Section], problems: Sequence[Problem]) -> Iterator[str]:
    """Yield the lines of the page, then the notes, then one line for each problem."""
    lines = [line for section in sections for line in section.lines]
    lines += [("note", note) for section in sections for note in section.notes]
    lines += [("PROBLEM", str(problem)) for problem in problems]
    for name, text in lines:
        yield f"{name:<14}{printable(text)}"


def document(sections: Sequence[Section], problems: Sequence[Problem]) -> str:
    figures = {
        camel_case(name): json_of(value)
        for section in sections
        for name, value in section.figures.items()
    }
    notes = [{"text": note} for section in sections for note in section.notes]
    found = [{"text": text, "remedy": remedy or None} for text, remedy, _ in problems]
    return json.dumps({**figures, "notes": notes, "problems": found}, indent=1)


def metrics(sections: Sequence[Section], problems: Sequence[Problem], *, up: bool) -> Iterator[str]:
    """Yield the lines of each metric for the textfile collector: HELP, TYPE and the numbers."""
    helps = tomllib.loads(Path(__file__).with_name("metrics.toml").read_text(encoding="utf-8"))
    version = f'build_info{{version="{build()}"}}'
    numbers = {"up": float(up), "problems": len(problems), version: 1}
    for section in sections:
        numbers |= section.metrics
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
