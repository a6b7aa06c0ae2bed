"""The layers, whose contracts are in pyproject.toml, and what tests import."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.project import PROJECT

pytestmark = pytest.mark.nodatabase


@pytest.mark.speedups
def test_every_contract_of_imports_is_kept():
    # A process of its own: lint-imports disables the loggers that other tests read.
    checked = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_tests_import_only_what_is_in_support():
    """A second copy of a conftest or of a test module would have its own state."""
    folders = "tests", "speedups", "testkit/tests"
    for path in (path for folder in folders for path in PROJECT.joinpath(folder).rglob("*.py")):
        pattern = r"(?m)^\s*(?:from|import) ([\w.]*\b(?:test_|conftest)\w*)"
        imported = re.findall(pattern, path.read_text())
        assert not imported, f"{path}: move what it imports from {imported} to tests/support"
