"""The service, its double and the plugin are one release; the lock has what they require."""

import configparser
import json
import re
import subprocess
import sys
import tomllib
from importlib import metadata

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from support.project import PROJECT, clone_of_windows, environment, required

from service.version import PYTHON

pytestmark = pytest.mark.nodatabase

OTHERS = "task_service_double", "pytest_task_service"


def service():
    parser = configparser.ConfigParser()
    parser.read(PROJECT / "setup.cfg")
    return parser["metadata"]


def project(*folders):
    text = PROJECT.joinpath(*folders, "pyproject.toml").read_text()
    return tomllib.loads(text)["project"]


@pytest.mark.parametrize("name", OTHERS)
def test_each_distribution_has_the_version_and_the_license_of_the_service(name):
    version = service()["version"]
    assert project("testkit", name)["version"] == version
    texts = {(PROJECT / folder / "LICENSE").read_text() for folder in (".", f"testkit/{name}")}
    assert len(texts) == 1
    page = PROJECT.joinpath("testkit", name, "README.md").read_text()
    assert f"{name}-{version}-py3-none-any.whl" in page
    pinned = f"{project()['name']} =={version}"
    dependencies = project("testkit", name)["dependencies"]
    assert (pinned in dependencies) == (name == "task_service_double")


def test_the_npm_package_has_the_version_and_the_license_of_the_service():
    package = json.loads((PROJECT / "testkit/node/package.json").read_text())
    assert (package["version"], package["license"]) == (service()["version"], "MIT")
    texts = {(PROJECT / folder / "LICENSE").read_text() for folder in (".", "testkit/node")}
    assert len(texts) == 1


def locked():
    """Return the lines of the lock by name: the version and the number of hashes."""
    text = (PROJECT / "requirements.txt").read_text()
    entries = re.findall(r"(?m)^([a-z0-9-]+)==(\S+)(.*(?:\n +--hash=sha256:[0-9a-f]{64}.*)*)", text)
    return {name: (version, rest.count("--hash=")) for name, version, rest in entries}


def test_the_lock_has_each_requirement_in_a_version_that_setup_cfg_allows():
    versions = {name: version for name, (version, _) in locked().items()}
    for requirement in required():
        assert requirement.specifier.contains(versions[canonicalize_name(requirement.name)])


def test_every_line_of_the_lock_has_a_hash_and_names_no_host():
    lock = locked()
    text = (PROJECT / "requirements.txt").read_text()
    assert len(lock) == len(re.findall("(?m)^[^ #]", text)) > 10
    assert all(hashes for _, hashes in lock.values())
    assert "//" not in text
    assert "-index" not in text


def test_the_lock_has_all_that_the_requirements_require_and_nothing_else():
    found, waiting = set(), required()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        found.add(name)
        for line in metadata.requires(name) or []:
            inner = Requirement(line)
            environments = [
                {"python_version": version, "python_full_version": version, "extra": extra}
                for version in PYTHON
                for extra in ("", *requirement.extras)
            ]
            if inner.marker is None or any(map(inner.marker.evaluate, environments)):
                waiting.append(inner)
    assert locked().keys() == found


@pytest.fixture(scope="module")
def windows(tmp_path_factory):
    return clone_of_windows(tmp_path_factory.mktemp("windows"))


STARTS = {
    "dev": ("-m", "service", "dev"),
    "gunicorn": ("-m", "gunicorn", "app:app"),
    "application": ("app.py",),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", STARTS)
def test_a_checkout_without_its_symbolic_links_stops_with_an_error_of_one_line(windows, name):
    ran = subprocess.run(
        [sys.executable, *STARTS[name]],
        cwd=windows,
        env=environment(DATABASE_URL="host=/nowhere"),
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 1
    (line,) = ran.stderr.splitlines()
    assert line.startswith("Error: this copy of the service has lost its symbolic links: clone it")


@pytest.mark.slow
def test_git_does_not_change_the_line_ends_of_any_file(windows):
    # Other tests start programs there, which compile modules.
    files = [path for path in windows.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert len(files) > 400
    for path in files:
        original = PROJECT / path.relative_to(windows)
        assert original.is_symlink() or path.read_bytes() == original.read_bytes()
