"""A database that cannot be reached, ends connections, or is read-only."""

import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import psycopg
import pytest
from support.database import alice_at, end_connections, open_pool, unavailable
from support.processes import RATE, wait_until
from support.rows import count
from support.statements import until_waiting

from service.database.pool import Pool
from service.web.access_log import QUEUED

TASK = {"title": "Write the report"}


@pytest.mark.slow
def test_no_request_fails_after_all_connections_were_terminated(own_url, build, connection):
    app = build(web_threads=4, database_url=own_url)
    alice, pool = alice_at(app), open_pool(app)
    for concurrent in (False, True):
        # The pool opens all its connections.
        for used in [pool.getconn() for _ in range(4)]:
            pool.putconn(used)
        assert end_connections(connection, own_url) == 4
        if concurrent:
            with ThreadPoolExecutor(4) as threads:
                responses = threads.map(lambda _: alice_at(app).post("/tasks", TASK), range(40))
            assert [response.status_code for response in responses] == [201] * 40
        else:
            assert app.test_client().get("/healthz").status_code == 200
            assert [alice.get("/tasks").status_code for _ in range(6)] == [200] * 6
    assert count(connection, "tasks") == 40


def test_an_idle_pool_replaces_all_its_connections_once_it_finds_a_broken_one(
    own_url, build, connection
):
    app = build(web_threads=3, database_url=own_url)
    pool = open_pool(app)
    for used in [pool.getconn() for _ in range(3)]:
        pool.putconn(used)
    assert end_connections(connection, own_url) == 3
    pool.check_idle()
    new = [pool.getconn() for _ in range(3)]
    assert [each.execute("SELECT 1").fetchone() for each in new] == [(1,)] * 3
    for each in new:
        pool.putconn(each)


def test_an_idle_pool_reconnects_without_a_request(build, proxy, monkeypatch):
    """The test waits until psycopg_pool has given up reconnecting, as it does after five seconds.

    Only then does the test let the database accept connections again.
    """
    monkeypatch.setattr(Pool, "CHECK_INTERVAL", 0.05)
    pool = build(database_url=proxy.url).extensions["pool"]
    pool.reconnect_timeout = 0.05
    failed = Event()
    pool._reconnect_failed = lambda _pool: failed.set()
    pool.stay_connected()

    # The speedup keeps free connections itself.
    def connected():
        return pool.get_stats()["pool_available"] or getattr(pool, "_warm", None)

    for _ in range(2):
        wait_until(connected)
        proxy.refuse()
        assert failed.wait(60)
        proxy.listen()
        failed.clear()
    wait_until(connected)
    pool.close()


@pytest.mark.parametrize("end", ["termination", "timeout"])
def test_a_request_that_loses_its_connection_or_runs_out_of_time_gets_503_and_writes_nothing(
    own_url, build, connection, end
):
    timeout = 0.2 if end == "timeout" else 10
    app = build(web_threads=1, statement_timeout=timeout, database_url=own_url)
    task = alice_at(app).post("/tasks", TASK).get_json()
    with ThreadPoolExecutor(1) as threads, connection.transaction():
        connection.execute("SELECT FROM tasks FOR UPDATE")
        waiting = threads.submit(alice_at(app).patch, f"/tasks/{task['id']}", {"title": "Other"})
        if end == "termination":
            until_waiting(connection, waiting)
            end_connections(connection, own_url)
        response = waiting.result(timeout=60)
        assert unavailable(response)
        assert response.headers["X-RateLimit-Limit"] == "1000"
    assert alice_at(app).get(f"/tasks/{task['id']}").get_json() == task


def test_a_write_to_a_read_only_database_gets_503(build, connection, database_url):
    read_only = {"conninfo": database_url, "options": "-c default_transaction_read_only=on"}
    app = build(database_url=psycopg.conninfo.make_conninfo(**read_only))
    assert unavailable(alice_at(app).post("/tasks", TASK))
    assert count(connection, "tasks") == 0


def test_a_request_that_finds_all_connections_taken_gets_503_after_the_pool_timeout(build):
    app = build(web_threads=1, pool_timeout=0.2)
    pool = open_pool(app)
    with pool.connection(20):
        assert pool.timeout == 0.2
        assert unavailable(alice_at(app).get("/tasks"))
    assert alice_at(app).get("/tasks").status_code == 200


@pytest.mark.slow
def test_without_a_database_every_response_is_503_within_3_seconds(build, away):
    app = build(database_url=away)
    requests = "GET /api/tasks", "POST /api/tasks", "GET /nothing", "GET /healthz"

    def send(request):
        method, path = request.split()
        return app.test_client().open(path, method=method)

    with ThreadPoolExecutor(4) as threads:
        start = time.monotonic()
        for response in threads.map(send, requests):
            assert unavailable(response)
            if response.request.path != "/healthz":
                assert all(response.headers[name].isdigit() for name in RATE)
                # Without the database, requests cannot be counted, so none is left.
                assert response.headers["X-RateLimit-Remaining"] == "0"
        assert time.monotonic() - start < 3
    assert app.test_client().get("/openapi.json").status_code == 200


@pytest.mark.slow
def test_without_a_database_a_request_that_has_waited_for_a_thread_does_not_wait_again(build, away):
    app = build(database_url=away, pool_timeout=4)
    start = time.monotonic()
    # Each response takes 0.2 s.
    for _ in range(5):
        assert unavailable(app.test_client().get("/api/tasks", environ_overrides={QUEUED: 4}))
    assert time.monotonic() - start < 4


@pytest.mark.slow
def test_a_service_uses_a_database_that_starts_later_without_a_restart(build, database_url):
    """The folder for the socket is empty at first. Later it has a link to a server's socket."""
    parts = psycopg.conninfo.conninfo_to_dict(database_url)
    if not parts.get("host", "").startswith("/"):
        pytest.skip("needs Postgres on a Unix socket")
    # The path of a socket may have 107 bytes at most, and TMPDIR may be longer.
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        url = psycopg.conninfo.make_conninfo(database_url, host=folder)
        app = build(database_url=url, pool_timeout=0.5)
        assert unavailable(alice_at(app).get("/tasks"))
        name = f".s.PGSQL.{parts.get('port', 5432)}"
        os.symlink(f"{parts['host']}/{name}", f"{folder}/{name}")
        wait_until(lambda: alice_at(app).get("/tasks").status_code == 200)
