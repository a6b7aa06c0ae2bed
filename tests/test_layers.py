"""The layers, whose contracts are in pyproject.toml."""

import subprocess
import sys
from pathlib import Path

import pytest
from pages import PROJECT

pytestmark = pytest.mark.nodatabase


def test_every_contract_of_imports_is_kept():
    # A process of its own: lint-imports disables the loggers that other tests read.
    checked = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
