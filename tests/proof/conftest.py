"""Fixtures of several proofs: a service, a test double, and the generators of clients."""

import fcntl
import shutil
import sys
from pathlib import Path

import pytest
from support.processes import serving
from support.project import copy_project, run
from support.rows import TOKENS

from pytest_task_service import Service

CLIENTS = Path(__file__).parent / "clients"


@pytest.fixture
def service(database_url, unlimited):
    with serving(database_url) as server:
        yield {"URL": f"http://127.0.0.1:{server.port}", "TOKEN": TOKENS["alice"]}


@pytest.fixture
def double(database_url):
    """Yield a test double, whose clock and faults a test controls."""
    double = Service.start(database=database_url)
    try:
        yield double
    finally:
        double.stop()


@pytest.fixture(scope="session")
def wheels(request, tmp_path_factory):
    """Return the wheels of this checkout. Several processes of one run build them once."""
    folder = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):
        folder = folder.parent
    with (folder / "wheels.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        dist = folder / "wheels"
        if not dist.exists():
            copy = tmp_path_factory.mktemp("copy")
            copy_project(copy)
            testkit = ("testkit/pytest_task_service", "testkit/task_service_double")
            wheel = sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", copy / "dist"
            run(*wheel, *(copy / name for name in (".", *testkit)), cwd=copy)
            (copy / "dist").rename(dist)
    return [*dist.iterdir()]


@pytest.fixture(scope="session")
def npm(tmp_path_factory):
    """Return a folder with the clients and the npm packages they need.

    The versions of the packages are those of clients/package-lock.json.
    """
    for command in ("node", "npm"):
        if not shutil.which(command):
            pytest.skip(f"{command} is not installed: clients in TypeScript are not tried")
    folder = tmp_path_factory.mktemp("npm")
    shutil.copytree(CLIENTS, folder, dirs_exist_ok=True)
    run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=folder)
    return folder


@pytest.fixture(scope="session")
def openapi_generator(new_environment):
    """Install clients/requirements.txt into a new virtual environment; return its program."""
    for command in ("java", "go"):
        if not shutil.which(command):
            pytest.skip(f"{command} is not installed: the client in Go is not tried")
    return str(new_environment(CLIENTS / "requirements.txt") / "openapi-generator-cli")


@pytest.fixture(scope="session")
def new_environment(tmp_path_factory):
    """Return a function that installs requirements into a new virtual environment.

    It returns the folder of the environment's programs.
    """

    def new_environment(requirements):
        folder = tmp_path_factory.mktemp("environment")
        run(sys.executable, "-m", "venv", "--without-pip", str(folder), cwd=folder)
        install = ("-m", "pip", "--python", str(folder / "bin/python"), "install", "--quiet")
        run(sys.executable, *install, "--requirement", str(requirements), cwd=folder)
        return folder / "bin"

    return new_environment
