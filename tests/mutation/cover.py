"""A plugin of pytest that notes which tests run which lines, and which statements."""

import json
import os
from collections import defaultdict
from pathlib import Path

import coverage
import pytest

from service import statements

FILE = "MUTATION_MAP"


class Recorder(dict):
    """The statements; each look-up belongs to the test that runs."""

    def __init__(self, items):
        super().__init__(items)
        self.test, self.tests, self.seen = "", set(), defaultdict(set)

    def __getitem__(self, name):
        self.seen[f"sql/{name}.sql"].add(self.test)
        return super().__getitem__(name)


recorder = Recorder(statements.STATEMENTS)
statements.STATEMENTS = recorder
measured = coverage.Coverage(data_file=None, source=["service"])


def pytest_sessionstart():
    measured.start()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    recorder.test = item.nodeid
    recorder.tests.add(item.nodeid)
    measured.switch_context(item.nodeid)
    return (yield)


def pytest_sessionfinish():
    measured.stop()
    data = measured.get_data()
    path = Path(os.environ[FILE])
    empty = {"tests": [], "lines": {}, "statements": {}}
    found = json.loads(path.read_text("utf-8")) if path.exists() else empty
    merge(found, "tests", recorder.tests)
    for name, tests in recorder.seen.items():
        merge(found["statements"], name, tests)
    for file in data.measured_files():
        name = file[file.rindex("/service/") + 1 :]
        for line, tests in data.contexts_by_lineno(file).items():
            merge(found["lines"], f"{name}:{line}", tests)
    path.write_text(json.dumps(found), encoding="utf-8")


def merge(known, name, tests):
    """Add tests to those of an earlier run."""
    known[name] = sorted({*known.get(name, ()), *filter(None, tests)})
