"""sql/functions/older_releases.sql has what only older releases call."""

import re
import subprocess

import pytest
from support.project import PROJECT
from support.releases import releases, skip_without_history

from service.database.statements import STATEMENTS

OLDER = "functions/older_releases"
# This release calls these, for the sake of older ones.
FOR_OLDER = {"await_older_releases", "announcing_tables"}


def functions(text):
    return set(re.findall(r"CREATE (?:OR REPLACE )?FUNCTION (\w+)\(", text))


def calls(text):
    """Return the words before a parenthesis, except in comments and in definitions."""
    text = re.sub(r"--.*", "", text)
    return set(re.findall(r"(?<!FUNCTION )\b(\w+)\(", text))


@pytest.fixture
def kept():
    return functions(STATEMENTS[OLDER].source.decode())


@pytest.mark.nodatabase
def test_this_release_calls_no_function_that_is_kept_for_older_releases(kept):
    ours = {name: statement.source.decode() for name, statement in STATEMENTS.items()}
    ours = {name: text for name, text in ours.items() if name != OLDER and "schema/" not in name}
    # A function of this release can have the same name, but other parameters.
    defined = set().union(*map(functions, ours.values()))
    called = set().union(*map(calls, ours.values()))
    assert kept & called - defined <= FOR_OLDER


@pytest.mark.nodatabase
def test_an_older_release_calls_each_function_that_is_kept_for_it(kept):
    """When the last of these releases no longer has to run, the function can go."""
    called = set()
    for release in releases():
        commit = (release / "commit").read_text().strip()
        shown = subprocess.run(
            ["git", "grep", "-h", "", commit, "--", "sql"],
            cwd=PROJECT,
            capture_output=True,
            text=True,
        )
        if shown.returncode:
            skip_without_history()
        called |= calls(shown.stdout)
        called |= set(re.findall(r"EXECUTE FUNCTION (\w+)\(", shown.stdout))
    assert kept - called <= FOR_OLDER
