"""Statements at exact moments: a test stops now() or sets it."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from support.receivers import announce, subscribe
from support.statements import CREDENTIAL, URL, managed, run

import task_service_double.statements  # noqa: F401  The clock: statements of the double.
from service.database.statements import STATEMENTS


@pytest.fixture
def at(connect):
    """Yield a function that sets now() on a connection and returns the connection.

    The changes made on the connection are rolled back after the test.
    """
    connection = connect()
    for name in ("double/create_clock", "double/create_now"):
        connection.execute(STATEMENTS[name].source)
    connection.execute("SET search_path = clock, pg_catalog, public")

    def set_clock(time):
        run(connection, "double/set_clock", at=time)
        return connection

    yield set_clock
    connection.rollback()


@pytest.mark.parametrize(
    ("name", "day", "hours"),
    [
        ("Europe/Berlin", "2024-03-31", 23),
        ("Europe/Berlin", "2024-10-27", 25),
        ("Europe/Berlin", "2024-06-01", 24),
        # The timezone CET has summer time; the abbreviation CET does not.
        ("CET", "2024-06-01", 24),
        # In Nuuk the last hour of this day does not exist. In Havana the first hour comes twice.
        ("America/Nuuk", "2024-03-30", 23),
        ("America/Havana", "2024-11-03", 25),
    ],
)
def test_today_has_23_or_25_hours_when_the_clocks_change(at, cast, insert_into, name, day, hours):
    begin = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(name)).astimezone(UTC)
    end = begin + timedelta(hours=hours)
    just = timedelta(milliseconds=1)
    for due in (begin - just, begin, end - just, end):
        insert_into("tasks", due_date=due)
    values = {"user_id": cast["alice"], "workspace_id": cast["acme"], "only_workspace_id": None}
    for now in (begin, begin + timedelta(hours=12), end - just):
        connection = at(now)
        connection.execute("UPDATE workspaces SET timezone = %s", (name,))
        (row,) = run(connection, "dashboard/stats", **values)
        assert row["body"]["tasks"]["dueToday"] == 2, now


@pytest.fixture
def still(connect):
    """Yield a connection in one transaction, so its now() stands still; roll it back afterwards."""
    connection = connect()
    yield connection
    connection.rollback()


def test_a_replaced_secret_stops_signing_at_the_moment_at_which_it_expires(still, cast):
    webhook = subscribe(still, cast["acme"], URL, key_fingerprint="a")
    other = subscribe(still, cast["acme"], URL, key_fingerprint="a", secret_number=5)
    run(still, "webhooks/rotate", id=other, key_fingerprint="a", **managed(cast))
    for id, number, change in (
        (webhook, 8, "+ interval '1 microsecond'"), (webhook, 9, ""), (other, 4, "")
    ):  # fmt: skip
        still.execute(
            "INSERT INTO previous_secrets (workspace_id, webhook_id, number, key_fingerprint,"
            f" expires_at) VALUES (%s, %s, %s, %s, now() {change})",
            (cast["acme"], id, number, str(number)),
        )
    (target,) = run(still, "webhooks/ping", id=webhook, **managed(cast))
    assert target["secret_numbers"] == [8, 1]
    run(still, "webhooks/rotate", id=webhook, key_fingerprint="a", **managed(cast))
    left = still.execute(
        "SELECT number, expires_at - now() AS left FROM previous_secrets ORDER BY number"
    ).fetchall()
    # Rotating the secret of one webhook does not delete secrets of another webhook.
    assert [row["number"] for row in left] == [1, 4, 5, 8]
    assert left[0]["left"] == left[2]["left"] == timedelta(hours=24)


@pytest.mark.parametrize(("window", "other"), [("minute", "day"), ("day", "minute")])
def test_a_rate_limit_window_ends_after_exactly_a_minute_or_a_day(still, cast, window, other):
    run(still, "gate/authenticate_and_count", **CREDENTIAL)
    for microseconds, count in ((1, 8), (0, 1)):
        still.execute(
            f"UPDATE usage SET {window}_count = 7, {other}_count = 7, {other}_started_at = now(),"
            f" {window}_started_at = now() - interval '1 {window}' + %s",
            (timedelta(microseconds=microseconds),),
        )
        (row,) = run(still, "gate/authenticate_and_count", **CREDENTIAL)
        assert (row[f"{window}_count"], row[f"{other}_count"]) == (count, 8)


def test_the_use_of_a_token_is_recorded_again_once_the_last_record_is_over_a_minute_old(still):
    for microseconds, recorded in ((0, False), (1, True)):
        age = timedelta(minutes=1, microseconds=microseconds)
        still.execute("UPDATE tokens SET last_used_at = now() - %s", (age,))
        (row,) = run(still, "gate/authenticate_and_count", **CREDENTIAL)
        assert row["record_use"] is recorded
        assert bool(run(still, "tokens/record_use", token_id=row["token_id"])) is recorded


def test_a_row_is_still_kept_when_its_age_equals_its_retention_and_pruned_a_moment_later(
    still, cast
):
    subscribe(still, cast["acme"], URL)
    announce(still, cast["acme"])
    still.execute("UPDATE deliveries SET state = 'failed'")
    key = {"workspace_id": cast["acme"], "user_id": cast["alice"], "key": "k"}
    run(still, "idempotency/begin", **key, fingerprint=b"a")
    still.execute("INSERT INTO usage VALUES (%s, 'x', now(), 1, now(), 1, true)", (cast["acme"],))
    still.execute("DELETE FROM tokens WHERE id <> (SELECT min(id::text)::uuid FROM tokens)")
    for microseconds, gone in ((0, 0), (1, 1)):
        more = timedelta(microseconds=microseconds)
        for table, column, age in (
            ("idempotency_keys", "created_at", timedelta(hours=24)),
            ("usage", "day_started_at", timedelta(days=2)),
            ("tokens", "revoked_at", timedelta(days=90)),
            ("events", "created_at", timedelta(hours=73)),
            ("deliveries", "finished_at", timedelta(hours=72)),
        ):
            still.execute(f"UPDATE {table} SET {column} = now() - %s", (age + more,))
        oldest = {row["kind"]: row["seconds"] for row in run(still, "status/oldest", keep=72)}
        assert bool(oldest["event"]) is bool(gone)
        with still.transaction(force_rollback=True):
            (stored,) = run(still, "idempotency/begin", **key, fingerprint=b"b")
            assert stored["same"] is bool(gone)
        with still.transaction(force_rollback=True):
            still.execute("DELETE FROM deliveries")
            still.execute("UPDATE events SET created_at = created_at + interval '1 hour'")
            (row,) = run(still, "worker/prune_events", keep=72, after="")
            assert row["deleted"] == gone
        for subject in ("keys", "usage", "tokens", "events"):
            name = f"worker/prune_{subject}"
            (row,) = run(still, name, keep=72, after="")
            assert (row["deleted"], row["next"]) == (gone, None), name


def test_a_delivery_is_overdue_once_it_has_been_due_for_over_a_minute(still, cast):
    subscribe(still, cast["acme"], URL)
    announce(still, cast["acme"])
    for microseconds, overdue in ((0, 0), (1, 1)):
        age = timedelta(minutes=1, microseconds=microseconds)
        still.execute("UPDATE deliveries SET due_at = now() - %s", (age,))
        (row,) = run(still, "status/deliveries")
        assert (row["overdue"], row["oldest_overdue_seconds"] > 0) == (overdue, bool(overdue))
    still.execute("UPDATE webhooks SET backoff_until = now() - interval '1 minute'")
    (row,) = run(still, "status/deliveries")
    assert (row["overdue"], row["oldest_overdue_seconds"]) == (0, 0)
    still.execute("UPDATE webhooks SET disabled_at = now(), deleted_at = now()")
    (row,) = run(still, "status/deliveries")
    assert row["waiting"] == 0, "the worker has not yet pruned those of a deleted webhook"
