"""Webhooks that the service disables: after a 410, or after a long time with failures only."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier

import psycopg
from support.processes import due_now, states
from support.receivers import PATIENCE, announce, answer, deliveries, webhook_row


def test_a_410_disables_the_webhook_immediately_and_its_due_deliveries_wait(
    worker, cast, connection, receiver, webhook
):
    receiver.behaves(answer(410))
    announce(connection, cast["acme"], 3)
    assert worker().run_once() == 1
    row = webhook_row(connection, webhook)
    assert row["disabled_at"] is not None
    assert row["disabled_reason"] == "the receiver answered 410 Gone"
    assert sorted(states(connection)) == [("waiting", 0), ("waiting", 0), ("waiting", 1)]
    due_now(connection)
    assert worker().run_once() == 0
    announce(connection, cast["acme"])
    assert len(deliveries(connection)) == 3
    assert receiver.connections == 1


def test_four_410_responses_at_the_same_time_do_not_deadlock(
    worker, cast, connection, receiver, webhook
):
    together = Barrier(4)

    def gone(handler):
        together.wait(PATIENCE)
        answer(410)(handler)

    receiver.behaves(gone)
    announce(connection, cast["acme"], 4)
    with ThreadPoolExecutor(4) as pool:
        attempted = [pool.submit(worker().run_once) for _ in range(4)]
    assert [attempt.result() for attempt in attempted] == [1] * 4
    assert webhook_row(connection, webhook)["disabled_reason"] == "the receiver answered 410 Gone"
    assert states(connection) == [("waiting", 1)] * 4


def test_a_webhook_that_has_only_failed_for_webhook_disable_after_hours_is_disabled(
    worker, cast, connection, receiver, webhook
):
    receiver.behaves(answer(500))
    announce(connection, cast["acme"], 2)
    for seconds, reason in ((-60, None), (1, "only failures for 1 hours")):
        since = datetime.now(UTC) - timedelta(hours=1, seconds=seconds)
        connection.execute("UPDATE webhooks SET failing_since = %s, backoff_until = NULL", (since,))
        assert worker(WEBHOOK_SCHEDULE="60", WEBHOOK_DISABLE_AFTER="1").run_once() == 1
        row = webhook_row(connection, webhook)
        assert (row["disabled_at"] is not None, row["disabled_reason"]) == (bool(reason), reason)
    assert {state for state, _ in states(connection)} == {"waiting"}


def test_a_delivery_written_while_its_webhook_is_being_disabled_waits(
    worker, database_url, cast, connection, receiver, webhook
):
    """The two transactions overlap, so neither sees the change of the other one."""
    with psycopg.connect(database_url) as other:
        other.execute(
            "SELECT announce(%s::uuid, 'task.created', '{}'::json)", (cast["acme"],)
        ).fetchone()
        connection.execute("UPDATE webhooks SET disabled_at = now()")
    assert len(deliveries(connection)) == 1
    assert worker().run_once() == 0
    assert receiver.connections == 0
    connection.execute("UPDATE webhooks SET disabled_at = NULL WHERE id = %s", (webhook,))
    assert worker().run_once() == 1
