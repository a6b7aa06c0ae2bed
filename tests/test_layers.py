"""Layers: the import contracts in pyproject.toml hold."""

import subprocess
import sys
from pathlib import Path

import pytest

from service.database import db

pytestmark = pytest.mark.nodatabase


def test_every_contract_of_imports_is_kept():
    # A process of its own: lint-imports disables the loggers that other tests read.
    checked = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_database_uses_no_request_of_flask():
    assert not {"request", "session", "abort", "Request", "Response"} & vars(db).keys()
