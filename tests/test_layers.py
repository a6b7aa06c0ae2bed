"""Imports point down: the contracts in pyproject.toml hold."""

from pathlib import Path

import pytest
from importlinter.cli import lint_imports

from service import db

pytestmark = pytest.mark.nodatabase

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"


def test_every_contract_of_imports_is_kept(capsys):
    kept = lint_imports(config_filename=str(PYPROJECT), no_cache=True) == 0
    assert kept, capsys.readouterr().out


def test_the_database_uses_no_request_of_flask():
    assert not {"request", "session", "abort", "Request", "Response"} & vars(db).keys()
