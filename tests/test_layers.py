"""Layers, whose contracts are in pyproject.toml, and names: one name for one thing."""

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from pages import PROJECT

from service.database import db

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


def test_the_database_uses_no_request_of_flask():
    assert not {"request", "session", "abort", "Request", "Response"} & vars(db).keys()


def test_no_two_classes_of_the_service_have_one_name():
    names = Counter(
        node.name
        for path in PROJECT.joinpath("service").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    )
    assert {"Task", "Connection", "Worker"} <= names.keys()
    assert [name for name, number in names.items() if number > 1] == []
