"""A frozen PostgreSQL: responses are 503 in time, and the service recovers without a restart."""

from concurrent.futures import ThreadPoolExecutor
from threading import Thread, Timer
from time import monotonic

import psycopg
import pytest
from support.http import Client
from support.processes import wait_until
from support.rows import TOKENS

from service.database.pool import Pool, Watchdog, connect
from service.settings import Settings

REQUESTS = 8


def test_a_watchdog_that_cannot_start_keeps_no_slot_of_the_pool_and_starts_later(
    build, monkeypatch
):
    def fail(_thread):
        raise RuntimeError("can't start new thread")

    pool = build(web_threads=1).extensions["pool"]
    pool.open(wait=True)
    # The thread of the old watchdog already runs, since it watched the setup of the connection.
    pool.watchdog = Watchdog()
    with monkeypatch.context() as context:
        context.setattr(Thread, "start", fail)
        with pytest.raises(RuntimeError):
            pool.take(monotonic() + 5, 0)
    connection = pool.take(monotonic() + Watchdog.INTERVAL, 0)
    with pytest.raises(psycopg.OperationalError):
        connection.execute("SELECT pg_sleep(5)")
    pool.give_back(connection)
    pool.watchdog.close()


def test_the_watchdog_forgets_a_connection_that_could_not_be_set_up(database_url):
    def fail(_connection):
        raise LookupError

    settings = Settings.read({"DATABASE_URL": database_url})
    pool = Pool(settings, "web", at_first=fail)
    with connect(settings, "test") as connection, pytest.raises(LookupError):
        pool.prepare(connection)
    # The pool closes this connection. Afterwards its file descriptor may belong to another socket,
    # which the watchdog must not shut down.
    assert not pool.watchdog._deadlines


def test_the_watchdog_allows_the_setup_of_a_connection_as_much_time_as_a_statement(database_url):
    """The watchdog checks several times while this connection is set up."""
    settings = Settings.read({"DATABASE_URL": database_url})
    wait = f"SELECT pg_sleep({5 * Watchdog.INTERVAL})"
    pool = Pool(settings, "web", at_first=lambda connection: connection.execute(wait))
    with connect(settings, "test") as connection:
        pool.prepare(connection)
    pool.watchdog.close()


@pytest.mark.slow
def test_while_postgresql_is_frozen_every_request_gets_503_and_afterwards_requests_succeed(
    build, proxy
):
    app = build(database_url=proxy.url, statement_timeout=0.5, pool_timeout=0.5)
    alice = Client(app, TOKENS["alice"])
    assert alice.get("/tasks").status_code == 200
    pool = app.extensions["pool"]
    unused = pool.getconn()
    proxy.freeze()
    # If the service did not give up by itself, the requests would end after this time.
    thaw = Timer(10, proxy.thaw)
    thaw.start()
    with ThreadPoolExecutor(REQUESTS) as threads:
        responses = list(threads.map(lambda _: alice.get("/tasks"), range(REQUESTS)))
        responses.append(app.test_client().get("/healthz"))
    thaw.cancel()
    for response in responses:
        assert response.status_code == 503
        assert response.get_json()["status"] == 503
        assert response.headers["Retry-After"] == "1"
    proxy.thaw()
    wait_until(lambda: alice.get("/tasks").status_code == 200)
    # A request that runs out of time does not make the pool replace its other connections.
    pool.putconn(unused)
    assert not unused.closed
