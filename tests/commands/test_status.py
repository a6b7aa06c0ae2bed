"""status: the state of the database, the processes and the webhooks, and their problems."""

import json
import os
import re
import subprocess
import tempfile
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner
from psycopg.conninfo import conninfo_to_dict
from support import project as pages
from support.commands import CommandRunner, rows, sentences
from support.http import Client
from support.processes import wait_until
from support.receivers import FINGERPRINT, announce, subscribe
from support.rows import TOKENS, grants
from support.statements import waiting

from service.__main__ import main
from service.commands.status import database, processes, schema, webhooks
from service.commands.status.database import megabytes
from service.commands.status.section import GRANT, Process, Reader
from service.database.pool import connect
from service.database.remedies import RIGHTS
from service.database.statements import SQL, catalogue, migrations, schema_objects
from service.process import own_host
from service.settings import Settings
from service.version import build
from service.webhooks.secrets import fingerprint

VERSION = build()
PATTERN = re.escape(VERSION)
NO_WORKER = "no worker is running, so deliveries wait and nothing is pruned: start a worker"


@contextmanager
def living(url, program, version=VERSION, process="host7:4711", seen="0 s"):
    """Act as a process of the service whose last sign of life was ``seen`` ago.

    Yield its connection.
    """
    name = f"task-service {program} {version} {process}"
    with (
        psycopg.connect(url, autocommit=True) as others,
        psycopg.connect(url, application_name=name) as connection,
    ):
        sign = "INSERT INTO processes (name, seen_at) VALUES (%s, now() - %s::interval)"
        others.execute(sign, (name, seen))
        yield connection


@pytest.fixture
def web(database_url):
    with living(database_url, "web"):
        yield


@pytest.fixture
def worker(database_url, web):
    with living(database_url, "worker") as connection:
        yield connection


def report(cli):
    outcome = cli("status", "--json")
    assert outcome.stderr == ""
    document = json.loads(outcome.stdout)
    return outcome.exit_code, {**document, "problems": sentences(document["problems"])}


@pytest.mark.usefixtures("worker")
def test_if_all_is_well_status_exits_with_0_and_prints_no_problem_in_text_and_json(
    app, cli, database_url
):
    Client(app, TOKENS["alice"]).get("/tasks")
    outcome = cli("status")
    assert (outcome.exit_code, outcome.stderr) == (0, "")
    page = outcome.stdout
    name = conninfo_to_dict(database_url)["dbname"]
    for pattern in (
        rf"^version       {PATTERN}$",
        rf"^database      {name} on .*, PostgreSQL [0-9.]+.*, [0-9.]+ MiB$",
        r"^table         \w+ [0-9.]+ MiB$",
        r"^migrations    [0-9]+ applied, 0 pending, 0 newer$",
        r"^clock         [+-]0\.[0-9]{3} s against this host$",
        r"^connections   [0-9]+ used of [0-9]+ allowed; the processes may open [0-9]+$",
        r"^transactions  the oldest runs for [0-9.]+ s$",
        rf"^web           host7:4711 version {PATTERN} since .*Z, [0-9]+ connections, last sign of",
        rf"^worker        host7:4711 version {PATTERN} since .*Z, 1 connections, last sign of life",
        r"^deliveries    0 waiting, 0 overdue \(the oldest by 0 s\), 0 failed$",
        r"^webhooks      0 enabled, 0 failing, 0 disabled$",
        r"^oldest        idempotency key 0\.0 h, pruned after 24 h$",
    ):
        assert re.search(pattern, page, re.MULTILINE), pattern
    assert "PROBLEM" not in page
    code, document = report(cli)
    assert (code, document["problems"]) == (0, [])
    assert document["version"] == VERSION
    sizes = [table["bytes"] for table in document["tables"]]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[-1]
    assert abs(document["clockAheadSeconds"]) < 60
    assert document["server"]["connectionsUsed"] <= document["server"]["connectionsAllowed"]
    (worker,) = [item for item in document["processes"] if item["program"] == "worker"]
    assert (worker["process"], worker["connections"]) == ("host7:4711", 1)
    assert {item["kind"]: item["keptSeconds"] for item in document["oldest"]} == {
        "event": 216 * 3600,
        "idempotency key": 24 * 3600,
        "usage": 48 * 3600,
    }


@pytest.mark.usefixtures("worker")
def test_each_metric_is_printed_with_its_help_its_type_and_a_number(cli, cast, connection):
    subscribe(connection, cast["acme"], "http://127.0.0.1/")
    announce(connection, cast["acme"], 2)
    outcome = cli("status", "--metrics")
    assert (outcome.exit_code, outcome.stderr) == (0, "")
    metric = (
        r"# HELP task_service_([a-z_]+) .+\.\n# TYPE task_service_\1 gauge\n"
        r"task_service_\1(\{version=\".+\"\})? (-?[0-9.e+-]+)\n"
    )
    assert re.fullmatch(f"({metric.replace('1', '2')})+", outcome.stdout)
    found = re.findall(metric, outcome.stdout)
    numbers = {name: float(number) for name, _, number in found}
    assert len(numbers) == len(found)
    assert [labels for name, labels, _ in found if labels] == [f'{{version="{build()}"}}']
    assert (numbers["up"], numbers["problems"], numbers["workers"]) == (1, 0, 1)
    assert (numbers["deliveries_waiting"], numbers["deliveries_overdue"]) == (2, 0)
    assert (numbers["webhooks_enabled"], numbers["waiting_for_syncrep"]) == (1, 0)
    assert (numbers["standby_behind_bytes"], numbers["standby_behind_seconds"]) == (0, 0)
    assert (numbers["longest_wait_for_lock_seconds"], numbers["servers_silent"]) == (0, 0)


@pytest.mark.usefixtures("worker")
def test_every_metric_that_the_operations_page_the_rules_and_the_dashboard_use_is_printed(cli):
    printed = set(re.findall("(?m)^task_service_[a-z_]+", cli("status", "--metrics").stdout))
    files = "prometheus-rules.yml", "grafana.json"
    printed |= {
        *("task_service_requests_total", "task_service_request_duration_seconds"),
        *(f"task_service_request_duration_seconds_{end}" for end in ("sum", "bucket")),
        *("task_service_database_seconds_total",),
        *re.findall("task_service_[a-z_]+", pages.read("docs/deploy/task-service-metrics")),
    }
    named = set(re.findall("`(task_service_[a-z_]+)`", pages.read("docs/operations/running.md")))
    ruled, shown = (
        set(re.findall("task_service_[a-z_]+", pages.read(f"docs/deploy/{file}"))) for file in files
    )
    assert (named | ruled | shown) - printed == set()
    # The page says why no rule has them.
    assert named & {"task_service_database_bytes", "task_service_webhooks_disabled"} - ruled
    assert {"task_service_up", "task_service_problems", "task_service_workers"} <= ruled


@pytest.mark.nodatabase
def test_the_rules_of_alerts_have_the_thresholds_of_status():
    rules = pages.read("docs/deploy/prometheus-rules.yml")
    for threshold in (
        f"longest_wait_for_lock_seconds >= {schema.WAITED} ",
        f"longest_lock_seconds > {schema.LOCK}\n",
        f"longest_wait_for_syncrep_seconds > {processes.STANDBY} ",
        f"connections_used > {database.CONNECTIONS} * task_service_connections_allowed",
        f"oldest_idempotency_key_seconds > {86400 + webhooks.UNPRUNED}\n",
        f"oldest_transaction_seconds > {database.FORGOTTEN}\n",
        f"abs(task_service_clock_ahead_seconds) > {database.CLOCK} ",
        f"task_service_clock_leapt_seconds > {database.LEAP}\n",
    ):
        assert threshold in rules
    failing = rules.partition("task_service_webhooks_failing > 0\n")[2].split("\n")[0]
    assert (failing.strip(), webhooks.FAILING) == ("for: 1h", 3600)


@pytest.mark.usefixtures("web")
def test_a_problem_is_printed_on_a_line_and_status_exits_with_1(cli):
    outcome = cli("status")
    assert outcome.exit_code == 1
    assert outcome.stdout.splitlines()[-1] == f"PROBLEM       {NO_WORKER}"
    assert report(cli)[1]["problems"] == [NO_WORKER]
    outcome = cli("status", "--metrics")
    assert outcome.exit_code == 0
    assert "task_service_problems 1\n" in outcome.stdout
    assert "task_service_workers 0\n" in outcome.stdout


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            "UPDATE deliveries SET due_at = now() - interval '5 minutes'",
            r"2 deliveries are overdue, the oldest by 30[0-9] s: is a worker with WEBHOOK_KEY run",
        ),
        (
            "UPDATE webhooks SET failing_since = '2026-01-02T03:04:05Z'",
            r"webhook {id} of acme has failed since 2026-01-02T03:04:05.000Z: the command webhook",
        ),
        (
            "UPDATE webhooks SET disabled_at = now(), disabled_reason = 'a reason'",
            r"webhook {id} of acme is disabled: a reason: enable or delete it",
        ),
        (
            "INSERT INTO idempotency_keys (workspace_id, user_id, key, fingerprint, created_at)"
            " SELECT workspace_id, id, 'k', '', now() - interval '26 hours' FROM webhooks",
            r"the oldest idempotency key is 26 h old, and should have been pruned after 24 h",
        ),
        (
            "UPDATE events SET created_at = now() - interval '10 days 2 hours';"
            "UPDATE deliveries SET state = 'failed', finished_at = now() - interval '10 days'",
            r"the oldest event is 242 h old, and should have been pruned after 216 h",
        ),
    ],
)
def test_overdue_failing_or_unpruned_rows_are_a_problem(change, problem, cli, cast, connection):
    webhook = subscribe(connection, cast["acme"], "http://127.0.0.1/")
    announce(connection, cast["acme"], 2)
    connection.execute("UPDATE webhooks SET failing_since = now() - interval '59 minutes'")
    assert report(cli)[1]["problems"] == []
    connection.execute("UPDATE webhooks SET failing_since = NULL")
    try:
        connection.execute(change)
        code, document = report(cli)
    finally:
        connection.execute("DELETE FROM idempotency_keys")
    (found,) = document["problems"]
    assert code == 1
    assert re.match(problem.replace("{id}", webhook), found)


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("who", ["operator", "owner"])
def test_status_does_not_complain_about_a_webhook_that_a_person_has_disabled(
    cli, alice, cast, connection, who
):
    webhook = subscribe(connection, cast["acme"], "http://127.0.0.1/")
    announce(connection, cast["acme"])
    connection.execute("UPDATE deliveries SET due_at = now() - interval '5 minutes'")
    if who == "operator":
        cli("webhook", "disable", webhook)
    else:
        assert alice.patch(f"/webhooks/{webhook}", {"enabled": False}).status_code == 200
    code, document = report(cli)
    assert (code, document["problems"]) == (0, [])
    assert document["deliveries"]["waiting"] == 1


@pytest.mark.usefixtures("worker")
def test_a_key_that_webhook_key_does_not_list_is_a_problem(webhooks_app, cast, connection):
    runner = CommandRunner(webhooks_app)
    lost = fingerprint("a key that was lost, of 32 or more characters")
    for key in (lost, lost, lost, FINGERPRINT):
        subscribe(connection, cast["acme"], "http://127.0.0.1/", key_fingerprint=key)
    connection.execute(
        "UPDATE webhooks SET disabled_at = now(), disabled_reason = 'by an operator'"
        " WHERE id = (SELECT min(id::text)::uuid FROM webhooks)"
    )
    code, document = report(lambda *words: runner.invoke(args=words))
    assert code == 1
    (key,) = document["missingKeys"]
    assert (key["keyFingerprint"], key["webhooks"]) == (lost, 2)
    (problem,) = document["problems"]
    assert problem == (
        f"WEBHOOK_KEY does not list the key {lost}, for which 2 webhook(s) wait, {key['example']}"
        " among them: add that key at the end of WEBHOOK_KEY, or rotate the secrets of these"
        " webhooks"
    )
    metrics = runner.invoke(args=["status", "--metrics"]).stdout
    assert "task_service_webhooks_without_key 2\n" in metrics


@pytest.mark.parametrize(
    ("host", "version", "is_problem"),
    [
        (own_host(), "0.9.0", True),
        (own_host(), f"{VERSION.partition('+')[0]}+0123abc", True),
        (own_host(), "100.0.0", False),
        ("host7", "0.9.0", False),
        ("host7", "100.0.0+0123abc", False),
    ],
)
@pytest.mark.usefixtures("worker")
def test_a_process_of_another_version_is_a_problem_only_if_it_is_older_and_of_this_host(
    host, version, is_problem, cli, database_url
):
    """During an upgrade of several hosts, two releases serve, and each host runs ``status``."""
    with living(database_url, "web", version, f"{host}:4712"):
        code, document = report(cli)
    text = f"the web process {host}:4712 runs version {version}, but this command is {VERSION}"
    found = code, document["problems"], document["notes"]
    assert found == ((1, [f"{text}: restart it"], []) if is_problem else (0, [], [{"text": text}]))


@pytest.fixture
def reader(database_url):
    settings = {"DATABASE_URL": database_url, "WEB_CONCURRENCY": "3", "WEB_THREADS": "5"}
    with connect(Settings.read(settings), "status") as connection:
        yield Reader(connection, Settings.read(settings))


def process(program, name, silent_seconds):
    return Process(program, VERSION, name, None, 1, "2026-01-01T00:00:00.000Z", silent_seconds)


def test_a_figure_is_a_problem_only_beyond_its_threshold(reader):
    reader.processes = [process("worker", "a:1", 60), process("worker", "b:2", 9.5)]
    for used, allowed, problems in (
        (20, 25, ""),
        (21, 25, "21 of 25 connections are in use: .*"),
        (0, 24, "the processes may open 25 connections, and the server allows 24: .*"),
    ):
        figures = {"connections_used": used, "connections_allowed": allowed}
        reader.server = reader.server._replace(**figures)
        assert re.fullmatch(
            problems, "; ".join(map(str, database.read_connections(reader).problems))
        )
    for seconds, number in ((5, 0), (-5, 0), (5.1, 1), (-5.1, 1)):
        reader.clock_ahead = seconds
        problems = database.read_clock(reader).problems
        assert [f"differs by {seconds} s" in each.text for each in problems] == [True] * number
    reader.processes += [process("web", "c:3", 59)]
    section = processes.read_processes(reader)
    assert (section.problems, section.metrics["workers"]) == ([], 2)
    reader.processes += [process("web", "d:4", 61)]
    section = processes.read_processes(reader)
    (problem,) = section.problems
    assert problem.text == "the web process d:4 has given no sign of life for 61 s"
    assert "start its host again" in problem.remedy
    # Nobody gets up for a host that is gone: a container that was replaced, a restored backup.
    assert section.metrics == {"web_processes": 1, "workers": 2, "processes_silent": 0}
    reader.processes += [process("web", "d:5", 1)]
    section = processes.read_processes(reader)
    (problem,) = section.problems
    assert "kill -9" in problem.remedy
    assert section.metrics == {"web_processes": 2, "workers": 2, "processes_silent": 1}


@pytest.mark.slow
def test_a_lock_is_a_problem_once_somebody_has_waited_for_it_for_a_second(
    reader, database_url, connection, monkeypatch
):
    # Raise the threshold for locks that nobody waits for, so that only waiting makes a problem.
    monkeypatch.setattr(schema, "LOCK", 600)
    with (
        ThreadPoolExecutor(2) as threads,
        living(database_url, "plan list") as first,
        living(database_url, "plan list", process="host7:4712") as second,
        psycopg.connect(database_url, application_name="holder") as holder,
    ):
        holder.execute("LOCK TABLE plans")
        assert schema.read_locks(reader).problems == []
        for number, waiter in enumerate((first, second), 1):
            running = threads.submit(waiter.execute, "SELECT FROM plans")
            wait_until(lambda number=number: waiting(connection) == number)
        wait_until(lambda: schema.read_locks(reader).problems)
        pid = holder.info.backend_pid
        (problem,) = schema.read_locks(reader).problems
        assert re.fullmatch(
            rf"process {pid} \(holder, idle in transaction for [0-9]+ s: LOCK TABLE plans\) locks"
            rf" plans; 2 wait, the longest [1-9]\d*\.\d s; to end it: SELECT"
            rf" pg_terminate_backend\({pid}\)",
            str(problem),
        )
        section = processes.read_waits(reader)
        for _, line in section.lines:
            assert re.search(rf"plan list .* for lock of {pid} holder idle in tran", line)
        seconds = [wait.seconds for wait in section.figures["waits"]]
        assert seconds == sorted(seconds, reverse=True)
        assert section.metrics["waiting_for_lock"] == 2
        assert section.metrics["longest_wait_for_lock_seconds"] == max(seconds) > min(seconds)
        holder.rollback()
        running.result(10)
    reader.locked = ["tables"]
    (problem,) = schema.read_locks(reader).problems
    assert problem.text == "a lock of a table hid the figures of tables, and has ended since"


@pytest.mark.slow
@pytest.mark.parametrize("hidden", [False, True])
def test_a_row_lock_of_a_person_is_a_problem_and_its_remedy_ends_it(
    hidden, used, stranger, status_of, monkeypatch
):
    """Without pg_read_all_stats, status sees neither the age nor the statement of the session.

    Then it also cannot see a lock for which nobody waits.
    """
    role, url = stranger
    with psycopg.connect(used, autocommit=True) as connection:
        connection.execute(grants(connection.info.dbname, role))
        connection.execute("INSERT INTO workspaces (name, slug) VALUES ('A', 'a')")
        if not hidden:
            connection.execute(f"GRANT pg_read_all_stats TO {role}")

    def found():
        lines = status_of(url).stdout.splitlines()
        return [line[14:] for line in lines if line.startswith("PROBLEM")]

    update = "UPDATE workspaces SET name = name"
    with (
        ThreadPoolExecutor(1) as threads,
        psycopg.connect(used, application_name="psql") as person,
        psycopg.connect(url, application_name="task-service web") as service,
    ):
        person.execute("SELECT FROM workspaces FOR UPDATE")
        monkeypatch.setattr(schema, "LOCK", -1)
        assert len(found()) == (0 if hidden else 1)
        # However slow this machine is, the lock is not older.
        monkeypatch.setattr(schema, "LOCK", 3600)
        assert found() == []
        waiter = threads.submit(service.execute, update)
        wait_until(found)
        (problem,) = found()
        pid = person.info.backend_pid
        shown = (
            f"its statement is hidden: {GRANT}"
            if hidden
            else r"idle in transaction for [1-9]\d* s: SELECT FROM workspaces FOR UPDATE"
        )
        end = re.fullmatch(
            rf"process {pid} \(psql[,;] {shown}\) locks workspaces; 1 wait, the longest"
            r" \d+\.\d s; to end it: (.*)",
            problem,
        )[1]
        with psycopg.connect(used, autocommit=True) as superuser:
            superuser.execute(end)
        person.close()
        waiter.result(10)
        assert found() == []


@pytest.mark.usefixtures("worker")
def test_a_forgotten_transaction_is_a_problem_and_its_remedy_ends_it(
    cli, database_url, connection, monkeypatch
):
    with (
        psycopg.connect(database_url, application_name="psql") as person,
        psycopg.connect(database_url, application_name="pg_dump") as dump,
        psycopg.connect(database_url, application_name="busy", autocommit=True) as busy,
        ThreadPoolExecutor(1) as threads,
    ):
        # It locks no row, so it is not listed with the locks.
        person.execute("SELECT name\n  FROM plans")
        dump.execute("SELECT FROM plans")
        running = threads.submit(busy.execute, "SELECT pg_sleep(60)")
        # However slow this machine is, the transaction is not older.
        monkeypatch.setattr(database, "FORGOTTEN", 3600)
        assert report(cli)[1]["problems"] == []
        monkeypatch.setattr(database, "FORGOTTEN", 0)
        code, document = report(cli)
        connection.execute(
            "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'busy'"
        )
        with pytest.raises(psycopg.errors.QueryCanceled):
            running.result(10)
        pid = person.info.backend_pid
        (problem,) = document["problems"]
        assert code == 1
        end = re.fullmatch(
            rf"process {pid} \(psql\) has had a transaction open for \d+ s, idle after SELECT name"
            r" FROM plans; to end it: (.*)",
            problem,
        )[1]
        connection.execute(end)
        with pytest.raises(psycopg.OperationalError):
            person.execute("SELECT")
        person.close()
        monkeypatch.setattr(database, "FORGOTTEN", 3600)
        assert report(cli)[0] == 0


SILENT = {
    "": (1, r"server +/nowhere:5432 silent\nPROBLEM +the database does not answer: .+: start P"),
    "--json": (
        1,
        r'(?s)\{\s*"servers": .+"problems": \[\s*\{\s*"text": "the database does not answer",'
        r'\s*"remedy": ".+"',
    ),
    "--metrics": (
        0,
        r"(?s).*\ntask_service_up 0\n.*\ntask_service_problems 1\n.*_servers_silent 1\n",
    ),
}


@pytest.mark.nodatabase
@pytest.mark.parametrize("option", SILENT)
def test_without_a_database_status_says_so_in_each_output_format(option):
    code, stdout = SILENT[option]
    words = ["status", *option.split()]
    ended = CliRunner().invoke(main, words, env={"DATABASE_URL": "host=/nowhere"})
    # Any other exception would print a traceback.
    assert isinstance(ended.exception, SystemExit | None)
    assert (ended.exit_code, ended.stderr) == (code, "")
    assert re.match(stdout, ended.stdout)


@pytest.fixture
def used(other):
    """Yield the URL of a database that a test may break; web and worker use it."""
    with living(other, "web"), living(other, "worker"):
        yield other


def run_in(url, sql):
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.format(database=connection.info.dbname))


def problems(outcome):
    return sentences(json.loads(outcome.stdout)["problems"])


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            "DROP SCHEMA public CASCADE; CREATE SCHEMA public",
            r"migrations are pending \(0001-functions, .*\): run the command migrate, or correct"
            r" the name.*",
        ),
        (
            "UPDATE schema_migrations SET name = '0002-other' WHERE name = '0002-accounts'",
            r"the database has migrations that this release lacks \(0002-other\), and lacks some of"
            r" this release \(0002-accounts\): .*",
        ),
        (
            "ALTER TABLE plans RENAME TO renamed; ALTER TABLE mail RENAME TO other",
            f"the tables mail, plans are missing {schema.BY_HAND}: {schema.CHANGE_BACK}",
        ),
        (
            "ALTER FUNCTION iso RENAME TO renamed",
            f"the function iso is missing {schema.BY_HAND}: {schema.CHANGE_BACK}",
        ),
        (
            "ALTER TABLE webhooks RENAME failing_since TO renamed",
            f"missing, invalid or disabled {schema.BY_HAND}: column webhooks.failing_since: .*",
        ),
        (
            "DROP INDEX tasks_by_due_date; ALTER TABLE meetings DISABLE TRIGGER next_version",
            f"missing, invalid or disabled {schema.BY_HAND}: index tasks_by_due_date, trigger"
            f" meetings.next_version: {schema.CHANGE_BACK}",
        ),
        (
            "ALTER TABLE tokens DROP CONSTRAINT tokens_user_id_fkey",
            f"missing, invalid or disabled {schema.BY_HAND}: constraint tokens.tokens_user_id_fkey:"
            f" {schema.CHANGE_BACK}",
        ),
    ],
    ids=["pending", "another release", "renamed", "function", "column", "two", "constraint"],
)
def test_a_schema_that_differs_from_the_release_is_the_only_problem_reported(
    change, problem, used, status_of
):
    run_in(used, change)
    outcome = status_of(used, "--json")
    assert outcome.exit_code == 1
    (found,) = problems(outcome)
    assert re.fullmatch(problem, found)
    assert json.loads(outcome.stdout)["notes"] == []


def test_the_command_status_mentions_migrations_of_a_newer_release_but_reports_no_problem(
    used, status_of
):
    row = "('9999-later', repeat('0', 64), now(), '9.9.9')"
    run_in(used, f"INSERT INTO schema_migrations VALUES {row}")
    note = (
        "the database has migrations of a newer release, with which this release works: 9999-later"
    )
    outcome = status_of(used)
    assert (outcome.exit_code, outcome.stderr) == (0, "")
    assert f"note          {note}\n" in outcome.stdout
    document = json.loads(status_of(used, "--json").stdout)
    assert sentences(document["notes"]) == [note]
    found = {
        "applied": len(migrations()) + 1,
        "pending": [],
        "newer": ["9999-later"],
        "changed": [],
    }
    assert document["migrations"] == found


def test_a_missing_web_process_is_a_problem(other, status_of):
    with living(other, "worker"):
        outcome = status_of(other, "--json")
    assert problems(outcome) == ["no web process is running, so no request is answered: start web"]
    # The web processes that are to start need these connections, and one worker.
    settings = Settings.read({})
    needed = (settings.web_concurrency + 1) * settings.web_threads
    assert json.loads(outcome.stdout)["connectionsNeeded"] == needed


@pytest.mark.slow
def test_a_read_only_database_is_a_problem(used, status_of):
    run_in(used, "ALTER DATABASE {database} SET default_transaction_read_only = on")
    outcome = status_of(used, "--json")
    (problem,) = problems(outcome)
    assert problem.startswith("every request is 503, as the database is read-only: ")
    assert "task_service_database_read_only 1\n" in status_of(used, "--metrics").stdout


def test_missing_rights_are_the_only_problem_and_figures_that_need_them_are_zero(
    used, stranger, status_of
):
    _, url = stranger
    outcome = status_of(url, "--json")
    assert outcome.stderr == ""
    (problem,) = problems(outcome)
    with psycopg.connect(used) as connection:
        owner = connection.info.user
    match = re.fullmatch(
        r"the user of DATABASE_URL lacks rights on the tables (.*) and the sequence"
        rf" event_positions, which belong to {owner}: {RIGHTS}",
        problem,
    )
    assert match[1].split(", ") == sorted(schema_objects()["tables"])
    figures = json.loads(outcome.stdout)
    assert set(figures["deliveries"].values()) == {0}
    assert figures["migrations"] == {"applied": 0, "pending": [], "newer": [], "changed": []}


@pytest.mark.slow
def test_if_a_session_with_a_lock_is_hidden_status_names_the_grant_that_reveals_the_session(
    used, stranger, status_of
):
    role, url = stranger
    with psycopg.connect(used, autocommit=True) as connection:
        connection.execute(grants(connection.info.dbname, role))
    with psycopg.connect(used, application_name="maintenance") as holder:
        holder.execute("LOCK TABLE webhooks")
        pid = holder.info.backend_pid
        outcome = status_of(url)
        settings = Settings.read({"DATABASE_URL": url})
        with connect(settings, "status") as other_reader:
            # The age of the lock is hidden too, so the lock alone is not a problem.
            assert schema.read_locks(Reader(other_reader, settings)).problems == []
    assert (
        f"PROBLEM       process {pid} (maintenance; its statement is hidden: to see"
        " more, GRANT pg_read_all_stats TO the user of DATABASE_URL) locks webhooks, which hides"
        f" the figures of tables, deliveries, webhooks; to end it: SELECT"
        f" pg_terminate_backend({pid})\n"
    ) in outcome.stdout
    assert re.search(
        r"(?m)^transactions  the oldest runs for [0-9.]+ s; [1-9] sessions are hidden: to see more",
        outcome.stdout,
    )


def test_a_full_disk_is_a_problem(used, status_of):
    with psycopg.connect(used, autocommit=True) as connection:
        (data,) = connection.execute("SHOW data_directory").fetchone()
        folder = tempfile.mkdtemp(dir=Path(data).parent)
        mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "none", folder]
        if subprocess.run(mount, capture_output=True).returncode:
            pytest.skip("only root can mount a small disk")
        owner = os.stat(data)
        os.chown(folder, owner.st_uid, owner.st_gid)
        space = f"small_{uuid.uuid4().hex[:12]}"
        name = connection.info.dbname
        connection.execute(f"CREATE TABLESPACE {space} LOCATION '{folder}'")
        try:
            connection.execute(f"ALTER DATABASE {name} SET temp_tablespaces = {space}")
            outcome = status_of(used, "--json")
        finally:
            connection.execute(f"ALTER DATABASE {name} RESET temp_tablespaces")
            connection.execute(f"DROP TABLESPACE {space}")
            subprocess.run(["umount", "--lazy", folder], check=True)
    assert problems(outcome) == ["the disk of the database is full: free or extend it"]


CATALOGUE = """
SELECT kind, table_name, name FROM (
    SELECT 'column' AS kind, attrelid::regclass::text AS table_name, attname::text AS name
      FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
     WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
       AND attnum > 0 AND NOT attisdropped
     UNION
    SELECT 'index', indrelid::regclass::text, relname
      FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
     WHERE relnamespace = 'public'::regnamespace
     UNION
    SELECT 'trigger', tgrelid::regclass::text, tgname FROM pg_trigger WHERE NOT tgisinternal
     UNION
    SELECT 'constraint', conrelid::regclass::text, conname FROM pg_constraint
     WHERE connamespace = 'public'::regnamespace AND conrelid <> 0 AND contype NOT IN ('n', 't')
     UNION
    SELECT 'constraint', attrelid::regclass::text, conname
      FROM pg_constraint JOIN pg_attribute ON atttypid = contypid
      JOIN pg_class ON pg_class.oid = attrelid
     WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND NOT attisdropped
       AND contype = 'c'
     UNION
    SELECT 'sequences', NULL, relname FROM pg_class
     WHERE relkind = 'S' AND relnamespace = 'public'::regnamespace
) AS part
 ORDER BY kind, table_name COLLATE "C", name COLLATE "C"
"""


def test_the_file_of_the_catalogue_has_what_a_migrated_database_has(connection):
    """Types are left out: nobody needs a right to use them."""
    found = {"tables": {}, "sequences": []}
    for row in rows(connection, CATALOGUE):
        table = row["table_name"]
        parts = found["tables"].setdefault(table, {}) if table else found
        parts.setdefault(row["kind"], []).append(row["name"])
    if found != catalogue():
        (SQL / "catalogue.json").write_text(json.dumps(found, indent=1) + "\n")
        pytest.fail("sql/catalogue.json was updated: commit it if the difference is right")


def test_the_files_of_functions_have_all_functions_of_a_migrated_database(connection):
    found = rows(
        connection, "SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace"
    )
    assert {row["proname"] for row in found} == {*schema_objects()["functions"]}


@pytest.mark.slow
@pytest.mark.parametrize("value", ["false", "off"])
def test_a_table_whose_autovacuum_is_off_is_a_problem_with_its_remedy(value, used, status_of):
    run_in(used, f"ALTER TABLE tasks SET (autovacuum_enabled = {value})")
    (problem,) = problems(status_of(used, "--json"))
    text, _, remedy = problem.rpartition(": ")
    assert text == "autovacuum is off for the table tasks, which grows without end"
    run_in(used, remedy)
    assert problems(status_of(used, "--json")) == []


@pytest.mark.slow
def test_more_dead_rows_than_live_ones_are_a_problem(used, status_of, monkeypatch):
    monkeypatch.setattr(database, "DEAD_ROWS", 10)
    # Without this setting, autovacuum could remove the dead rows before status reads their number.
    run_in(used, "ALTER TABLE plans SET (autovacuum_vacuum_threshold = 100000)")
    with psycopg.connect(used, autocommit=True) as connection:
        # As many dead rows, but more live ones.
        connection.execute("INSERT INTO deleted_users SELECT new_id() FROM generate_series(1, 40)")
        connection.execute(
            "UPDATE deleted_users SET deleted_at = now()"
            " WHERE id IN (SELECT id FROM deleted_users LIMIT 12)"
        )
        for _ in range(12):
            connection.execute("UPDATE plans SET per_minute = per_minute + 1")
    wait_until(lambda: problems(status_of(used, "--json")))
    (problem,) = problems(status_of(used, "--json"))
    assert problem.startswith("the table plans has more dead rows than live ones: ")
    assert re.search("task_service_dead_rows [1-9]", status_of(used, "--metrics").stdout)


def test_a_connection_limit_of_the_role_below_what_the_processes_open_is_a_problem(
    used, stranger, status_of
):
    role, url = stranger
    with psycopg.connect(used, autocommit=True) as connection:
        connection.execute(grants(connection.info.dbname, role))
        connection.execute(f"ALTER ROLE {role} CONNECTION LIMIT 3")
    found = problems(status_of(url, "--json"))
    (problem,) = [text for text in found if "the role may open 3" in text]
    assert "CONNECTION LIMIT -1" in problem


@pytest.mark.nodatabase
def test_a_size_is_shown_in_mebibytes():
    assert megabytes(3 * 2**20 + 2**19) == "3.5 MiB"
