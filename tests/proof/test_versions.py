"""The versions that setup.cfg names: lowest libraries, each Python, files for two platforms."""

import re
import subprocess
import sys

import pytest
from support.project import PROJECT, VERSIONS, environment, pythons, required

pytestmark = [pytest.mark.nodatabase, pytest.mark.proof]

# What depends on a library or on Python: the worker, the server, requests, webhooks, statements.
QUICK = (
    "speedups/http_server/tests/test_request_reader.py",
    "speedups/http_server/tests/test_response.py",
    *("tests/gunicorn/test_configuration.py", "tests/http/test_requests.py"),
    *("tests/http/test_safe_writes.py", "tests/openapi/test_openapi.py"),
    *("tests/api/test_every_field.py", "tests/api/test_tasks.py", "tests/database/test_pool.py"),
    *("tests/values/test_fields.py", "tests/webhooks/test_outbound.py", "tests/test_settings.py"),
)
DISTRIBUTIONS = "-e", "testkit/pytest_task_service", "-e", "testkit/task_service_double"
PLATFORMS = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"


def uv(*words):
    command = (sys.executable, "-m", "uv", "pip", *words)
    ran = subprocess.run(command, cwd=PROJECT, env=environment(), capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def run_quick_part(folder, python, *options):
    """Make a virtual environment with the project and pass the quick part of the tests in it."""
    created = (python, "-m", "venv", "--without-pip", folder)
    subprocess.run(created, cwd=folder.parent, check=True, env=environment())
    uv("install", "-p", folder, "-e", ".[contribute]", *DISTRIBUTIONS, *options)
    command = (folder / "bin/pytest", "-q", "-p", "no:cacheprovider", *QUICK)
    ran = subprocess.run(command, cwd=PROJECT, env=environment(), capture_output=True, text=True)
    print(ran.stdout[-4000:])
    assert ran.returncode == 0


def test_the_quick_part_passes_with_the_lowest_versions(tmp_path):
    floors = tmp_path / "floors.txt"
    lowest = [
        (requirement.name, min(re.findall(r">=([0-9.]+)", str(requirement.specifier))))
        for requirement in required()
    ]
    floors.write_text("".join(f"{name}=={version}\n" for name, version in lowest))
    run_quick_part(tmp_path / "venv", sys.executable, "--constraint", floors)
    listed = uv("list", "-p", tmp_path / "venv", "--format", "freeze").lower().splitlines()
    for name, version in lowest:
        assert any(re.fullmatch(f"{name}=={re.escape(version)}(.0)*", line) for line in listed)


@pytest.mark.parametrize("version", pythons())
def test_the_quick_part_passes_on_each_other_python_of_this_machine(tmp_path, version):
    run_quick_part(tmp_path / "venv", pythons()[version])


@pytest.mark.parametrize("version", pythons(range(6, 11)))
def test_an_older_python_is_refused_at_once(version):
    command = (pythons(range(6, 11))[version], "setup.py", "--version")
    ran = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    refusal = f"This service needs Python 3.11 or later; this is Python {version}\n"
    assert (ran.returncode, ran.stderr) == (1, refusal)


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("version", VERSIONS)
def test_the_lock_installs_built_files_alone_on_two_architectures(tmp_path, version, platform):
    options = ("--python-platform", platform, "--python-version", version, "--target", tmp_path)
    exact = ("--no-deps", "--require-hashes", "--only-binary", ":all:", "--dry-run")
    uv("install", *options, *exact, "-r", "requirements.txt")


def test_the_classifiers_name_versions_that_the_lock_is_for():
    named = re.findall(
        r"(?m)^ +Programming Language :: Python :: (3\.[0-9]+)$",
        (PROJECT / "setup.cfg").read_text(),
    )
    assert named == [version for version in VERSIONS if version in named] != []
