"""task-service: its help, its version, and a start without unneeded imports."""

import os
import re
import subprocess
import sys
from importlib import metadata

import click
import pytest
from click.testing import CliRunner
from support.commands import commands
from support.project import PROJECT, copy_project, environment, output

from service.__main__ import COMMANDS, main
from service.version import build

pytestmark = pytest.mark.nodatabase


@pytest.fixture
def run():
    return lambda *words: CliRunner().invoke(main, words)


ALL = dict(commands(main))


@pytest.mark.parametrize("words", ALL)
def test_every_command_says_what_it_does_and_needs(run, words):
    outcome = run(*words.split(), "--help")
    assert outcome.exit_code == 0
    command = ALL[words]
    assert re.match(r"[A-Z].*[.:]", command.help, re.DOTALL)
    first = command.help.split(".")[0].split("\n")[0]
    assert " ".join(outcome.stdout.split()).count(first) == 1
    # All paragraphs of the help begin at the same margin.
    assert words not in COMMANDS or "\n    " not in command.help
    # Only the usage line has "...": no sentence is cut off.
    assert "..." not in outcome.stdout.partition("\n\n")[2]
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help
        else:
            assert parameter.human_readable_name.strip("[]") in outcome.stdout


def test_help_and_version_work_with_invalid_settings(run, monkeypatch):
    monkeypatch.setenv("PORT", "http")
    assert "task-service migrate" in run("--help").stdout
    assert run("--version").stdout == f"{build()}\n"


@pytest.mark.slow
def test_the_version_of_a_checkout_and_of_builds_from_it_names_the_commit(tmp_path):
    """A wheel is built from the source distribution, which contains no repository."""
    copy_project(tmp_path)
    git = ["git", "-C", tmp_path, "-c", "user.name=Alice", "-c", "user.email=alice@example.com"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "All"]):
        subprocess.run([*git, *words], check=True)
    commit = subprocess.run(
        [*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    shown = [sys.executable, "-m", "service", "--version"]
    version = metadata.version("task-meeting-workspace-service")

    def printed(folder):
        return subprocess.run(
            shown, cwd=folder, capture_output=True, text=True, check=True
        ).stdout.strip()

    assert printed(tmp_path) == f"{version}+{commit}"
    setup = [sys.executable, "setup.py", "-q"]
    subprocess.run([*setup, "sdist"], cwd=tmp_path, check=True, capture_output=True)
    (archive,) = tmp_path.glob("dist/*.tar.gz")
    output("tar", "-C", tmp_path, "-xf", archive)
    source = tmp_path / archive.name.removesuffix(".tar.gz")
    subprocess.run([*setup, "build_py"], cwd=source, check=True, capture_output=True)
    assert printed(source / "build" / "lib") == f"{version}+{commit}"


@pytest.mark.slow
@pytest.mark.parametrize("words", ["--help", "dev --help", "workspace export --help", "openapi"])
def test_pythonoptimize_changes_neither_the_help_nor_the_document(words):
    """Both consist of docstrings, which Python would leave out."""
    printed = [
        subprocess.run(
            [sys.executable, "-m", "service", *words.split()],
            env=environment(PYTHONOPTIMIZE=level),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for level in ("", "1", "2")
    ]
    assert len(printed[0]) > 500
    assert printed == [printed[0]] * 3


WRAPPER = PROJECT / "docs" / "deploy" / "task-service"


def test_the_wrapper_of_a_deployment_asks_for_root_or_names_the_missing_file_of_settings():
    """Only root may read the settings, so the wrapper asks for root first."""
    ended = subprocess.run(
        [WRAPPER, "status"],
        env={"PATH": os.environ["PATH"], "TASK_SERVICE_ENV": "/nowhere"},
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    absent = "cannot read the settings in /nowhere; TASK_SERVICE_ENV names another file"
    told = "only root can run this, for example by sudo" if os.geteuid() else absent
    assert ended.stderr == f"Error: {told}\n"


def test_help_shows_the_first_sentence_of_each_command_and_imports_no_large_library():
    """Without these imports, the help takes less than 0.2 s of CPU time."""
    program = (
        "import sys; from service.__main__ import main\nmain(['--help'], standalone_mode=False)"
    )
    program += "\nprint('imported:', *sorted(sys.modules))"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.stderr == ""
    shown, _, imported = ended.stdout.partition("imported: ")
    heavy = {"flask", "marshmallow", "psycopg", "service.database.pool", "service.settings"}
    assert not heavy & set(imported.split())
    assert "service.commands" not in imported
    text = " ".join(shown.split())
    for name, (_, sentence) in COMMANDS.items():
        assert f"{name} {sentence}" in text
