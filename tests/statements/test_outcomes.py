"""The statements that claim deliveries and record the outcomes of their attempts."""

import pytest
from support.receivers import announce, attempts, deliveries, subscribe, webhook_row
from support.statements import SUCCESS, URL, claim_new, record


def test_a_request_claims_only_deliveries_that_nobody_has_attempted(connection, cast, delivery):
    connection.execute("UPDATE deliveries SET attempts = 1")
    assert claim_new(connection, cast, delivery) == []
    connection.execute("UPDATE deliveries SET attempts = 0, state = 'failed'")
    assert claim_new(connection, cast, delivery) == []
    connection.execute("UPDATE deliveries SET state = 'waiting'")
    assert [row["number"] for row in claim_new(connection, cast, delivery)] == [1]


def test_a_request_claims_its_oldest_delivery_first_and_skips_failing_webhooks(connection, cast):
    failing = subscribe(connection, cast["acme"], URL, failing_since="2026-01-01")
    disabled = subscribe(connection, cast["acme"], URL)
    subscribe(connection, cast["acme"], URL)
    announce(connection, cast["acme"], 2)
    connection.execute("UPDATE webhooks SET disabled_at = now() WHERE id = %s", (disabled,))
    rows = deliveries(connection)
    mine = [row["id"] for row in rows if str(row["webhook_id"]) not in (failing, disabled)]
    # This update moves the oldest row behind the other rows of the table.
    connection.execute("UPDATE deliveries SET due_at = now() WHERE id = %s", (mine[0],))
    claimed = [claim_new(connection, cast, *rows) for _ in range(3)]
    assert [[row["id"] for row in some] for some in claimed] == [[mine[0]], [mine[1]], []]


OUTCOMES = {
    "success": SUCCESS,
    "failure": {},
    "last failure of the schedule": {"retry_delay": None},
}
STATES = ("waiting", 2), ("delivered", 1), ("failed", 1)


@pytest.mark.parametrize(
    ("state", "number", "outcome"),
    [
        (*state, outcome)
        for state in STATES
        for outcome in OUTCOMES
        # The next test has this case.
        if (*state, outcome) != ("failed", 1, "success")
    ],
    ids=str,
)
def test_only_the_outcome_of_the_last_attempt_changes_a_delivery_and_only_while_it_waits(
    connection, delivery, state, number, outcome
):
    connection.execute("UPDATE deliveries SET state = %s, attempts = %s", (state, number))
    (before,) = deliveries(connection)
    assert record(connection, delivery, **OUTCOMES[outcome]) == []
    assert deliveries(connection) == [before]
    assert [row["number"] for row in attempts(connection)] == [1]
    assert webhook_row(connection, str(delivery["webhook_id"]))["failing_since"] is None


def test_a_success_counts_even_if_the_delivery_was_given_up_during_the_attempt(
    connection, delivery
):
    """The webhook has deselected the type meanwhile, but its receiver has the event."""
    connection.execute("UPDATE deliveries SET state = 'failed', attempts = 1")
    assert record(connection, delivery, **SUCCESS) == []
    assert [row["state"] for row in deliveries(connection)] == ["delivered"]


def test_an_outcome_for_another_webhook_or_workspace_than_the_delivery_s_is_not_recorded(
    connection, cast, delivery
):
    other = subscribe(connection, cast["acme"], URL)
    connection.execute("UPDATE deliveries SET attempts = 1")
    before = deliveries(connection)
    for changes in ({"webhook_id": other}, {"in_workspace_id": cast["globex"]}):
        assert record(connection, delivery, **changes) == []
    assert attempts(connection) == []
    assert deliveries(connection) == before


def test_failing_since_is_the_time_of_the_first_failure_after_the_last_success(
    connection, delivery
):
    webhook = str(delivery["webhook_id"])
    times = []
    for success in (False, False, True, False):
        connection.execute("UPDATE deliveries SET attempts = 1, state = 'waiting'")
        record(connection, delivery, **(SUCCESS if success else {}))
        times.append(webhook_row(connection, webhook)["failing_since"])
    first, second, recovered, again = times
    assert first == second
    assert recovered is None
    assert again > first
