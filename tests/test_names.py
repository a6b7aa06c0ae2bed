"""Names: one name for one thing."""

import ast
from collections import Counter

import pytest
from pages import PROJECT

pytestmark = pytest.mark.nodatabase


def classes():
    """The name of each class in the service."""
    for path in PROJECT.joinpath("service").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                yield node.name


def test_no_two_classes_of_the_service_have_one_name():
    names = Counter(classes())
    assert {"Task", "Connection", "Worker"} <= names.keys()
    assert [name for name, number in names.items() if number > 1] == []
