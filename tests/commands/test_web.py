"""web: starts gunicorn with the packaged configuration, from any folder."""

import json
import os
import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict
from support.commands import rows
from support.processes import children, free_port, get, serving, wait_until
from support.project import environment

from service.server import APP, CONFIGURATION
from service.settings import Settings

COMMANDS = {
    "task-service": [sys.executable, "-m", "service", "web"],
    "gunicorn": [sys.executable, "-m", "gunicorn", "app:app"],
}


def edit(copied, number):
    """Write the number into the copy: into a module of service/web, a view and a statement."""
    for name, text in ("web/gate.py", "private, no-cache"), ("api/health.py", "Task, Meeting and"):
        path = copied / "service" / name
        code, found = re.subn(f'"{text}[^"]*"', f'"{text} {number}"', path.read_text("utf-8"))
        assert found == 1
        path.write_text(code, "utf-8")
        # Python takes its cached bytecode for current while size and second of the file are the
        # same, and two of these edits can be made within one second.
        os.utime(path, (number, number))
    statement = f"SELECT '{number}'::json AS body, NULL::text AS cursor;"
    (copied / "sql" / "tasks" / "list.sql").write_text(statement)


def served(port):
    """Return the numbers that responses show: of the module of http, the view, the statement."""
    index, page = get(port, "/"), get(port)
    parts = page.headers["cache-control"], json.loads(index.body)["name"]
    (number,) = json.loads(page.body)["data"] or [0]
    return *(int(re.search("[0-9]*$", part)[0] or 0) for part in parts), number


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_gunicorn_serves_new_code_after_each_sighup_and_not_before(
    name, copied, database_url, unlimited
):
    """No worker mixes old and new code: all three edited files change together."""
    options = {"command": COMMANDS[name], "cwd": copied, "WEB_CONCURRENCY": "1"}
    with serving(database_url, **options) as server:

        def serves(number):
            return served(server.port) == (number,) * 3

        for number in range(1, 4):
            edit(copied, number)
            assert serves(number - 1)
            old = {*children(server.pid)}
            server.send_signal(signal.SIGHUP)
            # Until it has ended, the old worker may still accept connections.
            wait_until(lambda old=old: old.isdisjoint(children(server.pid)), server)
            wait_until(partial(serves, number), server)
    assert server.returncode == 0


@pytest.mark.slow
def test_web_in_any_folder_connects_before_its_first_request_and_hands_over_on_sigusr2(
    tmp_path, database_url, connection
):
    """It runs in the foreground. After SIGUSR2, a second gunicorn serves beside the first one."""
    log, port = tmp_path / "log", free_port()
    variables = {"DATABASE_URL": database_url, "PORT": str(port), "WEB_CONCURRENCY": "1"}
    query = "SELECT application_name FROM pg_stat_activity WHERE datname = current_database()"

    def connected():
        return {
            int(name.rpartition(":")[2])
            for (name,) in (row.values() for row in rows(connection, query))
            if name.startswith("task-service web ")
        }

    with (
        log.open("wb") as stderr,
        subprocess.Popen(
            COMMANDS["task-service"], cwd=tmp_path, env=environment(**variables), stderr=stderr
        ) as server,
    ):
        try:
            wait_until(lambda: connected() & {*children(server.pid)}, server)
            assert "GET" not in log.read_text()
            # Only a process that starts with this variable keeps little memory for each thread.
            variables = Path(f"/proc/{server.pid}/environ").read_bytes().split(b"\0")
            assert b"MALLOC_MMAP_THRESHOLD_=131072" in variables
            assert get(port).status == 200
            server.send_signal(signal.SIGUSR2)
            wait_until(lambda: log.read_text().count("Listening at") == 2, server)
            second = int(re.findall(r"Listening at: .*\(([0-9]+)\)", log.read_text())[1])
            wait_until(lambda: log.read_text().count("Booting worker") == 2, server)
            try:
                assert get(port).status == 200
            finally:
                os.kill(second, signal.SIGTERM)
            wait_until(lambda: "Shutting down: Master.2" in log.read_text(), server)
        finally:
            server.terminate()
    assert server.returncode == 0
    lines = log.read_text().splitlines()
    for event in ("starts", "stops"):
        (line,) = [line for line in lines if f" {event}: process {server.pid};" in line]
        assert f"database {conninfo_to_dict(database_url)['dbname']} on " in line
        speedups = "on" if Settings.read().uses_speedups else "off"
        assert f"; speedups {speedups}; settings: DATABASE_URL=set PORT={port} WEB_C" in line
        assert "postgres:" not in line


@pytest.mark.slow
@pytest.mark.nodatabase
@pytest.mark.root("can enter a folder and lose the right")
def test_web_starts_in_a_folder_that_its_user_cannot_enter(tmp_path):
    """For example, an operator in /root starts it with a wrapper that changes the user."""
    os.chown(tmp_path, 65534, 65534)
    tmp_path.chmod(0o700)
    without = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
    with subprocess.Popen(
        [*without, Path(sys.executable).with_name("task-service"), "web"],
        cwd=tmp_path,
        env=environment(DATABASE_URL="host=/nowhere", PORT=str(free_port()), WEB_CONCURRENCY="1"),
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        started = any("Listening at" in line for line in server.stderr)
        server.terminate()
        server.communicate(timeout=60)
    assert started


@pytest.mark.slow
@pytest.mark.nodatabase
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_to_stop_also_ends_workers_that_are_still_starting(name, tmp_path):
    """So a restart soon after another one does not wait for gunicorn's graceful_timeout."""
    configuration = tmp_path / "configuration.py"
    configuration.write_text(
        CONFIGURATION.read_text() + "def post_fork(server, worker):\n"
        "    import pathlib, time\n"
        "    pathlib.Path('starting').touch()\n"
        "    time.sleep(60)\n"
    )
    server = subprocess.Popen(
        [sys.executable, "-m", "gunicorn", "-c", str(configuration), APP],
        cwd=tmp_path,
        env=environment(DATABASE_URL="host=/nowhere", PORT=str(free_port()), WEB_CONCURRENCY="1"),
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: (tmp_path / "starting").exists(), server)
        server.send_signal(signal.Signals[name])
        assert server.wait(60) == 0
    finally:
        server.kill()
        server.wait()
