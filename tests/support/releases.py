"""The records of the releases: ``tests/releases`` has a folder for each release.

The tests compare this checkout with every recorded release.
"""

import json
import re

import pytest
from support.project import PROJECT

FOLDER = PROJECT / "tests" / "releases"


def releases():
    """Return the folders of all releases, the oldest first."""
    found = [path for path in FOLDER.iterdir() if re.fullmatch(r"\d+\.\d+\.\d+", path.name)]
    return sorted(found, key=lambda path: [*map(int, path.name.split("."))])


def for_each_release(test):
    """Run a test with each release; before the first release the test does not exist."""
    found = releases()
    if not found:
        return None
    return pytest.mark.parametrize("release", found, ids=lambda release: release.name)(test)


def read_json(release, name):
    return json.loads((release / name).read_text(encoding="utf-8"))


def released_migrations():
    """Return the SHA-256 of each migration of the newest release; nothing before the first one."""
    return read_json(releases()[-1], "migrations.json") if releases() else {}
