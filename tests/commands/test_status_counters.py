"""status: the counters of all processes, and the corruption that processes have met."""

import re
import uuid
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row
from support.commands import CommandRunner, rows
from support.database import open_pool
from support.http import Client
from support.processes import get, serving
from support.rows import TOKENS, restore_cast

from service import logs
from service.database.remedies import CORRUPTED
from service.settings import Settings


def metrics(cli):
    lines = cli("status", "--metrics").stdout.splitlines()
    return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))


@pytest.mark.slow
def test_the_counters_include_requests_of_all_processes_even_of_processes_that_have_ended(
    cli, database_url
):
    for requests in (3, 2):
        with serving(database_url, WEB_CONCURRENCY="2") as server:
            for _ in range(requests):
                assert get(server.port, "/api/tasks").status == 200
    found = metrics(cli)
    labels = 'method="GET",route="/api/tasks"'
    assert found[f'task_service_requests_total{{{labels},status="200"}}'] == "5"
    name = "task_service_request_duration_seconds"
    assert found[f'{name}_bucket{{{labels},le="+Inf"}}'] == "5"
    assert found[f"{name}_count{{{labels}}}"] == "5"
    assert 0 < float(found[f"{name}_sum{{{labels}}}"]) < 5 * 10
    assert float(found["task_service_database_seconds_total"]) > 0


def test_a_bucket_counts_each_request_that_took_at_most_its_time_and_counts_are_saved_when_due(
    build, cli
):
    pool = open_pool(build())
    counters = pool.counters
    for seconds in (0.01, 0.02, 0.3, 7):
        counters.requests.append(("GET", "/api/tasks", 200, seconds, seconds / 2))
    pool.check_idle()
    counters.requests.append(("GET", "/api/tasks", 200, 1, 0))
    pool.check_idle()
    found = {name.partition("bucket")[2]: number for name, number in metrics(cli).items()}
    numbers = [found[f'{{method="GET",route="/api/tasks",le="{le}"}}']
               for le in (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, "+Inf")]  # fmt: skip
    assert numbers == ["1", "2", "2", "2", "2", "3", "3", "3", "3", "4"]
    assert metrics(cli)["task_service_database_seconds_total"] == "3.665"


def test_counts_that_cannot_be_saved_are_saved_later(other, start, cli):
    app = start(Settings.read({"DATABASE_URL": other}))
    Client(app).get("/tasks")
    pool = app.extensions["pool"]
    pool.open(wait=True)
    with psycopg.connect(other, autocommit=True, row_factory=dict_row) as connection:
        connection.execute("ALTER TABLE counters RENAME TO away")
        pool.check_idle()
        connection.execute("ALTER TABLE away RENAME TO counters")
        assert rows(connection, "SELECT FROM counters") == []
        pool.close()
        saved = rows(connection, "SELECT value FROM counters WHERE series ~ '^requests_total'")
        assert saved == [{"value": 1}]


def test_requests_with_invented_methods_are_counted_in_one_series(build, cli):
    app = build()
    pool = open_pool(app)
    for method in ("X1", "X2", "DELETE"):
        Client(app).send(method, "/nothing")
        Client(app).send(method, "/tasks")
    with pool.connection() as connection:
        pool.counters.save(connection)
    series = [name for name in metrics(cli) if name.startswith("task_service_requests_total")]
    assert {re.search('method="(.*?)"', name)[1] for name in series} == {"-"}


@pytest.fixture(params=["invalid page", "is not a btree"])
def corrupted(request, other):
    """Yield the URL of a database in which the primary key of tasks is corrupted, and the error.

    The database is a fresh copy, of which PostgreSQL has no page in memory.
    """
    copy = f"corrupted_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(other, autocommit=True) as connection:
        restore_cast(connection)
        (data,) = connection.execute("SHOW data_directory").fetchone()
        (path,) = connection.execute("SELECT pg_relation_filepath('tasks_pkey')").fetchone()
    with psycopg.connect(make_conninfo(other, dbname="postgres"), autocommit=True) as server:
        name = psycopg.conninfo.conninfo_to_dict(other)["dbname"]
        server.execute(f"CREATE DATABASE {copy} TEMPLATE {name} STRATEGY file_copy")
        query = "SELECT oid FROM pg_database WHERE datname = %s"
        (oid,) = server.execute(query, (copy,)).fetchone()
        with (Path(data) / "base" / str(oid) / Path(path).name).open("r+b") as file:
            # The header of the first page, or the number that marks the index as a B-tree.
            file.seek(10 if request.param == "invalid page" else 24)
            file.write(b"\x55" * 8)
        server.execute(f"ALTER DATABASE {copy} SET ignore_checksum_failure = on")
        try:
            yield make_conninfo(other, dbname=copy), request.param
        finally:
            server.execute(f"DROP DATABASE {copy} WITH (FORCE)")


@pytest.mark.slow
def test_status_reports_corruption_for_an_hour_and_the_service_stays_ready(
    corrupted, start, caplog
):
    url, error = corrupted
    app = start(Settings.read({"DATABASE_URL": url}))
    logs.configure("json")
    alice, runner, pool = Client(app, TOKENS["alice"]), CommandRunner(app), app.extensions["pool"]

    def found():
        lines = runner.invoke(args=["status"]).stdout.splitlines()
        return [line for line in lines if "is corrupted" in line]

    assert found() == []
    for _ in range(3):
        assert alice.post("/tasks", {"title": "x"}).status_code == 503
        assert app.test_client().get("/healthz").status_code == 200
    assert re.search(f"{error}.*: {re.escape(CORRUPTED)}", caplog.text)
    pool.check_idle()
    (problem,) = found()
    sqlstate = "XX001" if error == "invalid page" else "XX002"
    assert f"({sqlstate}, last met 0 min ago; " in problem
    assert problem.endswith(CORRUPTED)
    printed = runner.invoke(args=["status", "--metrics"]).stdout
    assert "task_service_database_corrupted 1\n" in printed
    assert f'corruption_total{{sqlstate="{sqlstate}"}} 3\n' in printed
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("REINDEX INDEX tasks_pkey")
        assert alice.post("/tasks", {"title": "x"}).status_code == 201
        connection.execute("UPDATE counters SET updated_at = now() - interval '61 minutes'")
    assert found() == []
