"""``make release`` refuses what is not ready, in one sentence, and then changes nothing."""

import importlib.util
import shutil
import subprocess
import sys

import pytest
from support.project import PROJECT, copy_project, environment, run

pytestmark = pytest.mark.nodatabase

CHANGELOG = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- A thing.\n"
WHO = "-c", "user.name=Rosa", "-c", "user.email=rosa@example.com"


@pytest.fixture
def checkout(tmp_path):
    """Return a clean checkout of main with the tools in .venv, of which only 1.2.3 was released."""
    copy_project(tmp_path)
    for record in tmp_path.glob("tests/releases/*/commit"):
        shutil.rmtree(record.parent)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / ".gitignore").write_text(".venv\n")
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    (tmp_path / "tests/releases/1.2.3").mkdir()
    (tmp_path / "tests/releases/1.2.3/commit").write_text("0123abc\n")
    run("git", "init", "--quiet", "--initial-branch", "main", cwd=tmp_path)
    commit(tmp_path)
    return tmp_path


def commit(folder):
    run("git", "add", "--all", cwd=folder)
    run("git", *WHO, "commit", "--quiet", "--message", "A step", cwd=folder)


def nightly_steps(folder):
    return run(".ci/nightly", "--list", cwd=folder).split()


def pass_nightly(folder, steps):
    """Write what .ci/nightly writes after each of these steps has passed."""
    for step in steps:
        run("git", "update-ref", f"refs/nightly/{step}", "HEAD", cwd=folder)


def refusal(folder, version):
    """Run the command; return its only line."""
    variables = environment(RELEASE_RUN="false")
    command = [sys.executable, folder / ".ci/release.py", version]
    before = run("git", "rev-parse", "HEAD", cwd=folder), run("git", "status", "-s", cwd=folder)
    ended = subprocess.run(command, env=variables, capture_output=True, text=True)
    after = run("git", "rev-parse", "HEAD", cwd=folder), run("git", "status", "-s", cwd=folder)
    assert (ended.returncode, before) == (1, after)
    return ended.stderr.strip().splitlines()[0]


@pytest.mark.slow
def test_a_version_that_is_not_three_numbers_or_not_above_the_newest_release_is_refused(checkout):
    for version in ("", "1.3", "v1.3.0", "1.3.0-rc1", "1.03.0", "1.3.0.0", "²"):
        expected = f"Error: VERSION={version} is not three numbers, like 1.2.3 (semver.org)."
        assert refusal(checkout, version) == expected
    for newest in ("1.2.3", "1.10.0"):
        expected = f"must be greater than {newest}, the newest release."
        for version in ("1.2.3", "1.2.2", "1.1.10", "0.9.0"):
            assert refusal(checkout, version) == f"Error: VERSION={version} {expected}"
        if newest == "1.2.3":
            run("git", *WHO, "tag", "v1.10.0", cwd=checkout)


@pytest.mark.slow
def test_changes_without_a_commit_another_branch_and_a_changelog_without_entries_are_refused(
    checkout,
):
    (checkout / "new").touch()
    assert refusal(checkout, "1.3.0") == "Error: commit or remove these changes first:"
    (checkout / "new").unlink()
    run("git", "switch", "--quiet", "--create", "topic", cwd=checkout)
    assert refusal(checkout, "1.3.0") == "Error: a release is made on main, not on topic."
    run("git", "switch", "--quiet", "main", cwd=checkout)
    for text in (CHANGELOG.replace("- A thing.", "## [1.2.3]\n\n- Old."), "# Changelog\n"):
        (checkout / "CHANGELOG.md").write_text(text)
        commit(checkout)
        assert "no entry below ## [Unreleased]" in refusal(checkout, "1.3.0")
    (checkout / ".venv").unlink()
    assert refusal(checkout, "1.3.0").endswith("run make setup.")


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("make"), reason="make is missing")
def test_a_commit_whose_nightly_steps_or_short_run_have_not_passed_makes_no_release(checkout):
    """The lock file is confirmed first, for which uv asks the package index."""
    (checkout / "Makefile").write_text("lock:\n")
    commit(checkout)
    steps = nightly_steps(checkout)
    missing = f"Error: on this commit, first run: .ci/nightly {' '.join(steps)}"
    assert refusal(checkout, "1.3.0") == missing
    pass_nightly(checkout, steps[1:-1])
    named = f"Error: on this commit, first run: .ci/nightly {steps[0]} {steps[-1]}"
    assert refusal(checkout, "1.3.0") == named
    pass_nightly(checkout, steps)
    assert refusal(checkout, "1.3.0") == "Error: false failed; nothing was released."
    (checkout / "Makefile").write_text("lock:\n\techo flask==3.0 >requirements.txt\n")
    commit(checkout)
    assert refusal(checkout, "1.3.0") == missing
    pass_nightly(checkout, steps)
    variables = environment(RELEASE_RUN="true")
    command = [sys.executable, checkout / ".ci/release.py", "1.3.0"]
    ended = subprocess.run(command, env=variables, capture_output=True, text=True)
    assert "requirements.txt does not fit setup.cfg" in ended.stderr


def test_git_keeps_what_a_release_freezes_and_the_tree_only_the_name_of_its_commit(
    tmp_path, monkeypatch
):
    """The program instead of pytest writes a short record."""
    monkeypatch.chdir(tmp_path)
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Rosa")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "rosa@example.com")
    run("git", "init", "--quiet", cwd=tmp_path)
    folder = tmp_path / "tests/releases/1.3.0"
    folder.parent.mkdir(parents=True)
    program = tmp_path / ".venv/bin/pytest"
    program.parent.mkdir(parents=True)
    written = "echo 0123abc >commit; echo '{}' >openapi.json"
    program.write_text(f"#!/bin/sh\nmkdir tests/releases/$4; cd tests/releases/$4; {written}\n")
    program.chmod(0o755)
    spec = importlib.util.spec_from_file_location("release", PROJECT / ".ci/release.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.record("1.3.0")
    assert [path.name for path in folder.iterdir()] == ["commit"]
    assert run("git", "show", "HEAD:tests/releases/1.3.0/openapi.json", cwd=tmp_path) == "{}\n"
