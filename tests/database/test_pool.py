"""The pool: the settings of its connections, and which request gets a connection."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from psycopg_pool import PoolTimeout
from support.database import alice_at, open_pool
from support.proxy import Proxy

from service.commands.plans import ListedPlan
from service.database.pool import UnusableDatabase, Watchdog


def test_the_app_opens_no_connection_before_its_first_request(build, connection):
    app = build()
    assert app.extensions["pool"].closed
    app.test_client().get("/openapi.json")
    assert app.extensions["pool"].closed


def test_a_connection_of_the_pool_has_the_timeouts_and_planner_settings_of_the_service(build):
    app = build(statement_timeout=3.5, web_threads=1)
    assert alice_at(app).get("/tasks").status_code == 200
    with app.extensions["pool"].connection() as connection:
        for name, value in (
            # Only the gate's count of requests is committed without waiting for the disk.
            ("synchronous_commit", "on"),
            ("statement_timeout", "3500ms"),
            ("lock_timeout", "875ms"),
            ("idle_in_transaction_session_timeout", "10s"),
            ("plan_cache_mode", "force_generic_plan"),
            ("enable_seqscan", "off"),
            ("jit", "off"),
        ):
            assert connection.execute(f"SHOW {name}").fetchone()[0] == value


def test_a_dead_peer_is_detected_after_15_seconds_on_linux_and_after_25_elsewhere(build):
    pool = open_pool(build())
    with pool.connection() as connection:
        options = connection.info.get_parameters()
    assert options["connect_timeout"] == "2"
    idle, user_timeout = int(options["keepalives_idle"]), int(options["tcp_user_timeout"]) / 1000
    # This one applies while sent data are not acknowledged.
    assert user_timeout == 5
    assert idle + user_timeout == 15
    assert idle + int(options["keepalives_interval"]) * int(options["keepalives_count"]) == 25


def test_the_watchdog_acts_after_the_statement_timeout_and_less_than_a_second_later(build):
    pool = build(statement_timeout=3.5).extensions["pool"]
    assert 3.5 < pool.seconds < pool.seconds + Watchdog.INTERVAL < 4.5


def test_closing_the_pool_closes_its_connections_including_one_that_is_returned_later(build):
    pool = open_pool(build())
    first, second = pool.getconn(), pool.getconn()
    pool.putconn(first)
    pool.close()
    assert pool.closed
    assert first.closed
    pool.putconn(second)
    assert second.closed


class Pooler(Proxy):
    """A proxy like a connection pooler that reports only some parameters of the server."""

    def forwarded(self, content):
        return content.replace(b"server_encoding", b"hidden_encoding")


def test_the_service_works_behind_a_pooler_that_does_not_report_the_encoding(build, database_url):
    pooler = Pooler(database_url)
    app = build(database_url=pooler.url)
    with open_pool(app).connection(timeout=60) as connection:
        assert connection.info.parameter_status("server_encoding") is None
    assert alice_at(app).get("/tasks").status_code == 200
    app.extensions["pool"].close()
    pooler.close()


def test_row_raises_an_error_if_its_statement_returns_several_rows(build):
    with open_pool(build()).connection() as connection:
        assert len(connection.rows(ListedPlan, "plans/list")) > 1
        with pytest.raises(ValueError, match="too many values"):
            connection.row(ListedPlan, "plans/list")


def test_after_one_request_waited_in_vain_the_next_one_gets_the_connection_that_becomes_free(build):
    pool = open_pool(build(web_threads=1, pool_timeout=5))
    only = pool.getconn()
    with pytest.raises(PoolTimeout, match="connection"):
        pool.getconn(0)
    with ThreadPoolExecutor(1) as threads:
        following = threads.submit(pool.take, time.monotonic() + 5, 0)
        # A request that has waited for a thread waits for a shorter time than this.
        with pytest.raises(TimeoutError):
            following.result(2 * pool.SHORTEST_WAIT)
        pool.putconn(only)
        assert following.result() is only
    pool.give_back(only)


@pytest.mark.slow
def test_requests_that_waited_in_vain_for_the_database_keep_no_slot_of_the_pool(build, proxy):
    proxy.refuse()
    pool = open_pool(build(database_url=proxy.url, web_threads=1))
    for _ in range(2):
        with pytest.raises(PoolTimeout):
            pool.getconn(0.1)
    proxy.listen()
    pool.putconn(pool.getconn(10))
    pool.close()


def test_an_interrupt_while_a_connection_is_returned_keeps_no_slot_of_the_pool(build):
    def interrupted():
        raise KeyboardInterrupt

    pool = open_pool(build(web_threads=1))
    connection = pool.getconn()
    connection.execute("BEGIN")
    connection.rollback = interrupted
    with pytest.raises(KeyboardInterrupt):
        pool.putconn(connection)
    pool.putconn(pool.getconn())


def test_after_a_connection_to_a_database_of_another_encoding_the_next_request_tries_again(build):
    """A later connection may reach another database, so only the newest connection counts."""
    pool = open_pool(build(web_threads=1))
    pool.give_back(pool.take(time.monotonic() + 5, 0))
    pool.fault = UnusableDatabase("wrong_encoding", "the encoding is SQL_ASCII")
    with pytest.raises(UnusableDatabase):
        pool.take(time.monotonic() + 5, 0)
    pool.give_back(pool.take(time.monotonic() + 5, 0))


def test_a_request_with_half_a_second_left_gets_a_connection_and_one_without_time_does_not(build):
    pool = open_pool(build())
    pool.give_back(pool.take(time.monotonic() + 0.5, 0))
    with pytest.raises(PoolTimeout, match="no time is left"):
        pool.take(time.monotonic(), 0)


def test_a_request_that_was_queued_for_longer_than_the_pool_timeout_still_waits_a_moment(build):
    pool = open_pool(build())
    pool.SHORTEST_WAIT = pool.timeout = 20
    pool.give_back(pool.take(time.monotonic() + 60, 2 * pool.timeout))


def test_more_threads_than_connections_all_get_one_in_time_even_if_some_connections_break(build):
    pool = open_pool(build(web_threads=3, pool_timeout=20))

    def use(number):
        with pool.connection() as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
            if number % 7 == 0:
                connection.close()

    with ThreadPoolExecutor(8) as threads:
        assert len(list(threads.map(use, range(200)))) == 200
