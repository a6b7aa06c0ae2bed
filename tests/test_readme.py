"""What the README promises in tables and commands is what the code has."""

import re
from dataclasses import fields
from importlib import metadata
from pathlib import Path

import click
import pytest
from client import commands

from service.app import create_app
from service.settings import Settings

pytestmark = pytest.mark.nodatabase

PROJECT = Path(__file__).parents[1]
README = PROJECT.joinpath("README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def app():
    return create_app(Settings.read({}))


def rows(heading):
    """The cells of the table below a heading, without its head."""
    section = README.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_the_endpoint_table_has_every_route_and_no_other(app):
    listed = {(method, path.strip("`")) for method, path, _ in rows("Endpoints")}
    routes = {
        (method, re.sub("<.*?>", ":id", rule.rule))
        for rule in app.url_map.iter_rules()
        for method in rule.methods - {"HEAD", "OPTIONS"}
    }
    assert listed == routes


def test_the_settings_table_has_every_setting_with_its_default_and_meaning():
    assert rows("Settings") == [
        [f"`{item.name.upper()}`", item.metadata["default"] or "none", item.metadata["meaning"]]
        for item in fields(Settings)
    ]


def test_every_file_that_the_readme_names_exists():
    named = set(re.findall(r"`((?:service|sql|tests)/[a-z0-9_/-]+\.[a-z]+)`", README))
    assert named
    assert sorted(path for path in named if not PROJECT.joinpath(path).exists()) == []


def test_the_wheel_that_the_readme_installs_has_the_version_of_the_package():
    version = metadata.version("task-meeting-workspace-service")
    shown = set(re.findall(r"task_meeting_workspace_service-[0-9a-z.]+-", README))
    assert shown == {f"task_meeting_workspace_service-{version}-"}


def test_every_command_that_the_readme_shows_exists(app):
    shown = set(re.findall(r"(?m)^(?:\S*/)?task-service ((?:[a-z]+ ?)+)", README))
    assert shown
    complete = {name for name, command in commands(app.cli) if not isinstance(command, click.Group)}
    for words in shown:
        # Words that follow the name of a command are its arguments.
        assert any(f"{words} ".startswith(f"{name} ") for name in complete), words
