"""The program task-service, started where Python finds another package of the same name first."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.processes import children, ending, get, serving, wait_until
from support.project import environment

PROGRAM = str(Path(sys.executable).with_name("task-service"))
RAISE = "raise ImportError('this is the package of somebody else')\n"


@pytest.fixture
def there(tmp_path):
    """Return a folder with packages of somebody else, and a PYTHONPATH that leads to them."""
    folder, modules = tmp_path / "their project", tmp_path / "their modules"
    for name in ("service", "speedups"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(RAISE)
    modules.mkdir()
    (modules / "service.py").write_text(RAISE)
    return folder, {"PYTHONPATH": f"{os.curdir}{os.pathsep}{modules}"}


@contextmanager
def running(there, *words):
    """Start a command, which prints to a pipe, and end it afterwards."""
    folder, variables = there
    with (
        subprocess.Popen(
            [PROGRAM, *words],
            cwd=folder,
            env=environment(**variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process,
        ending(process),
    ):
        yield process


@pytest.mark.slow
def test_commands_run_the_service_that_is_installed(there, database_url):
    folder, variables = there
    variables = environment(DATABASE_URL=database_url, **variables)
    for words in (("--version",), ("worker", "--once")):
        ran = subprocess.run(
            [PROGRAM, *words], cwd=folder, env=variables, capture_output=True, text=True
        )
        assert ran.returncode == 0, ran.stderr


@pytest.mark.slow
def test_web_serves_the_installed_service_before_and_after_sighup(there, database_url, connection):
    folder, variables = there
    with serving(
        database_url, command=[PROGRAM, "web"], cwd=folder, WEB_CONCURRENCY="1", **variables
    ) as server:
        assert get(server.port).status == 200
        old = {*children(server.pid)}
        server.send_signal(signal.SIGHUP)
        wait_until(lambda: {*children(server.pid)} - old, server)
        wait_until(lambda: old.isdisjoint(children(server.pid)), server)
        assert get(server.port).status == 200


@pytest.mark.slow
@pytest.mark.nodatabase
def test_the_test_double_serves_the_service_that_is_installed(there):
    with running(there, "dev", "--json", "--port", "0") as double:
        line = double.stdout.readline()
        assert line.startswith("{"), line + double.stdout.read()
        assert json.loads(line)["baseUrl"]


@pytest.mark.proof
@pytest.mark.nodatabase
def test_dev_serves_the_service_that_is_installed(there):
    # PostgreSQL may run as another user, who cannot enter the folders of pytest.
    with tempfile.TemporaryDirectory(dir="/tmp") as data:
        os.chmod(data, 0o711)
        with running(there, "dev", "--port", "0", "--data", data) as dev:
            lines = iter(dev.stdout.readline, "")
            assert any(line.startswith("export ") for line in lines)
