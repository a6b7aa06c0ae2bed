"""Pruning: what a worker deletes, and what a deletion leaves."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from receivers import announce, answer, deliveries, hang, subscribe
from statement import until_waiting

from service.webhooks.worker import Pruned


def finished(connection, **age):
    """Let every event be finished, or created if it is due, as long ago as this."""
    at = datetime.now(UTC) - timedelta(**age)
    connection.execute("UPDATE deliveries SET finished_at = %s WHERE state <> 'due'", (at,))
    connection.execute("UPDATE events SET created_at = %s", (at,))


def analyze(connection):
    """Count the rows, as autovacuum does long before they are as old as WEBHOOK_KEEP."""
    connection.execute("ANALYZE events, deliveries, webhooks")


def counts(connection):
    return tuple(
        connection.execute(f"SELECT count(*) FROM {table}").fetchone()["count"]
        for table in ("events", "deliveries", "attempts")
    )


def test_finished_events_are_pruned_after_webhook_keep(worker, cast, connection, webhook):
    announce(connection, cast["acme"], 3)
    worker().run_once()
    finished(connection, days=6, hours=23)
    worker().run_once()
    assert counts(connection) == (3, 3, 3)
    finished(connection, days=7, seconds=1)
    worker(WEBHOOK_KEEP="169").run_once()
    assert counts(connection) == (3, 3, 3)
    worker().run_once()
    assert counts(connection) == (0, 0, 0)


@pytest.mark.parametrize(("state", "age"), [("due", None), ("delivered", timedelta())])
def test_an_event_is_kept_until_its_last_delivery_is_finished_long_enough(
    state, age, worker, cast, connection, other_receiver, webhook
):
    other = subscribe(connection, cast["acme"], other_receiver.url)
    announce(connection, cast["acme"])
    worker().run_once()
    finished(connection, days=8)
    connection.execute(
        "UPDATE deliveries SET state = %s, finished_at = now() - %s::interval, due_at = 'infinity'"
        " WHERE webhook_id = %s",
        (state, age, other),
    )
    worker().run_once()
    assert counts(connection) == (1, 2, 2)
    connection.execute("UPDATE deliveries SET state = 'failed'")
    finished(connection, days=8)
    worker().run_once()
    assert counts(connection) == (0, 0, 0)


def test_pruning_deletes_a_bounded_batch_at_a_time(worker, cast, connection, webhook):
    announce(connection, cast["acme"], 1500)
    connection.execute("UPDATE deliveries SET state = 'failed'")
    finished(connection, days=8)
    analyze(connection)
    pruning = worker()
    batch = pruning.row(Pruned, "worker/prune_events", keep=168, after="")
    assert batch.deleted == 1000
    assert counts(connection) == (500, 500, 0)
    assert pruning.run_once() == 0
    assert counts(connection) == (0, 0, 0)


def test_events_for_a_disabled_webhook_end_at_webhook_keep(worker, cast, connection, webhook):
    announce(connection, cast["acme"], 3)
    connection.execute("UPDATE webhooks SET disabled_at = now() WHERE id = %s", (webhook,))
    finished(connection, days=6, hours=23)
    worker().run_once()
    assert counts(connection) == (3, 3, 0)
    finished(connection, days=7, seconds=1)
    worker().run_once()
    assert counts(connection) == (0, 0, 0)


def test_events_that_stay_do_not_keep_younger_ones_from_being_pruned(
    worker, cast, connection, receiver
):
    slow = subscribe(connection, cast["acme"], receiver.url, backoff_until="infinity")
    announce(connection, cast["acme"], 2500)
    finished(connection, days=9)
    connection.execute("UPDATE webhooks SET events = '{meeting.created}'")
    subscribe(connection, cast["acme"], receiver.url)
    announce(connection, cast["acme"])
    connection.execute("UPDATE deliveries SET state = 'failed' WHERE webhook_id <> %s", (slow,))
    connection.execute(
        "UPDATE deliveries SET finished_at = now() - interval '8 days' WHERE state = 'failed'"
    )
    connection.execute(
        "UPDATE events SET created_at = now() - interval '8 days'"
        " WHERE created_at > now() - interval '1 day'"
    )
    analyze(connection)
    pruning = worker()
    # A round ends when two batches of 1000 had nothing to delete; the next round goes on there.
    pruning.prune(max_empty_batches=2)
    assert counts(connection) == (2501, 2501, 0)
    pruning.prune(max_empty_batches=2)
    assert counts(connection) == (2500, 2500, 0)


def test_pruning_that_fails_for_one_kind_of_row_goes_on_with_the_others(
    worker, alice, connection, caplog, announced
):
    worker().run_once()
    finished(connection, days=8)
    alice.get("/tasks")
    connection.execute("UPDATE usage SET day_started_at = now() - interval '49 hours'")
    connection.execute(
        "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql"
        " AS 'BEGIN RAISE ''no deletion''; END'"
    )
    connection.execute(
        "CREATE TRIGGER fail BEFORE DELETE ON events FOR EACH ROW EXECUTE FUNCTION fail()"
    )
    try:
        with pytest.raises(psycopg.errors.RaiseException):
            worker().run_once()
    finally:
        connection.execute("DROP TRIGGER fail ON events; DROP FUNCTION fail")
    assert counts(connection) == (1, 1, 1)
    assert connection.execute("SELECT count(*) FROM usage").fetchone()["count"] == 0
    assert "worker/prune_events failed: RaiseException" in caplog.messages


def test_events_of_a_deleted_webhook_are_pruned(worker, cast, connection, webhook):
    announce(connection, cast["acme"], 2)
    worker().run_once()
    connection.execute("DELETE FROM webhooks WHERE id = %s", (webhook,))
    assert counts(connection) == (2, 0, 0)
    finished(connection, days=8)
    worker().run_once()
    assert counts(connection) == (0, 0, 0)


def test_usage_is_pruned_after_two_days(worker, alice, bob, connection):
    alice.get("/tasks")
    bob.get("/tasks")
    connection.execute(
        "UPDATE usage SET day_started_at = now() - interval '49 hours'"
        " WHERE subject = (SELECT min(subject) FROM usage)"
    )
    worker().run_once()
    assert connection.execute("SELECT count(*) FROM usage").fetchone()["count"] == 1


def total(client):
    return client.get("/dashboard/stats").get_json()["tasks"]["total"]


def task_counts(connection):
    rows = connection.execute("SELECT * FROM task_counts").fetchall()
    return [(row["status"], row["priority"], row["total"]) for row in rows]


def test_counts_that_are_zero_are_pruned_and_truncated_tasks_are_not_counted(
    worker, alice, connection
):
    tasks = [alice.post("/tasks", {"title": "New"}).get_json() for _ in range(2)]
    alice.patch(f"/tasks/{tasks[0]['id']}", {"status": "done"})
    alice.delete(f"/tasks/{tasks[1]['id']}")
    worker().run_once()
    assert 0 not in [count for *_, count in task_counts(connection)]
    assert total(alice) == 1
    connection.execute("TRUNCATE tasks CASCADE")
    assert task_counts(connection) == []
    assert total(alice) == 0


def test_a_deleted_workspace_leaves_nothing_behind(
    ada, worker, cast, connection, receiver, database_url
):
    keyed = {"headers": {"Idempotency-Key": "k"}}
    subscribe(connection, cast["acme"], receiver.url)
    for _ in range(2):
        task = ada.post("/tasks", {"title": "New"}).get_json()
        # Each time from another slot.
        with psycopg.connect(database_url) as other:
            other.execute("DELETE FROM tasks WHERE id = %s", (task["id"],))
    ada.post("/tasks", {"title": "New"}, **keyed)
    times = {"startTime": "2027-01-01T09:00:00Z", "endTime": "2027-01-01T10:00:00Z"}
    ada.post("/meetings", {"title": "New", **times})
    columns = connection.execute(
        "SELECT table_name FROM information_schema.columns"
        " WHERE table_schema = 'public' AND column_name = 'workspace_id'"
    ).fetchall()

    def rows():
        return {
            table: count
            for table in (column["table_name"] for column in columns)
            if (
                count := connection.execute(
                    f"SELECT count(*) FROM {table} WHERE workspace_id = %s", (cast["acme"],)
                ).fetchone()["count"]
            )
        }

    assert {"usage", "idempotency_keys", "task_counts", "events", "attempts"} <= set(rows())
    connection.execute("DELETE FROM workspaces WHERE id = %s", (cast["acme"],))
    assert rows() == {}


def test_a_webhook_that_is_deleted_during_a_change_gets_no_event(
    ada, connection, database_url, together, webhook
):

    def delete():
        with psycopg.connect(database_url) as other:
            other.execute("DELETE FROM webhooks WHERE id = %s", (webhook,))

    _, created = together("webhooks", webhook, delete, lambda: ada.post("/tasks", {"title": "New"}))
    assert created.status_code == 201
    assert counts(connection) == (0, 0, 0)


def test_a_webhook_that_is_deleted_while_an_attempt_is_recorded_causes_no_error(
    worker, database_url, connection, receiver, webhook, announced
):
    """The deletion holds the webhook and waits for its delivery; the record needs both."""
    receiver.behaves(hang)
    announced = deliveries(connection)
    receiver.behaves(hang, answer(500))
    with ThreadPoolExecutor(2) as pool, psycopg.connect(database_url) as holder:
        attempted = pool.submit(worker().run_once)
        receiver.take()
        # The deletion stops at the delivery, the record at what the deletion holds.
        holder.execute("SELECT FROM deliveries WHERE id = %s FOR UPDATE", (announced[0]["id"],))
        deleted = pool.submit(delete_webhook, database_url, webhook)
        until_waiting(connection, None)
        receiver.behaves(answer(500))
        receiver.released.set()
        until_waiting(connection, None, 2)
        holder.rollback()
        deleted.result()
        assert attempted.result() == 1
    assert counts(connection) == (1, 0, 0)


def delete_webhook(database_url, webhook):
    with psycopg.connect(database_url) as other:
        other.execute("DELETE FROM webhooks WHERE id = %s", (webhook,))
