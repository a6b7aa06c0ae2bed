"""Every command that a page shows exists, with the options that the page gives it."""

import re
from importlib import metadata

import click
import pytest
from pages import PROJECT, read

from service.__main__ import COMMANDS, Commands

pytestmark = pytest.mark.nodatabase

PAGES = [
    *(path.name for path in PROJECT.glob("*.md")),
    *(f"docs/{path.name}" for path in PROJECT.glob("docs/*.md")),
]


def shown(page):
    """The command lines of a page: those of blocks, and code spans that begin with a command."""
    text = read(page)
    for block in re.findall(r"(?ms)^```sh\n(.*?)^```$", text):
        yield from re.findall(r"task-service ([a-z][^|;&)\n]*)", block.replace("\\\n", ""))
    prose = re.sub(r"(?ms)^```.*?^```$", "", text)
    for span in re.findall(r"`([^`\n]+)`", prose):
        line = span.removeprefix("task-service ")
        if line != span or line.split()[0] in COMMANDS:
            yield line


def missing(line):
    """Return the words of a command line that do not exist; None if all exist."""
    command, path = Commands(), []
    for word in line.split():
        if word.startswith("--"):
            path_and_option = " ".join([*path, word.partition("=")[0]])
            options = {name for item in command.params for name in item.opts}
            if word.partition("=")[0] not in {*options, "--help", "--version"}:
                return path_and_option
        elif isinstance(command, click.Group) and re.fullmatch("[a-z-]+", word):
            path.append(word)
            command = command.get_command(click.Context(command), word)
            if command is None:
                return " ".join(path)
    return None


@pytest.mark.parametrize("page", PAGES)
def test_every_command_and_option_that_a_page_shows_exists(page):
    assert {fault for line in shown(page) if (fault := missing(line))} == set()


def test_a_command_that_does_not_exist_is_found():
    assert missing("webhook deliveries umbrella --about task") is None
    assert missing("webhook deliver") == "webhook deliver"
    assert missing("token create --forever") == "token create --forever"


def test_the_pages_name_one_command_line():
    assert [page for page in PAGES if re.search(r"\bflask [a-z]", read(page))] == []


def test_the_wheel_that_the_deployment_page_installs_has_the_version_of_the_package():
    version = metadata.version("task-meeting-workspace-service")
    for page in ("docs/deployment.md", "docs/operations.md"):
        assert f"/opt/task-service/{version}" in read(page) or f"ln -sfn {version}" in read(page)
    assert f"dist/task_meeting_workspace_service-{version}-py3" in read("docs/deployment.md")
    assert PROJECT.joinpath("docs/deploy/task-service").stat().st_mode & 0o111
