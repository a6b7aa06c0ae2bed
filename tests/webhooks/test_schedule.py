"""Attempts: their outcomes, their schedule, and how a webhook backs off."""

from datetime import UTC, datetime, timedelta
from itertools import accumulate

import pytest
from support.processes import UUID, due_now, seconds_until, states, wait_until
from support.receivers import (
    announce,
    answer,
    attempts,
    deliveries,
    environment,
    grow_older,
    hang,
    reset,
    subscribe,
    webhook_row,
)
from werkzeug.http import http_date

from service.settings import Settings
from service.webhooks import secrets
from service.webhooks.delivery import Message, attempt, retry_delay
from service.webhooks.outbound import Answer


def test_failed_attempts_and_the_disabling_of_a_webhook_are_logged_without_its_url(
    worker, cast, connection, receiver, caplog
):
    receiver.behaves(answer(200), answer(503), reset, answer(410))
    webhook = subscribe(connection, cast["acme"], f"{receiver.url}?token=secret")
    announce(connection, cast["acme"], 4)
    for _ in range(4):
        connection.execute("UPDATE webhooks SET backoff_until = NULL")
        worker(WEBHOOK_SCHEDULE="60").run_once()
    ids = [row["id"] for row in deliveries(connection)]
    assert [record.message for record in caplog.records if record.name == "service.webhooks"] == [
        f"delivery {ids[1]} to webhook {webhook} failed at attempt 1: 503",
        f"delivery {ids[2]} to webhook {webhook} failed at attempt 1: ConnectionResetError",
        f"delivery {ids[3]} to webhook {webhook} failed at attempt 1: 410",
        f"webhook {webhook} is disabled: the receiver answered 410 Gone",
    ]
    assert "secret" not in caplog.text


def test_an_attempt_may_take_half_of_the_lease_at_most(worker, connection, receiver, announced):
    receiver.behaves(hang)
    assert worker(WEBHOOK_LEASE="1", WEBHOOK_TIMEOUT="0.5").run_once() == 1
    (attempt,) = attempts(connection)
    assert attempt["error"] == "timeout"
    assert 450 <= attempt["milliseconds"] <= 900


SCHEDULE = (5, 300, 1800, 7200, 18000, 36000, 50400, 72000)
FAILED = Answer(500)


@pytest.mark.nodatabase
def test_retries_follow_the_documented_schedule_with_a_jitter_of_a_fifth():
    assert Settings.read({}).webhook_schedule == SCHEDULE
    for _ in range(50):
        age, delays = 0, []
        # Each attempt takes a second.
        while (delay := retry_delay(age, FAILED, SCHEDULE)) is not None:
            delays.append(delay)
            age += delay + 1
        assert len(delays) == len(SCHEDULE)
        for due, step, at in zip(accumulate(SCHEDULE), SCHEDULE, accumulate(delays), strict=True):
            assert abs(at - due) <= 0.25 * step + len(SCHEDULE)
    assert len({retry_delay(0, FAILED, SCHEDULE) for _ in range(50)}) > 1


@pytest.mark.nodatabase
@pytest.mark.parametrize(
    ("age", "least", "most"),
    [
        (3.7, 1.04, 1.56),
        # This attempt comes so close to the retry after 5 s that it counts as that retry.
        (3.8, 240, 362),
        (100, 164, 246),
        (305 - 76, 60, 92),
        (305 - 74, 1499, 2249),
        (185_705 - 17_000, None, None),
        (185_706, None, None),
        (10**9, None, None),
    ],
)
def test_the_times_of_the_schedule_count_from_the_creation_of_the_event(age, least, most):
    delay = retry_delay(age, FAILED, SCHEDULE)
    assert delay is None if least is None else least <= delay <= most


@pytest.mark.nodatabase
def test_the_time_that_an_attempt_takes_shortens_the_delay_before_the_next_one(receiver):
    receiver.behaves(hang)
    settings = Settings.read(environment("", WEBHOOK_SCHEDULE="1,60"))
    keys = secrets.fingerprints(settings)
    claim = Message(UUID, UUID, 1, UUID, receiver.url, [1], keys, "evt_1", "{}", age=0)
    outcome = attempt(claim, settings, 0.5)
    assert (outcome.error, outcome.backoff) == ("timeout", 1)
    # The retry is due a second after the event, half a second from now, ± 20 %.
    assert 0.3 <= outcome.retry_delay <= 0.6


@pytest.mark.nodatabase
@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("120", 120, 120), ("1", 1, 1), ("99999", 86400, 86400), ("9" * 100, 86400, 86400),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 86400, 86400),
        # These values are ignored: they are invalid, or ask for no delay.
        *((text, 0.08, 0.12) for text in (
            "0", "Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 99 Nov 1994 08:49:37 GMT", "-5", "1.5", "٣",
            "soon", f"Mon, 01 Jan 2026 00:00:00 +{'9' * 30}", "", None,
        )),
    ],
)  # fmt: skip
def test_retry_after_lengthens_the_delay_up_to_a_day(text, least, most):
    assert least <= retry_delay(0, Answer(429, retry_after=text), (0.1,)) <= most


@pytest.mark.nodatabase
def test_retry_after_may_be_a_date():
    date = datetime.now(UTC) + timedelta(hours=2)
    for text in (http_date(date), date.strftime("%a %b %d %H:%M:%S %Y")):
        assert 7100 < retry_delay(0, Answer(429, retry_after=text), (5,)) <= 7200


@pytest.mark.parametrize("fault", [RuntimeError, OverflowError, MemoryError, RecursionError])
def test_an_attempt_that_raises_is_recorded_and_retried_like_any_failure(
    worker, connection, monkeypatch, fault, webhook, announced
):
    """For example, no thread can be started."""

    def fail(*_):
        raise fault

    monkeypatch.setattr("service.webhooks.outbound.Timer", fail)
    assert worker(WEBHOOK_SCHEDULE="60").run_once() == 1
    (attempt,) = attempts(connection)
    assert (attempt["status"], attempt["error"]) == (None, fault.__name__)
    assert webhook_row(connection, webhook)["failing_since"] is not None
    assert 40 < seconds_until(deliveries(connection)[0]["due_at"]) <= 72
    assert worker().run_once() == 0


def test_a_delivery_is_retried_unchanged_until_a_success(
    worker, connection, receiver, webhook, announced
):
    receiver.behaves(answer(500), answer(503), answer(200))
    for number in (1, 2, 3):
        due_now(connection)
        assert worker(WEBHOOK_SCHEDULE="60,60").run_once() == 1
        failing = webhook_row(connection, webhook)["failing_since"] is not None
        assert failing is (number < 3)
    assert states(connection) == [("delivered", 3)]
    assert [row["status"] for row in attempts(connection)] == [500, 503, 200]
    received = receiver.take_all()
    assert len({one.body for one in received}) == 1
    assert len({one.headers["webhook-id"] for one in received}) == 1


def test_a_delivery_fails_at_the_end_of_its_schedule(worker, connection, receiver, announced):
    receiver.behaves(answer(500))
    for age, state in ((0, "waiting"), (59, "waiting"), (100, "waiting"), (120, "failed")):
        grow_older(connection, seconds=age)
        assert worker(WEBHOOK_SCHEDULE="60,60").run_once() == 1
        assert deliveries(connection)[0]["state"] == state, age
    assert deliveries(connection)[0]["finished_at"] is not None
    due_now(connection)
    assert worker().run_once() == 0


def test_a_running_worker_follows_the_schedule_and_names_a_key_that_it_lacks(
    run, cast, connection, receiver, caplog, announced
):
    receiver.behaves(answer(500), answer(500), answer(200))
    subscribe(connection, cast["acme"], receiver.url, key_fingerprint="0123456789abcdef")
    running = run(WEBHOOK_SCHEDULE=",".join(["0.1"] * 100))
    assert len({receiver.take().headers["webhook-id"] for _ in range(3)}) == 1
    line = "WEBHOOK_KEY does not list the key 0123456789abcdef"
    wait_until(lambda: line in caplog.text)
    assert running.stop()
    assert caplog.text.count(line) == 1
    assert states(connection) == [("delivered", 3)]


def rejects_number(number):
    """Return a behaviour that answers 503 to one event of ``announce`` and 200 to all others."""

    def behave(handler):
        answer(503 if f'"number":{number}}}'.encode() in handler.body else 200)(handler)

    return behave


def test_an_event_that_fails_while_others_succeed_keeps_its_schedule(
    worker, cast, connection, receiver, webhook
):
    receiver.behaves(rejects_number(1))
    poisoned = []
    # All deliveries are due at the same moment, so the worker may attempt them in any order.
    while max((row["attempts"] for row in poisoned), default=0) <= 3:
        announce(connection, cast["acme"], 3)
        due_now(connection)
        worker(WEBHOOK_SCHEDULE="20,20").run_once()
        poisoned = [row for row in deliveries(connection) if row["state"] != "delivered"]
        assert {row["state"] for row in poisoned} == {"waiting"}
        assert len(poisoned) < 100
    receiver.behaves(answer(200))
    due_now(connection)
    worker(WEBHOOK_SCHEDULE="20,20").run_once()
    assert {state for state, _ in states(connection)} == {"delivered"}


def test_a_success_makes_the_deliveries_due_that_the_back_off_had_held_up(
    worker, cast, connection, receiver, webhook
):
    receiver.behaves(answer(500))
    announce(connection, cast["acme"], 3)
    for _ in range(2):
        connection.execute("UPDATE webhooks SET backoff_until = NULL")
        assert worker(WEBHOOK_SCHEDULE="60,600").run_once() == 1
    connection.execute("UPDATE attempts SET at = at - interval '30 seconds'")
    connection.execute("UPDATE attempts SET at = at - interval '60 seconds' WHERE delivery_id = "
                       "(SELECT min(delivery_id::text)::uuid FROM attempts)")  # fmt: skip
    connection.execute("UPDATE webhooks SET backoff_until = NULL")
    receiver.behaves(answer(200))
    # The third delivery is due. Its success makes the first one due as well, and not the second
    # one, whose last attempt was more recent than a step of the schedule.
    assert worker(WEBHOOK_SCHEDULE="60,600").run_once() == 2
    assert [state for state, _ in states(connection)] == ["delivered", "waiting", "delivered"]
    assert 0 < seconds_until(deliveries(connection)[1]["due_at"]) <= 30
    assert webhook_row(connection, webhook)["failing_since"] is None


def test_retry_after_makes_the_whole_webhook_back_off(worker, cast, connection, receiver, webhook):
    receiver.behaves(answer(429, Retry_After="120"), answer(200))
    announce(connection, cast["acme"], 2)
    assert worker().run_once() == 1
    row = max(deliveries(connection), key=lambda row: row["attempts"])
    assert 110 < seconds_until(row["due_at"]) <= 120
    assert 110 < seconds_until(webhook_row(connection, webhook)["backoff_until"]) <= 120
    assert receiver.connections == 1


def test_a_failing_receiver_is_tried_once_and_does_not_slow_other_receivers(
    worker, cast, connection, receiver, other_receiver, webhook
):
    receiver.behaves(answer(500))
    subscribe(connection, cast["globex"], other_receiver.url)
    announce(connection, cast["acme"], 50)
    announce(connection, cast["globex"], 5)
    assert worker(WEBHOOK_SCHEDULE="60").run_once() == 6
    assert (receiver.connections, other_receiver.connections) == (1, 5)
