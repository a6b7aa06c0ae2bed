"""``task-service dev --json``: one line says everything, and nothing stays behind."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
import urllib3
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from server import children, is_running, serving, wait_until
from server import get as get_path

pytestmark = pytest.mark.nodatabase

COMMAND = [sys.executable, "-m", "service", "dev", "--json", "--port", "0"]
http = urllib3.PoolManager(retries=False, timeout=20)


@contextmanager
def started(*options, command=COMMAND, **environment):
    """The process and the line that it prints; ends it by its pid."""
    process = subprocess.Popen(
        [*command, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    try:
        line = process.stdout.readline()
        yield process, json.loads(line) if line else None
    finally:
        process.terminate()
        process.communicate(timeout=30)


def get(line, path, token=None):
    headers = {"Authorization": f"Bearer {token or line['token']}"}
    return http.request("GET", line["baseUrl"] + path, headers=headers)


def add_task(line, **task):
    headers = {"Authorization": f"Bearer {line['token']}"}
    return http.request("POST", line["baseUrl"] + "/tasks", headers=headers, json=task)


def control(line, path, **values):
    return http.request("POST", f"{line['controlUrl']}/{path}", json=values)


def postgres(line):
    """The folder of the data, and the process."""
    folder = Path(conninfo_to_dict(line["databaseUrl"])["host"])
    return folder, int((folder / "postmaster.pid").read_text().split()[0])


def test_the_line_has_all_that_a_harness_needs_and_sigterm_leaves_nothing_behind():
    with started("--token", "tmw_api_of-my-own") as (process, line):
        assert line["token"] == line["user"]["token"] == "tmw_api_of-my-own"
        assert line["pid"] == process.pid
        for user in (line["user"], line["member"], line["stranger"]):
            (workspace,) = get(line, "/workspaces", user["token"]).json()
            assert workspace["id"] == user["workspace"]["id"]
        with psycopg.connect(line["databaseUrl"]) as connection:
            assert connection.execute("SELECT count(*) FROM webhooks").fetchone() == (1,)
        assert control(line, "load", type="task", title="A").status == 200
        assert control(line, "reset").status == 200
        assert get(line, "/tasks").json()["data"] == []
        folder, postmaster = postgres(line)
        process.terminate()
        assert process.wait(20) == 0
        assert process.stdout.read() == ""
    assert not is_running(postmaster)
    assert not folder.exists()


@pytest.mark.parametrize(
    ("number", "moment"),
    [
        (signal.SIGTERM, "postgres"),
        (signal.SIGINT, "postgres/PG_VERSION"),
        (signal.SIGHUP, "postgres/postmaster.pid"),
    ],
)
def test_a_signal_during_the_start_leaves_nothing_behind(number, moment):
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o711)
        process = subprocess.Popen(
            COMMAND,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": folder},
        )
        wait_until(lambda: [*Path(folder).glob(f"task-service-*/{moment}")])
        process.send_signal(number)
        _, errors = process.communicate(timeout=30)
        assert (process.returncode, errors) == (0, "")
        assert not os.listdir(folder)
        running = subprocess.run(["ps", "-A", "-ww", "-o", "args="], capture_output=True, text=True)
        assert folder not in running.stdout


def test_it_ends_with_its_parent():
    parent = [
        sys.executable,
        "-c",
        "import subprocess, sys; subprocess.Popen(sys.argv[1:]); sys.stdin.read()",
        *COMMAND,
    ]
    process = subprocess.Popen(parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    line = json.loads(process.stdout.readline())
    folder, postmaster = postgres(line)
    process.stdin.close()
    process.wait(20)
    wait_until(
        lambda: not is_running(line["pid"]) and not is_running(postmaster) and not folder.exists()
    )
    process.stdout.close()


def test_it_stops_postgres_even_if_it_is_killed():
    with started() as (process, line):
        folder, postmaster = postgres(line)
        process.kill()
        wait_until(lambda: not is_running(postmaster) and not folder.exists())


def test_a_worker_that_was_killed_comes_back_at_the_same_urls():
    with started() as (process, line):
        (worker,) = children(process.pid)
        control(line, "load", type="task", title="A")
        os.kill(worker, signal.SIGKILL)
        assert [task["title"] for task in get(line, "/tasks").json()["data"]] == ["A"]
        assert control(line, "reset").status == 200
        assert get(line, "/tasks").json()["data"] == []


def test_it_uses_the_server_of_a_url_and_drops_its_database_there(database_url):
    def databases():
        with psycopg.connect(database_url) as connection:
            rows = connection.execute("SELECT datname FROM pg_database").fetchall()
        return {name for (name,) in rows}

    server = make_conninfo(database_url, application_name="task-service-double")
    with started("--database", server) as (process, line):
        made = conninfo_to_dict(line["databaseUrl"])["dbname"]
        assert re.fullmatch("task_service_[0-9a-f]{12}", made)
        assert made in databases()
        assert get(line, "/tasks").status == 200
        # As an idle session or a failover ends them.
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'task-service-double'"
            )
        process.terminate()
        assert process.wait(20) == 0
    assert made not in databases()


def test_settings_of_the_environment_hold():
    with started(MAX_BODY="100", WEBHOOK_ALLOW="10.0.0.0/8") as (_, line):
        assert add_task(line, title="A").status == 201
        assert add_task(line, title="A" * 100).status == 413
        for url in ("http://10.0.0.1/hook", "http://127.0.0.1:1/hook"):
            assert control(line, "webhooks", url=url).status == 200


def test_a_slow_request_outlives_the_timeout_of_statements():
    with started(STATEMENT_TIMEOUT="0.5") as (_, line):
        control(line, "faults", kind="slow", seconds=2)
        assert add_task(line, title="A").status == 201


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--json", "--database", "postgresql://127.0.0.1:1/x"], "Error: .*refused"),
        (["--json", "--token", "short"], "'--token': must have 16 to 200 of the characters"),
        (["--json", "--data", "/tmp/x"], "--data cannot be used with --json"),
        (["--token", "tmw_api_" + "0" * 40], "--token cannot be used without --json"),
    ],
)
def test_options_that_cannot_be_are_named_before_anything_starts(options, message):
    ended = subprocess.run(
        [sys.executable, "-m", "service", "dev", *options], capture_output=True, text=True
    )
    assert ended.returncode != 0
    assert ended.stdout == ""
    assert re.search(message, ended.stderr)


def test_a_taken_port_is_named_before_anything_starts():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = subprocess.run([*COMMAND[:-1], port], capture_output=True, text=True, timeout=30)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert (
        ended.stderr == f"Error: port {port}: Address already in use; choose another with --port\n"
    )


def test_the_web_process_of_a_deployment_has_none_of_it(database_url, tmp_path):
    """Python names every module that it imports, in the master and in the workers."""
    log = tmp_path / "log"
    with (
        log.open("wb") as stderr,
        serving(database_url, stderr=stderr, PYTHONVERBOSE="1", DOCS="on") as server,
    ):
        for path in ("/api/tasks", "/api/meetings", "/docs/", "/openapi.json"):
            assert get_path(server.port, path).status in (200, 401)
    imported = set(re.findall(r"^import '(service[a-z_.]*)'", log.read_text(), re.MULTILINE))
    assert {"service.api.tasks", "service.gunicorn.worker"} <= imported
    assert not [name for name in imported if name.startswith("service.devkit.double")]
