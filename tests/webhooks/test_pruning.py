"""Pruning: what a worker deletes, and what is left after a workspace was deleted."""

from datetime import UTC, datetime, timedelta
from time import monotonic

import psycopg
import pytest
from click.testing import CliRunner
from psycopg.rows import dict_row
from support.receivers import announce, environment, subscribe
from support.rows import count, insert
from support.statements import trigger
from support.world import World, tables_with

from service.__main__ import main
from service.settings import Settings
from service.webhooks.worker import Pruned, Worker


def finished(connection, **age):
    """Make all events, and all deliveries that are finished, this old."""
    at = datetime.now(UTC) - timedelta(**age)
    connection.execute("UPDATE deliveries SET finished_at = %s WHERE state <> 'waiting'", (at,))
    connection.execute("UPDATE events SET created_at = %s", (at,))


def analyze(connection):
    """Update the statistics, as autovacuum does long before rows are as old as WEBHOOK_KEEP."""
    connection.execute("ANALYZE events, deliveries, webhooks")


def counts(connection):
    return tuple(
        connection.execute(f"SELECT count(*) FROM {table}").fetchone()["count"]
        for table in ("events", "deliveries", "attempts")
    )


@pytest.mark.parametrize(
    ("end", "left"),
    [
        ("UPDATE webhooks SET url = url", (3, 3, 3)),
        # Deliveries for a disabled webhook are pruned too, although nobody has attempted them.
        ("UPDATE webhooks SET disabled_at = now()", (3, 3, 0)),
        ("DELETE FROM webhooks", (3, 0, 0)),
    ],
    ids=["delivered", "disabled", "deleted"],
)
@pytest.mark.usefixtures("webhook")
def test_events_are_pruned_after_webhook_keep(worker, cast, connection, end, left):
    announce(connection, cast["acme"], 3)
    connection.execute(end)
    worker().run_once()
    finished(connection, days=8, hours=23)
    worker().run_once()
    assert counts(connection) == left
    finished(connection, days=9, seconds=1)
    worker(WEBHOOK_KEEP="217").run_once()
    assert counts(connection) == left
    worker().run_once()
    assert counts(connection) == (0, 0, 0)


class LeapingClock:
    """A database whose clock a test can set; its rows are an event and keys of one user."""

    def __init__(self, url, connection):
        self.url, self.connection = url, connection
        # This schema comes first in the search path, so now() of every statement is this one.
        connection.execute(
            "CREATE SCHEMA clock;"
            "CREATE TABLE clock.leap AS SELECT interval '0 s' AS leap;"
            "CREATE FUNCTION clock.now() RETURNS timestamptz LANGUAGE sql STABLE"
            " AS 'SELECT pg_catalog.now() + leap FROM clock.leap';"
            f"ALTER DATABASE {connection.info.dbname} SET search_path = clock, pg_catalog, public"
        )
        self.workspace = insert(connection, "workspaces", name="A", slug="a", plan="Team")
        self.user = insert(connection, "users", name="Alice", email="alice@example.com")
        connection.execute(
            "INSERT INTO feeds (workspace_id, ready, read_at) VALUES (%s, true, now())",
            (self.workspace,),
        )
        announce(connection, self.workspace)

    def leap(self, **by):
        self.connection.execute("UPDATE clock.leap SET leap = %s", (timedelta(**by),))

    def add_key(self, key, **due_in):
        """Add an Idempotency-Key that the worker may delete after this time."""
        self.connection.execute(
            "INSERT INTO idempotency_keys (workspace_id, user_id, key, fingerprint, created_at)"
            " VALUES (%s, %s, %s, '', now() - interval '24 hours' + %s)",
            (self.workspace, self.user, key, timedelta(**due_in)),
        )

    def worker(self):
        return Worker(Settings.read(environment(self.url)))

    def left(self):
        """Return the number of events and of read feeds, and the keys."""
        keys = self.connection.execute("SELECT key FROM idempotency_keys ORDER BY key").fetchall()
        feeds = count(self.connection, "feeds", "read_at IS NOT NULL")
        return count(self.connection, "events"), feeds, [row["key"] for row in keys]

    def problems(self):
        ran = CliRunner().invoke(main, ["status"], env={"DATABASE_URL": self.url})
        found = [line for line in ran.stdout.splitlines() if line.startswith("PROBLEM")]
        return [line for line in found if "clock" in line or "the oldest" in line]


@pytest.fixture
def clock(other):
    with psycopg.connect(other, autocommit=True, row_factory=dict_row) as connection:
        yield LeapingClock(other, connection)


def test_after_its_clock_leapt_a_database_is_pruned_only_as_fast_as_time_passes(clock):
    clock.add_key("first", seconds=1)
    clock.add_key("second", hours=1)
    running = clock.worker()
    running.prune()
    clock.leap(days=20)
    running.prune()
    # A worker that starts now knows of the leap.
    restarted = clock.worker()
    restarted.prune()
    assert clock.left()[:2] == (1, 1)
    assert "second" in clock.left()[2]
    # The first key expires when its second has really passed.
    deadline = monotonic() + 10
    while clock.left()[2] != ["second"] and monotonic() < deadline:
        running.prune()
    assert clock.left() == (1, 1, ["second"])
    remedy = "correct the clock; if it is right now, run worker --once"
    assert clock.problems() == [
        "PROBLEM       the clock of the database leapt ahead by 480 h, so the worker prunes that"
        f" much later: {remedy}"
    ]
    clock.leap()
    restarted.prune()
    running.prune()
    assert clock.left() == (1, 1, ["second"])
    assert clock.problems() == []
    # An operator says that the clock is right.
    clock.leap(days=20)
    running.prune()
    assert clock.left() == (1, 1, ["second"])
    clock.worker().run_once()
    assert clock.left() == (0, 0, [])
    running.prune()
    assert clock.problems() == []


def test_after_a_stop_of_a_week_a_worker_prunes_what_is_due(clock):
    clock.add_key("key", hours=1)
    clock.worker().prune()
    # Nobody has measured this time.
    clock.connection.execute(
        "UPDATE idempotency_keys SET created_at = created_at - interval '7 days';"
        "UPDATE pruning_clock SET until = until - interval '7 days',"
        " advanced_at = advanced_at - interval '7 days'"
    )
    clock.worker().prune()
    assert clock.left()[2] == []
    assert clock.problems() == []


@pytest.mark.parametrize(("state", "age"), [("waiting", None), ("delivered", timedelta())])
def test_pruning_keeps_an_event_until_webhook_keep_has_passed_since_its_last_delivery(
    state, age, worker, cast, connection, other_receiver, webhook
):
    other = subscribe(connection, cast["acme"], other_receiver.url)
    announce(connection, cast["acme"])
    worker().run_once()
    finished(connection, days=10)
    connection.execute(
        "UPDATE deliveries SET state = %s, finished_at = now() - %s::interval, due_at = 'infinity'"
        " WHERE webhook_id = %s",
        (state, age, other),
    )
    worker().run_once()
    assert counts(connection) == (1, 2, 2)
    connection.execute("UPDATE deliveries SET state = 'failed'")
    finished(connection, days=10)
    worker().run_once()
    assert counts(connection) == (0, 0, 0)


def test_an_event_stays_while_an_earlier_one_is_not_yet_committed(
    worker, alice, cast, connection, database_url, webhook
):
    """Else a reader of the feed would begin after both, and never see the earlier one."""
    alice.get("/events")
    with psycopg.connect(database_url) as slow:
        announce(slow, cast["acme"])
        announce(connection, cast["acme"])
        worker().run_once()
        finished(connection, days=10)
        worker().run_once()
        assert counts(connection) == (1, 1, 1)
    finished(connection, days=10)
    worker().run_once()
    assert counts(connection)[0] == 1
    finished(connection, days=10)
    worker().run_once()
    assert counts(connection) == (0, 0, 0)


def test_pruning_deletes_a_bounded_batch_at_a_time(worker, cast, connection, webhook):
    announce(connection, cast["acme"], 1500)
    connection.execute("UPDATE deliveries SET state = 'failed'")
    finished(connection, days=10)
    analyze(connection)
    pruning = worker()
    pruning.pool.open()
    with pruning.pool.connection() as used:
        batch = used.row(Pruned, "worker/prune_events", keep=216, after="")
    assert batch.deleted == 1000
    assert counts(connection) == (500, 500, 0)
    assert pruning.run_once() == 0
    assert counts(connection) == (0, 0, 0)


def test_younger_events_are_pruned_even_if_older_ones_have_to_stay(
    worker, cast, connection, receiver
):
    slow = subscribe(connection, cast["acme"], receiver.url, backoff_until="infinity")
    announce(connection, cast["acme"], 2500)
    finished(connection, days=11)
    connection.execute("UPDATE webhooks SET events = '{meeting.created}'")
    subscribe(connection, cast["acme"], receiver.url)
    announce(connection, cast["acme"])
    connection.execute("UPDATE deliveries SET state = 'failed' WHERE webhook_id <> %s", (slow,))
    connection.execute(
        "UPDATE deliveries SET finished_at = now() - interval '10 days' WHERE state = 'failed'"
    )
    connection.execute(
        "UPDATE events SET created_at = now() - interval '10 days'"
        " WHERE created_at > now() - interval '1 day'"
    )
    analyze(connection)
    pruning = worker()
    # A round ends when two batches of 1000 events had nothing to delete. The next round continues
    # after these.
    pruning.prune(max_empty_batches=2)
    assert counts(connection) == (2501, 2501, 0)
    pruning.prune(max_empty_batches=2)
    assert counts(connection) == (2500, 2500, 0)


def test_pruning_goes_on_with_other_tables_after_it_failed_for_one(
    worker, alice, connection, caplog, announced
):
    worker().run_once()
    finished(connection, days=10)
    alice.get("/tasks")
    connection.execute("UPDATE usage SET day_started_at = now() - interval '49 hours'")
    with (
        trigger(connection, "BEFORE DELETE ON events", "RAISE 'no deletion';"),
        pytest.raises(psycopg.errors.RaiseException),
    ):
        worker().run_once()
    assert counts(connection) == (1, 1, 1)
    assert connection.execute("SELECT count(*) FROM usage").fetchone()["count"] == 0
    assert "worker/prune_events failed: RaiseException" in caplog.messages


def test_a_deleted_workspace_leaves_nothing_behind(alice, cast, connection):
    world = World(connection, cast["acme"], cast["alice"])
    world.fill("alice")
    # This request is counted in the table usage.
    alice.get("/tasks")
    world.delete()
    # A token for the workspace is revoked, and keeps the id of the workspace.
    for table in {*tables_with(connection, "workspace_id")} - {"tokens"}:
        assert world.rows(table, "workspace_id", cast["acme"]) == [], table
