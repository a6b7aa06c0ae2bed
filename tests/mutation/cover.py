"""A plugin of pytest that notes which tests run which lines, and which statements."""

import json
import os
from collections import defaultdict

import coverage
import pytest

from service import statements

FILE = "MUTATION_MAP"


class Recorder(dict):
    """The statements; each look-up belongs to the test that runs."""

    def __init__(self, items):
        super().__init__(items)
        self.test, self.seen = "", defaultdict(set)

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
    measured.switch_context(item.nodeid)
    return (yield)


def pytest_sessionfinish():
    measured.stop()
    data = measured.get_data()
    lines = {}
    for path in data.measured_files():
        name = path[path.rindex("/service/") + 1 :]
        for line, tests in data.contexts_by_lineno(path).items():
            lines[f"{name}:{line}"] = sorted(filter(None, tests))
    found = {
        "lines": lines,
        "statements": {name: sorted(filter(None, tests)) for name, tests in recorder.seen.items()},
    }
    with open(os.environ[FILE], "w", encoding="utf-8") as file:
        json.dump(found, file)
