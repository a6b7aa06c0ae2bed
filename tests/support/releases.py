"""The records of the releases: ``tests/releases`` has a folder for each release.

Each folder has only the file ``commit``. Git keeps the other files of the record, in the commit
that added this file.

The tests compare this checkout with every recorded release.
"""

import json
import re
import subprocess

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


def read_bytes(release, name):
    """Return a file of a record. Skip the test if this clone lacks the history."""
    path = (release / name).relative_to(PROJECT)
    added = git("log", "-1", "--diff-filter=A", "--format=%H", "--", path.with_name("commit"))
    kept = git("show", f"{added.decode().strip()}:{path}") if added else None
    if not kept:
        skip_without_history()
    return kept


def skip_without_history():
    """Skip the test. pytest prints a reason once that many tests skip in the same line."""
    pytest.skip("this clone lacks the history of the releases: git fetch --unshallow --tags")


def git(*words):
    """Return what git prints; None if git fails, for example because there is no history."""
    ran = subprocess.run(["git", *words], cwd=PROJECT, capture_output=True)
    return ran.stdout if ran.returncode == 0 else None


def read_json(release, name):
    return json.loads(read_bytes(release, name))


def released_migrations():
    """Return the SHA-256 of each migration of the newest release; nothing before the first one."""
    return read_json(releases()[-1], "migrations.json") if releases() else {}
