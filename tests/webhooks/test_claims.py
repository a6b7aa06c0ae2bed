"""Claims: one worker attempts a delivery. If that worker is killed, another one takes it over."""

import json
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from time import monotonic, sleep

import pytest
from psycopg_pool import PoolTimeout
from support.database import end_connections
from support.processes import seconds_until, states
from support.receivers import announce, answer, attempts, deliveries, hang, subscribe

from service.database.statements import STATEMENTS
from service.values.types import NIL_UUID


def test_due_deliveries_are_attempted_and_recorded(worker, cast, connection, receiver, webhook):
    announce(connection, cast["acme"], 3)
    running = worker()
    assert running.run_once() == 3
    assert running.pool.closed
    assert states(connection) == [("delivered", 1)] * 3
    assert [attempt["status"] for attempt in attempts(connection)] == [200] * 3
    # The worker may post them in any order.
    sent = {received.body for received in receiver.take_all()}
    assert sent == {row["body"].encode() for row in deliveries(connection)}
    assert worker().run_once() == 0


def test_no_other_worker_attempts_a_leased_delivery(worker, connection, receiver, announced):
    receiver.behaves(hang)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(worker().run_once)
        receiver.take()
        (row,) = deliveries(connection)
        assert (row["state"], row["attempts"]) == ("waiting", 1)
        assert 50 < seconds_until(row["due_at"]) <= 60
        assert worker().run_once() == 0
        receiver.released.set()
        assert first.result() == 1
    assert receiver.connections == 1
    assert states(connection) == [("delivered", 1)]


@pytest.mark.slow
def test_another_worker_delivers_what_a_killed_worker_had_claimed_once_the_lease_ends(
    process, run, connection, receiver, announced
):
    receiver.behaves(hang, answer(200))
    killed = process(WEBHOOK_LEASE="1.5", WEBHOOK_TIMEOUT="1")
    first = receiver.take()
    killed.kill()
    killed.wait()
    assert states(connection) == [("waiting", 1)]
    assert attempts(connection) == []
    heir = run(WEBHOOK_LEASE="1.5", WEBHOOK_TIMEOUT="1")
    second = receiver.take()
    assert heir.stop()
    assert second.body == first.body
    assert second.headers["webhook-id"] == first.headers["webhook-id"]
    assert states(connection) == [("delivered", 2)]
    assert [row["number"] for row in attempts(connection)] == [2]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_that_gets_a_signal_finishes_its_attempts_and_begins_no_other(
    number, process, cast, connection, receiver, announced
):
    receiver.behaves(hang)
    running = process()
    receiver.take()
    running.send_signal(number)
    with pytest.raises(subprocess.TimeoutExpired):
        running.wait(0.3)
    announce(connection, cast["acme"])
    receiver.released.set()
    assert running.wait(60) == 0
    # The worker records the attempt and begins no other one.
    assert states(connection) == [("delivered", 1), ("waiting", 0)]
    assert [attempt["status"] for attempt in attempts(connection)] == [200]


def test_after_a_signal_only_the_outcome_of_an_attempt_still_waits_for_a_connection(
    worker, connection, receiver, announced
):
    receiver.behaves(hang)
    running = worker(WEB_THREADS="1", POOL_TIMEOUT="9")
    with ThreadPoolExecutor(2) as pool:
        attempted = pool.submit(running.deliver_next)
        receiver.take()
        running.stopping.set()
        only = running.pool.take(monotonic() + 9, 0)
        with pytest.raises(PoolTimeout):
            pool.submit(running.check_keys).result(5)
        receiver.released.set()
        # In this time, the thread asks for the connection more than once.
        sleep(2 * running.pool.SHORTEST_WAIT)
        assert not attempted.done()
        running.pool.give_back(only)
        assert attempted.result()
    running.pool.close()
    assert states(connection) == [("delivered", 1)]


@pytest.mark.slow
def test_a_worker_survives_the_loss_of_the_database(
    own_url, run, cast, connection, receiver, announced
):
    running = run(DATABASE_URL=own_url)
    receiver.take()
    assert end_connections(connection, own_url) > 0
    announce(connection, cast["acme"])
    receiver.take()
    assert running.stop()


def test_webhooks_take_turns_and_begin_with_their_oldest_event(worker, cast, connection, receiver):
    urls = [f"{receiver.url}/{name}" for name in ("a", "b", "c")]
    for url, slug in zip(urls, ("acme", "acme", "globex"), strict=True):
        subscribe(connection, cast[slug], url)
    announce(connection, cast["acme"], 5)
    announce(connection, cast["globex"], 2)
    assert worker().run_once() == 12
    received = receiver.take_all()
    paths = [one.path.removeprefix("/hook/") for one in received]
    assert sorted(paths[:6]) == sorted("abc" * 2)
    assert sorted(paths[6:]) == sorted("ab" * 3)
    numbers = [one.body for one in received if one.path == "/hook/a"]
    assert numbers == sorted(numbers, key=lambda body: json.loads(body)["data"]["number"])


def test_forty_deliveries_to_a_slow_receiver_delay_no_other_workspace(
    run, cast, connection, receiver, other_receiver, webhook
):
    receiver.behaves(hang)
    subscribe(connection, cast["acme"], f"{receiver.url}/too")
    subscribe(connection, cast["globex"], other_receiver.url)
    announce(connection, cast["acme"], 20)
    running = run()
    for _ in range(2):
        receiver.take()
    announce(connection, cast["globex"], 20)
    for _ in range(20):
        other_receiver.take()
    # A workspace never has more attempts in flight than WEB_THREADS.
    assert receiver.connections == 2
    receiver.released.set()
    assert running.stop()


@pytest.mark.slow
def test_a_poll_reads_no_backlog_of_a_webhook_that_is_disabled_or_backs_off(
    cast, connection, receiver
):
    subscribe(connection, cast["acme"], receiver.url, backoff_until="2999-01-01T00:00:00Z")
    disabled = subscribe(connection, cast["acme"], receiver.url)
    announce(connection, cast["acme"], 3000)
    connection.execute("UPDATE webhooks SET disabled_at = now() WHERE id = %s", (disabled,))
    # Without VACUUM, the plan would also read index entries of rows that other tests have deleted.
    connection.execute("VACUUM (ANALYZE) deliveries")
    values = {"after_workspace_id": NIL_UUID, "after_webhook_id": NIL_UUID}
    keys = connection.execute("SELECT DISTINCT key_fingerprint AS key FROM webhooks").fetchall()
    values |= {"busy": [], "lease": 1, "keys": [row["key"] for row in keys]}
    (line,) = connection.execute(
        b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + STATEMENTS["webhooks/claim_due"].source,
        values,
    ).fetchall()
    (plan,) = line["QUERY PLAN"]
    assert plan["Plan"]["Actual Rows"] == 0
    assert plan["Plan"]["Shared Hit Blocks"] < 40
