"""status: the web processes and workers that are alive, known by the rows that they renew."""

import json
import os
import re
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from faults.documents import pooled
from support.commands import CommandRunner, rows, sentences
from support.database import open_pool
from support.processes import children, get, serving, wait_until, working
from support.receivers import KEY

from service.process import MAX_HOST, application_name, own_host, short_host
from service.settings import Settings


def names(connection):
    return [row["name"] for row in rows(connection, "SELECT name FROM processes ORDER BY name")]


@pytest.mark.slow
@pytest.mark.needs("pgbouncer")
def test_behind_pgbouncer_in_transaction_mode_status_sees_all_processes_each_time(
    database_url, connection, readable, start
):
    with pooled(database_url, readable, 4) as url:
        runner = CommandRunner(start(Settings.read({"DATABASE_URL": url})))

        def status(option="--json"):
            outcome = runner.invoke(["status", option])
            assert outcome.stderr == ""
            return outcome.stdout

        def living():
            document = json.loads(status())
            assert document["problems"] == [], document["processes"]
            return sorted(process["program"] for process in document["processes"])

        settings = {"DATABASE_PREPARE": "off", "WEB_CONCURRENCY": "2", "WEB_THREADS": "2"}
        with serving(url, **settings) as server, working(url, **settings):
            wait_until(lambda: len(names(connection)) == 3, server)
            for _ in range(12):
                # Each request sets the name of its process on whichever session it gets.
                assert {get(server.port).status for _ in range(3)} == {200}
                assert living() == ["web", "web", "worker"]
            figures = status("--metrics").splitlines()
            expected = "up 1", "web_processes 2", "workers 1", "processes_silent 0"
            for figure in (*expected, "connections_needed 0"):
                assert f"task_service_{figure}" in figures
        assert [text.partition(":")[0] for text in sentences(json.loads(status())["problems"])] == [
            "no web process is running, so no request is answered",
            "no worker is running, so deliveries wait and nothing is pruned",
        ]


@pytest.mark.needs("pgbouncer")
def test_status_leaves_no_setting_behind_in_a_session_of_pgbouncer(database_url, readable, start):
    query = "SELECT current_setting('lock_timeout'), current_setting('statement_timeout')"
    with pooled(database_url, readable, 1) as url:
        with psycopg.connect(url, autocommit=True) as client:
            before = client.execute(query).fetchone()
        runner = CommandRunner(start(Settings.read({"DATABASE_URL": url})))
        runner.invoke(["status"])
        with psycopg.connect(url, autocommit=True) as client:
            assert client.execute(query).fetchone() == before


@pytest.mark.slow
def test_a_killed_process_disappears_from_the_list_and_a_frozen_process_stays(app, connection):
    """Another process removes the row if it runs on the same host and finds no such process id."""
    host = os.uname().nodename[:20]
    with serving(connection.info.dsn, WEB_CONCURRENCY="1") as server:
        ended = children(server.pid)[0]
    mine = application_name("web")
    version, (host, _, _) = mine.split(" ")[2], mine.split(" ")[3].rpartition(":")
    # A process of this user that is older than the rows: pytest itself may be younger.
    pgrep = ["pgrep", "-o", "-U", str(os.getuid())]
    frozen = int(subprocess.run(pgrep, check=True, capture_output=True).stdout)
    # Before the last boot, the process id of this test belonged to a worker.
    earlier = f"{host}:{os.getpid()}"
    others = {
        name: f"task-service worker {version} {name}"
        for name in (f"{host}:{ended}", f"{host}:{frozen}", f"elsewhere:{ended}", earlier)
    }
    for place, name in others.items():
        connection.execute(
            "INSERT INTO processes (name, seen_at) VALUES (%s, now() - %s::interval)",
            (name, "59 minutes" if place == earlier else "31 seconds"),
        )
    connection.execute(
        "INSERT INTO processes (name, seen_at) VALUES ('old', now() - interval '61 minutes')"
    )
    pool = open_pool(app)

    def signed():
        # On a busy machine, the first connection can take longer than a check waits for it.
        pool.check_idle()
        return mine in names(connection)

    wait_until(signed)
    left = {*others.values(), mine} - {others[f"{host}:{ended}"], others[earlier]}
    assert {*names(connection)} == left


@pytest.mark.slow
def test_a_stopped_process_removes_its_row_and_a_killed_process_leaves_it(database_url, connection):
    with working(database_url) as worker:
        wait_until(lambda: names(connection), worker)
        worker.send_signal(signal.SIGTERM)
        worker.wait(60)
        assert names(connection) == []
    with working(database_url) as worker:
        wait_until(lambda: names(connection), worker)
        worker.kill()
        worker.wait(60)
        assert len(names(connection)) == 1


@pytest.mark.slow
def test_status_of_one_process_fails_once_the_process_is_frozen(
    database_url, connection, cli, monkeypatch
):
    # A worker looks for deliveries every half a second, and so gives a sign of life that often.
    monkeypatch.setattr("service.commands.status.SILENT", 4)
    with working(database_url, WEBHOOK_KEY=KEY) as worker:
        # This is what compose.yaml asks, with the whole name of the host.
        name = f"{os.uname().nodename}:{worker.pid}"

        answers = []

        def answer():
            answers.append(cli("status", "--process", name))
            return answers[-1]

        wait_until(lambda: answer().exit_code == 0, worker)
        line = (
            rf"{own_host()}:{worker.pid} version \S+ since \S+, [0-9]+ connections, last .* s ago\n"
        )
        assert re.fullmatch(line, answers[-1].stdout)
        # A killed process of another release had the same process id.
        row = (f"task-service worker 1.0.0 {own_host()}:{worker.pid}",)
        insert = "INSERT INTO processes (name, seen_at) VALUES (%s, now() - interval '5 min')"
        connection.execute(insert, row)
        assert answer().exit_code == 0
        connection.execute("DELETE FROM processes WHERE name = %s", row)
        worker.send_signal(signal.SIGSTOP)
        try:
            wait_until(lambda: answer().exit_code == 1, worker)
            said = rf"Error: the worker process {own_host()}:{worker.pid} has given no sign of life"
            assert re.match(rf"{said} for [0-9]+ s\n", answers[-1].stderr)
            # The row is still there: the line of the process alone does not say that it lives.
            assert f"worker        {own_host()}:{worker.pid} " in cli("status").stdout
        finally:
            worker.send_signal(signal.SIGCONT)
        wait_until(lambda: answer().exit_code == 0, worker)
    ended = answer()
    assert (ended.exit_code, ended.stdout) == (1, "")
    assert ended.stderr.startswith(f"Error: no process has the name {own_host()}:{worker.pid}")


@pytest.mark.nodatabase
def test_hosts_whose_long_names_differ_only_at_the_end_are_different_hosts():
    """The pods of a Kubernetes deployment have such names, and all their processes the id 1."""
    pods = [f"task-service-worker-7d9f8b6c5-{end}" for end in ("abcde", "fghij")]
    first, second = map(short_host, pods)
    assert first != second
    assert max(len(first), len(second)) <= MAX_HOST
    assert short_host("host7") == "host7"
    # The name of each program has it whole, so that a worker knows the web processes of its host.
    for program in ("web", "worker"):
        name = application_name(program).split(" ")
        assert (len(name), name[3].rpartition(":")[0]) == (4, own_host())


def test_a_process_gives_its_sign_of_life_once_one_of_its_connections_is_free(build, connection):
    pool = open_pool(build(web_threads=1))
    taken = pool.getconn()
    with ThreadPoolExecutor(1) as thread:
        check = thread.submit(pool.check_idle)
        assert not check.done()
        pool.putconn(taken)
        check.result(10)
    assert names(connection) == [application_name("web")]


@pytest.mark.slow
@pytest.mark.parametrize("speedups", [pytest.param("on", marks=pytest.mark.speedups), "off"])
def test_status_says_of_each_web_process_whether_it_uses_the_speedups(speedups, other, status_of):
    with serving(other, SPEEDUPS=speedups, WEB_CONCURRENCY="1") as server, working(other) as worker:
        page = ""

        def both_live():
            nonlocal page
            page = status_of(other).stdout
            return {"web", "worker"} <= {line.partition(" ")[0] for line in page.splitlines()}

        wait_until(both_live, server)
        assert worker.poll() is None
        processes = json.loads(status_of(other, "--json").stdout)["processes"]
    found = {process["program"]: process["speedups"] for process in processes}
    assert found == {"web": speedups == "on", "worker": None}
    web, worker = [line for line in page.splitlines() if line.startswith(("web ", "worker "))]
    assert f" since {processes[0]['startedAt']}, speedups {speedups}, " in web
    assert "speedups" not in worker


def test_on_a_read_only_database_status_reports_no_number_of_processes(other, status_of):
    with psycopg.connect(other, autocommit=True) as changing:
        name = changing.info.dbname
        changing.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    assert len(json.loads(status_of(other, "--json").stdout)["problems"]) == 1
    figures = status_of(other, "--metrics").stdout
    assert "task_service_database_read_only 1" in figures
    assert "task_service_web_processes" not in figures
