"""CONTRIBUTING.md has the layers of the code and its folders."""

import re
import tomllib

import pytest
from pages import PROJECT, read, rows

pytestmark = pytest.mark.nodatabase


def test_the_layers_are_those_that_lint_imports_checks():
    contract = tomllib.loads(read("pyproject.toml"))["tool"]["importlinter"]["contracts"][0]
    layers = [re.split(r" \| ", layer) for layer in contract["layers"]]
    text = read("CONTRIBUTING.md").partition("<!-- layers -->")[2].partition("\n\n")[0]
    assert [re.findall("`(.*?)`", line) for line in text.strip().splitlines()] == layers


def test_the_table_of_rooms_has_every_package_of_the_service():
    listed = {room.strip("`") for room, _ in rows("CONTRIBUTING.md", "Rooms")}
    packages = {f"service/{path.parent.name}" for path in PROJECT.glob("service/*/__init__.py")}
    assert packages - listed == set()
    assert [name for name in listed if not PROJECT.joinpath(name).is_dir()] == []
