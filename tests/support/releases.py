"""The records of the releases: ``tests/releases`` has a folder for each release.

The folder of the newest release has all files of its record. The folders of older releases have
only the file ``commit``; git keeps the other files, in the commit of that release.

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
    """Return a file of a record. Skip the test if the history of this clone lacks the file."""
    file = release / name
    if file.exists():
        return file.read_bytes()
    # This commit added the whole record.
    added = git("log", "-1", "--diff-filter=A", "--format=%H", "--", f"{release}/commit")
    kept = git("show", f"{added.decode().strip()}:{file.relative_to(PROJECT)}") if added else None
    if not kept:
        pytest.skip(f"the history lacks the release {release.name}: git fetch --unshallow --tags")
    return kept


def git(*words):
    """Return what git prints; None if git fails, for example because there is no history."""
    ran = subprocess.run(["git", *words], cwd=PROJECT, capture_output=True)
    return ran.stdout if ran.returncode == 0 else None


def read_json(release, name):
    return json.loads(read_bytes(release, name))


def released_migrations():
    """Return the SHA-256 of each migration of the newest release; nothing before the first one."""
    return read_json(releases()[-1], "migrations.json") if releases() else {}
