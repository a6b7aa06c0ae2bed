"""The files of a release have the same bytes whenever and wherever they are built."""

import importlib.util
import json
import re
import shutil

import pytest
from support.project import PROJECT, copy_project, run

pytestmark = [
    pytest.mark.proof,
    pytest.mark.nodatabase,
    pytest.mark.skipif(not shutil.which("npm"), reason="a release needs npm, which is not on PATH"),
]

WHO = "-c", "user.name=Rosa", "-c", "user.email=rosa@example.com"


@pytest.fixture(scope="module")
def program():
    """Return .ci/release.py as a module."""
    spec = importlib.util.spec_from_file_location("release", PROJECT / ".ci/release.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """Change into a copy of the project."""
    copy_project(tmp_path)
    run("git", "init", "--quiet", "--initial-branch", "main", cwd=tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def commit(folder):
    run("git", "add", "--all", cwd=folder)
    run("git", *WHO, "commit", "--quiet", "--message", "A step", cwd=folder)
    return run("git", "rev-parse", "HEAD", cwd=folder).strip()


def test_two_builds_of_a_commit_in_different_folders_have_the_same_bytes(program, checkout):
    program.build_twice(commit(checkout))
    names = {path.name for path in (checkout / "dist").iterdir()}
    version = program.read("setup.cfg").partition("\nversion = ")[2].split()[0]
    packages = "task_meeting_workspace_service", "task_service_double", "pytest_task_service"
    assert names == {
        *(f"{name}-{version}-py3-none-any.whl" for name in packages),
        *(f"{name}-{version}.tar.gz" for name in packages),
        f"{packages[0]}-{version}-py3-none-any.cdx.json",
        f"task-service-double-{version}.tgz",
        *("requirements.txt", "SHA256SUMS"),
    }
    checked = run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=checkout / "dist")
    assert checked.count(": OK\n") == len(names) - 1
    document = json.loads(
        (checkout / f"dist/{packages[0]}-{version}-py3-none-any.cdx.json").read_text()
    )
    assert document["bomFormat"] == "CycloneDX"
    main = document["metadata"]["component"]
    assert (main["name"], main["version"]) == ("task-meeting-workspace-service", version)
    assert all(component["licenses"] for component in [main, *document["components"]])


def test_a_release_replaces_the_version_of_the_last_one_everywhere_in_its_files(program, checkout):
    old = re.escape(program.read("setup.cfg").partition("\nversion = ")[2].split()[0])
    program.write_version("98.7.6")
    for name in {*program.VERSIONS, *program.EXAMPLES}:
        assert not re.search(rf"(?<![\d.]){old}(?!\d)", program.read(name)), name


def test_a_build_that_differs_ends_the_release(program, checkout):
    """This package contains the time at which it was built."""
    source = (checkout / "setup.py").read_text()
    (checkout / "setup.py").write_text(source.replace('f"{known}\\n"', "repr(time.time_ns())"))
    source = (checkout / "setup.py").read_text()
    (checkout / "setup.py").write_text(source.replace("import sys\n", "import sys\nimport time\n"))
    with pytest.raises(SystemExit, match=r"two builds of .* differ; nothing was released"):
        program.build_twice(commit(checkout))
    assert not (checkout / "dist").exists()
