"""What the README promises in tables and commands is what the code has."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from service.settings import Settings

README = Path(__file__).parent.parent.joinpath("README.md").read_text(encoding="utf-8")


def rows(heading):
    """The cells of the table below a heading, without its head."""
    section = README.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_the_endpoint_table_has_every_route_and_no_other(app):
    written = {(method, path.strip("`")) for method, path, _ in rows("Endpoints")}
    built = {
        (method, re.sub("<.*?>", ":id", rule.rule))
        for rule in app.url_map.iter_rules()
        for method in rule.methods - {"HEAD", "OPTIONS"}
    }
    assert written == built


def test_the_settings_table_has_every_setting_with_its_default_and_meaning():
    assert rows("Settings") == [
        [f"`{item.name.upper()}`", item.metadata["default"] or "none", item.metadata["meaning"]]
        for item in fields(Settings)
    ]


@pytest.mark.parametrize(
    "path", sorted(set(re.findall(r"`((?:service|sql|tests)/[a-z_/]+\.[a-z]+)`", README)))
)
def test_the_files_that_it_names_exist(path):
    assert Path(__file__).parent.parent.joinpath(path).exists()


def test_every_command_that_it_shows_exists(app):
    shown = set(re.findall(r"(?m)^(?:\S*/)?flask ((?:[a-z]+ ?)+)", README))
    assert shown
    for words in shown:
        group = app.cli
        for word in words.split():
            command = getattr(group, "commands", {}).get(word)
            if command is None:
                assert not hasattr(group, "commands"), words
                break
            group = command
