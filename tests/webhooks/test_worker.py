"""The worker: claims, retries, back-off, disabling and pruning, also when it is killed."""

import json
import logging
import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from threading import Barrier, Event, Thread
from time import monotonic, sleep

import psycopg
import pytest
from client import TOKENS, Client
from psycopg_pool import PoolTimeout
from receivers import (
    PATIENCE,
    PROJECT,
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
from server import wait_until
from statement import until_waiting
from werkzeug.http import http_date

from service.commands.migrate import migrate
from service.database.statements import STATEMENTS
from service.devkit.signatures import is_genuine
from service.settings import Settings
from service.values.fields import NIL_UUID
from service.webhooks import secrets, troubles
from service.webhooks.delivery import Claim, attempt, retry_delay
from service.webhooks.outbound import Answer
from service.webhooks.worker import MAX_ATTEMPT_SECONDS, Pruned, Worker

UUID = "0190163d-8694-739b-aea5-966c26f8ad91"


@pytest.fixture
def worker(database_url):
    """Return a function that makes a worker under these settings."""

    def build(**changes):
        return Worker(Settings.read(environment(database_url, **changes)))

    return build


@pytest.fixture
def process(database_url):
    """Return a function that starts ``task-service worker`` under these settings."""
    started = []

    def start(**changes):
        command = [sys.executable, "-m", "service", "worker"]
        variables = {**os.environ, **environment(database_url, WEB_THREADS="2", **changes)}
        started.append(subprocess.Popen(command, cwd=PROJECT, env=variables))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


class Running(Thread):
    """A worker that runs in this process, until SIGTERM for its thread."""

    def __init__(self, worker):
        super().__init__(target=worker.run, kwargs={"deliver": True})
        self.pool = worker.pool
        # The thread and those of the worker block the signal from the beginning.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        self.start()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def stop(self):
        """Send SIGTERM; return whether the worker has ended, and its connections too."""
        if self.is_alive():
            signal.pthread_kill(self.ident, signal.SIGTERM)
        self.join(10)
        return self.pool.closed and not self.is_alive()


@pytest.fixture
def run(worker):
    """Return a function that runs a worker under these settings, which starts faster here."""
    started = []

    def run(**changes):
        started.append(Running(worker(WEB_THREADS="2", **changes)))
        return started[-1]

    yield run
    assert all(running.stop() for running in started)


def due_now(connection):
    """Make every delivery due and end every back-off."""
    connection.execute("UPDATE deliveries SET due_at = now() WHERE state = 'due'")
    connection.execute("UPDATE webhooks SET backoff_until = NULL")


def states(connection):
    return [(row["state"], row["attempts"]) for row in deliveries(connection)]


def seconds_until(timestamp):
    return (timestamp - datetime.now(UTC)).total_seconds()


# Claims


def test_due_deliveries_are_attempted_and_recorded(worker, cast, connection, receiver):
    subscribe(connection, cast["acme"], receiver.url)
    announce(connection, cast["acme"], 3)
    running = worker()
    assert running.run_once() == 3
    assert running.pool.closed
    assert states(connection) == [("delivered", 1)] * 3
    assert [attempt["status"] for attempt in attempts(connection)] == [200] * 3
    # In any order.
    sent = {received.body for received in receiver.take_all()}
    assert sent == {row["body"].encode() for row in deliveries(connection)}
    assert worker().run_once() == 0


def test_a_delivery_that_another_worker_is_claiming_is_passed_over(
    worker, cast, connection, receiver
):
    subscribe(connection, cast["acme"], receiver.url)
    announce(connection, cast["acme"], 2)
    with connection.transaction():
        connection.execute("SELECT FROM deliveries ORDER BY due_at, id LIMIT 1 FOR UPDATE")
        assert worker().run_once() == 1
    assert worker().run_once() == 1


def test_no_other_worker_attempts_a_delivery_during_its_lease(worker, cast, connection, receiver):
    receiver.behaves(hang)
    subscribe(connection, cast["acme"], receiver.url)
    announce(connection, cast["acme"])
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(worker().run_once)
        receiver.take()
        (row,) = deliveries(connection)
        assert (row["state"], row["attempts"]) == ("due", 1)
        assert 50 < seconds_until(row["due_at"]) <= 60
        assert worker().run_once() == 0
        receiver.released.set()
        assert first.result() == 1
    assert receiver.connections == 1
    assert states(connection) == [("delivered", 1)]


def test_an_attempt_after_its_lease_does_not_undo_the_next_one(worker, cast, connection, receiver):
    def fail_late(handler):
        handler.server.released.wait(30)
        answer(500)(handler)

    receiver.behaves(fail_late, answer(200))
    webhook = subscribe(connection, cast["acme"], receiver.url)
    announce(connection, cast["acme"])
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(worker().run_once)
        receiver.take()
        due_now(connection)
        assert worker().run_once() == 1
        receiver.released.set()
        late.result()
    assert states(connection) == [("delivered", 2)]
    assert [(row["number"], row["status"]) for row in attempts(connection)] == [(1, 500), (2, 200)]
    assert webhook_row(connection, webhook)["failing_since"] is None


def test_the_claims_of_a_killed_worker_are_due_when_their_lease_ends(
    process, run, cast, connection, receiver
):
    receiver.behaves(hang, answer(200))
    subscribe(connection, cast["acme"], receiver.url)
    announce(connection, cast["acme"])
    killed = process(WEBHOOK_LEASE="1.5", WEBHOOK_TIMEOUT="1")
    first = receiver.take()
    killed.kill()
    killed.wait()
    assert states(connection) == [("due", 1)]
    assert attempts(connection) == []
    heir = run(WEBHOOK_LEASE="1.5", WEBHOOK_TIMEOUT="1")
    second = receiver.take()
    assert heir.stop()
    assert second.body == first.body
    assert second.headers["webhook-id"] == first.headers["webhook-id"]
    assert states(connection) == [("delivered", 2)]
    assert [row["number"] for row in attempts(connection)] == [2]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_attempts_in_flight_finish(number, process, cast, connection, receiver):
    receiver.behaves(hang)
    subscribe(connection, cast["acme"], receiver.url)
    announce(connection, cast["acme"])
    running = process()
    receiver.take()
    running.send_signal(number)
    with pytest.raises(subprocess.TimeoutExpired):
        running.wait(0.3)
    announce(connection, cast["acme"])
    receiver.released.set()
    assert running.wait(10) == 0
    # It is recorded, and no new one begins.
    assert states(connection) == [("delivered", 1), ("due", 0)]
    assert [attempt["status"] for attempt in attempts(connection)] == [200]


def test_after_a_signal_an_outcome_still_waits_for_a_connection(worker, cast, connection, receiver):
    receiver.behaves(hang)
    subscribe(connection, cast["acme"], receiver.url)
    announce(connection, cast["acme"])
    running = worker(WEB_THREADS="1", POOL_TIMEOUT="9")
    with ThreadPoolExecutor(1) as pool:
        attempted = pool.submit(running.deliver_next)
        receiver.take()
        running.stopping.set()
        only = running.pool.take(monotonic() + 9, 0)
        receiver.released.set()
        # It asks for the connection more than once.
        sleep(2 * running.pool.SHORTEST_WAIT)
        assert not attempted.done()
        running.pool.give_back(only)
        assert attempted.result()
    running.pool.close()
    assert states(connection) == [("delivered", 1)]


def test_after_a_signal_nothing_else_waits_for_a_connection(worker):
    running = worker(WEB_THREADS="1", POOL_TIMEOUT="9")
    only = running.pool.take(monotonic() + 9, 0)
    running.stopping.set()
    with ThreadPoolExecutor(1) as pool, pytest.raises(PoolTimeout):
        pool.submit(running.check_keys).result(5)
    running.pool.give_back(only)
    running.pool.close()


def test_a_worker_survives_the_loss_of_the_database(run, cast, connection, receiver):
    subscribe(connection, cast["acme"], receiver.url)
    announce(connection, cast["acme"])
    running = run()
    receiver.take()
    connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name LIKE 'task-service %'"
    )
    announce(connection, cast["acme"])
    receiver.take()
    assert running.stop()


def test_webhooks_take_turns_and_each_begins_with_its_oldest_delivery(
    worker, cast, connection, receiver
):
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
    run, cast, connection, receiver, other_receiver
):
    receiver.behaves(hang)
    subscribe(connection, cast["acme"], receiver.url)
    subscribe(connection, cast["acme"], f"{receiver.url}/too")
    subscribe(connection, cast["globex"], other_receiver.url)
    announce(connection, cast["acme"], 20)
    running = run()
    for _ in range(2):
        receiver.take()
    announce(connection, cast["globex"], 20)
    for _ in range(20):
        other_receiver.take()
    # As many attempts in flight for the workspace as WEB_THREADS, no more.
    assert receiver.connections == 2
    receiver.released.set()
    assert running.stop()


def test_a_poll_reads_no_backlog_of_a_webhook_that_may_not_be_attempted(cast, connection, receiver):
    subscribe(connection, cast["acme"], receiver.url, backoff_until="2999-01-01T00:00:00Z")
    disabled = subscribe(connection, cast["acme"], receiver.url)
    announce(connection, cast["acme"], 3000)
    connection.execute("UPDATE webhooks SET disabled_at = now() WHERE id = %s", (disabled,))
    # Index entries of rows that other tests have deleted would be read too.
    connection.execute("VACUUM (ANALYZE) deliveries")
    values = {
        "after_workspace_id": NIL_UUID,
        "after_webhook_id": NIL_UUID,
        "busy": [],
        "lease": 1,
        "keys": [],
    }
    (line,) = connection.execute(
        b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + STATEMENTS["webhooks/claim_due"].source,
        values,
    ).fetchall()
    (plan,) = line["QUERY PLAN"]
    assert plan["Plan"]["Actual Rows"] == 0
    assert plan["Plan"]["Shared Hit Blocks"] < 40


@pytest.mark.nodatabase
def test_no_error_ends_a_thread_of_the_worker(worker, monkeypatch, caplog):
    monkeypatch.setattr("service.webhooks.worker.ERROR_INTERVAL", 0)
    errors = [RuntimeError("unforeseen"), psycopg.OperationalError("password=secret")]
    running = worker()

    def work():
        if errors:
            raise errors.pop(0)
        running.stopping.set()
        return False

    running.repeat(work, 0)
    assert [record.message for record in caplog.records] == ["unhandled: RuntimeError"]


class Rests(Event):
    """An event that notes how long it should be waited for, and waits no longer."""

    def __init__(self):
        super().__init__()
        self.seconds = []

    def wait(self, timeout=None):
        self.seconds.append(timeout)
        return super().wait(0)


@pytest.mark.nodatabase
def test_a_thread_rests_after_an_idle_call_and_after_each_error(worker):
    running = worker()
    running.stopping = Rests()
    outcomes = [True, False, RuntimeError("unforeseen"), psycopg.OperationalError("lost"), True]

    def work():
        outcome = outcomes.pop(0)
        if not outcomes:
            running.stopping.set()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    running.repeat(work, 7)
    assert running.stopping.seconds == [7, 1, 1]


def test_pruning_and_the_look_at_the_keys_are_idle_calls(worker):
    running = worker()
    assert (running.prune_round(), running.check_keys()) == (False, False)


def test_when_nothing_is_due_the_other_threads_do_not_ask_the_database_too(
    worker, monkeypatch, cast, connection, receiver
):
    monkeypatch.setattr("service.webhooks.worker.POLL_INTERVAL", 60)
    subscribe(connection, cast["acme"], receiver.url)
    running = worker()
    assert not running.deliver_next()
    announce(connection, cast["acme"])
    assert not running.deliver_next()
    assert states(connection) == [("due", 0)]


def test_when_an_attempt_ends_the_next_one_of_its_workspace_begins_at_once(
    worker, monkeypatch, cast, connection, receiver
):
    monkeypatch.setattr("service.webhooks.worker.POLL_INTERVAL", 60)
    receiver.behaves(hang)
    subscribe(connection, cast["acme"], receiver.url)
    announce(connection, cast["acme"], 2)
    running = worker(WEB_THREADS="1")
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(running.deliver_next)
        receiver.take()
        # A workspace has as many attempts in flight as WEB_THREADS.
        assert not running.deliver_next()
        receiver.released.set()
        assert first.result()
    # After a signal none begins.
    running.stopping.set()
    assert not running.deliver_next()
    running.stopping.clear()
    assert running.deliver_next()
    running.pool.close()


def test_after_an_error_the_other_threads_do_not_ask_the_database_too(worker, monkeypatch, empty):
    monkeypatch.setattr("service.webhooks.worker.ERROR_INTERVAL", 60)
    running = worker(DATABASE_URL=empty)
    with pytest.raises(psycopg.errors.UndefinedTable):
        running.deliver_next()
    assert not running.deliver_next()
    running.pool.close()


def test_a_key_that_stays_missing_is_logged_once(worker, cast, connection, caplog):
    subscribe(connection, cast["acme"], "http://127.0.0.1/", key_fingerprint="0123456789abcdef")
    running = worker()
    for _ in range(2):
        running.check_keys()
    assert sum("does not list the key 0123456789abcdef" in line for line in caplog.messages) == 1
    running.pool.close()


def test_a_disabled_webhook_needs_no_key(worker, cast, connection, caplog):
    webhook = subscribe(
        connection, cast["acme"], "http://127.0.0.1/",
        key_fingerprint="0123456789abcdef", disabled_at="now",
    )  # fmt: skip
    running = worker()
    running.check_keys()
    assert caplog.messages == []
    connection.execute("UPDATE webhooks SET disabled_at = NULL WHERE id = %s", (webhook,))
    running.check_keys()
    assert len(caplog.messages) == 1
    running.pool.close()


# The database in trouble


@pytest.fixture(params=["refuses", "is silent"])
def away(request):
    """Yield the URL of a server that refuses connections, or that accepts and never answers."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        if request.param == "is silent":
            bound.listen()
        port = bound.getsockname()[1]
        yield f"postgresql://127.0.0.1:{port}/nothing?sslmode=disable"


@pytest.mark.nodatabase
def test_sigterm_ends_a_worker_at_once_while_the_database_is_away(away):
    """Its 128 threads do not wait for the database one after the other."""
    variables = {**os.environ, **environment(away, WEB_THREADS="32")}
    command = [sys.executable, "-m", "service", "worker"]
    with subprocess.Popen(
        command, cwd=PROJECT, env=variables, stderr=subprocess.PIPE, text=True
    ) as running:
        for line in running.stderr:
            if "the worker waits for the database: PoolTimeout: start PostgreSQL" in line:
                break
        if sys.platform == "linux":
            # Four for each of WEB_THREADS, and a few of its own.
            assert 128 < len(os.listdir(f"/proc/{running.pid}/task")) < 140
        running.terminate()
        running.communicate(timeout=10)
        assert running.returncode == 0


@pytest.fixture
def troubled(worker, monkeypatch):
    """Return a function that lets a worker work three rounds, as its threads do; all fail."""
    monkeypatch.setattr("service.webhooks.worker.ERROR_INTERVAL", 0)

    def work(running, rounds=3):
        for _ in range(rounds):
            for step in (running.check_keys, running.deliver_next, running.prune_round):
                with suppress(psycopg.Error):
                    step()

    return work


def test_an_error_of_the_database_is_logged_with_its_remedy_when_it_begins_changes_and_ends(
    worker, troubled, empty, caplog
):
    caplog.set_level("INFO", "service.worker")
    running = worker(DATABASE_URL=empty)
    troubled(running)
    lacks = "the worker waits for the database: UndefinedTable: run the command migrate; if"
    (line,) = caplog.messages
    assert line.startswith(lacks)
    migrate(running.settings)
    with psycopg.connect(empty, autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    running.pool.drain()
    troubled(running)
    read_only = "the worker waits for the database: ReadOnlySqlTransaction: let DATABASE_URL name"
    assert caplog.messages[1].startswith(read_only)
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute("SET default_transaction_read_only = off")
        connection.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
    running.pool.drain()
    troubled(running)
    assert caplog.messages[2:] == ["the worker goes on: its statements succeed again"]
    running.pool.close()


def test_an_error_that_lasts_is_logged_again_each_minute(
    worker, troubled, empty, caplog, monkeypatch
):
    running = worker(DATABASE_URL=empty)
    troubled(running)
    assert len(caplog.messages) == 1
    assert troubles.INTERVAL == 60
    monkeypatch.setattr("service.webhooks.troubles.INTERVAL", 0)
    troubled(running, rounds=1)
    assert len(caplog.messages) > 1
    running.pool.close()


@pytest.mark.nodatabase
def test_what_the_pool_says_is_logged_once_a_minute(worker, caplog, monkeypatch):
    worker()
    log = logging.getLogger("psycopg.pool")
    for message in ("the host is gone", "the host is gone", "the port is closed"):
        log.warning(message)
    assert caplog.messages == ["the host is gone", "the port is closed"]
    monkeypatch.setattr("service.webhooks.troubles.INTERVAL", 0)
    log.warning("the host is gone")
    assert caplog.messages[2:] == ["the host is gone"]


# Outcomes


def test_failures_and_disabling_are_logged_without_the_url(
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


def test_an_attempt_takes_half_of_the_lease_at_most(worker, cast, connection, receiver):
    receiver.behaves(hang)
    subscribe(connection, cast["acme"], receiver.url)
    announce(connection, cast["acme"])
    assert worker(WEBHOOK_LEASE="1", WEBHOOK_TIMEOUT="0.5").run_once() == 1
    (attempt,) = attempts(connection)
    assert attempt["error"] == "timeout"
    assert 450 <= attempt["milliseconds"] <= 900


@pytest.mark.nodatabase
def test_the_page_says_how_long_an_attempt_may_take():
    page = (PROJECT / "docs/webhooks.md").read_text(encoding="utf-8")
    assert f"waits {MAX_ATTEMPT_SECONDS} seconds, but at most half of `WEBHOOK_LEASE`" in page


SCHEDULE = (5, 300, 1800, 7200, 18000, 36000, 50400, 72000)
FAILED = Answer(1, 500)


@pytest.mark.nodatabase
def test_retries_follow_the_documented_schedule_within_a_fifth():
    assert Settings.read({}).webhook_schedule == SCHEDULE
    for _ in range(50):
        age, delays = 0, []
        # An attempt takes a second.
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
def test_the_schedule_runs_from_the_event(age, least, most):
    delay = retry_delay(age, FAILED, SCHEDULE)
    assert delay is None if least is None else least <= delay <= most


@pytest.mark.nodatabase
def test_the_time_that_an_attempt_takes_counts_for_the_next_one(receiver):
    receiver.behaves(hang)
    settings = Settings.read(environment("", WEBHOOK_SCHEDULE="1,60"))
    keys = secrets.fingerprints(settings)
    claim = Claim(UUID, UUID, 1, UUID, receiver.url, [1], keys, "evt_1", "{}", age=0)
    outcome = attempt(claim, settings, 0.5)
    assert (outcome.error, outcome.backoff) == ("timeout", 1)
    # The retry is due a second after the event, half a second from now, ± 20 %.
    assert 0.3 <= outcome.retry_delay <= 0.6


@pytest.mark.nodatabase
@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("120", 120, 120),
        ("1", 4, 6),
        ("0", 4, 6),
        ("99999", 86400, 86400),
        ("9" * 100, 86400, 86400),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 86400, 86400),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 4, 6),
        ("Sun, 99 Nov 1994 08:49:37 GMT", 4, 6),
        ("-5", 4, 6),
        ("1.5", 4, 6),
        ("٣", 4, 6),
        ("soon", 4, 6),
        (f"Mon, 01 Jan 2026 00:00:00 +{'9' * 30}", 4, 6),
        ("", 4, 6),
        (None, 4, 6),
    ],
)
def test_retry_after_lengthens_the_delay_up_to_a_day(text, least, most):
    assert least <= retry_delay(0, Answer(1, 429, retry_after=text), (5,)) <= most


@pytest.mark.nodatabase
@pytest.mark.parametrize("text", ["0", "Sun, 06 Nov 1994 08:49:37 GMT", "soon", None])
def test_a_retry_after_that_asks_for_no_time_lengthens_no_delay(text):
    assert 0.08 <= retry_delay(0, Answer(1, 429, retry_after=text), (0.1,)) <= 0.12


@pytest.mark.nodatabase
def test_retry_after_may_be_a_date():
    date = datetime.now(UTC) + timedelta(hours=2)
    for text in (http_date(date), date.strftime("%a %b %d %H:%M:%S %Y")):
        assert 7100 < retry_delay(0, Answer(1, 429, retry_after=text), (5,)) <= 7200


@pytest.mark.parametrize("status", [200, 500])
def test_no_retry_after_keeps_an_attempt_from_being_recorded(
    worker, cast, connection, receiver, status
):
    receiver.behaves(answer(status, Retry_After=f"Mon, 01 Jan 2026 00:00:00 +{'9' * 30}"))
    subscribe(connection, cast["acme"], receiver.url)
    announce(connection, cast["acme"])
    assert worker(WEBHOOK_SCHEDULE="60").run_once() == 1
    assert [attempt["status"] for attempt in attempts(connection)] == [status]


@pytest.mark.parametrize("fault", [RuntimeError, OverflowError, MemoryError, RecursionError])
def test_an_attempt_that_raises_is_recorded_and_retried_like_any_failure(
    worker, cast, connection, receiver, monkeypatch, fault
):
    """A thread cannot start, for example."""

    def fail(*_):
        raise fault

    monkeypatch.setattr("service.webhooks.outbound.Timer", fail)
    webhook = subscribe(connection, cast["acme"], receiver.url)
    announce(connection, cast["acme"])
    assert worker(WEBHOOK_SCHEDULE="60").run_once() == 1
    (attempt,) = attempts(connection)
    assert (attempt["status"], attempt["error"]) == (None, fault.__name__)
    assert webhook_row(connection, webhook)["failing_since"] is not None
    assert 40 < seconds_until(deliveries(connection)[0]["due_at"]) <= 72
    assert worker().run_once() == 0


def test_a_delivery_is_retried_with_the_same_bytes_until_a_success(
    worker, cast, connection, receiver
):
    receiver.behaves(answer(500), answer(503), answer(200))
    webhook = subscribe(connection, cast["acme"], receiver.url)
    announce(connection, cast["acme"])
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


def test_a_delivery_fails_with_the_first_attempt_after_the_whole_schedule(
    worker, cast, connection, receiver
):
    receiver.behaves(answer(500))
    subscribe(connection, cast["acme"], receiver.url)
    announce(connection, cast["acme"])
    for age, state in ((0, "due"), (59, "due"), (100, "due"), (120, "failed")):
        grow_older(connection, seconds=age)
        assert worker(WEBHOOK_SCHEDULE="60,60").run_once() == 1
        assert deliveries(connection)[0]["state"] == state, age
    assert deliveries(connection)[0]["finished_at"] is not None
    due_now(connection)
    assert worker().run_once() == 0


def test_a_running_worker_follows_the_schedule_and_names_a_key_that_it_lacks(
    run, cast, connection, receiver, caplog
):
    receiver.behaves(answer(500), answer(500), answer(200))
    subscribe(connection, cast["acme"], receiver.url)
    announce(connection, cast["acme"])
    subscribe(connection, cast["acme"], receiver.url, key_fingerprint="0123456789abcdef")
    running = run(WEBHOOK_SCHEDULE=",".join(["0.1"] * 100))
    assert len({receiver.take().headers["webhook-id"] for _ in range(3)}) == 1
    line = "WEBHOOK_KEY does not list the key 0123456789abcdef"
    wait_until(lambda: line in caplog.text)
    assert running.stop()
    assert caplog.text.count(line) == 1
    assert states(connection) == [("delivered", 3)]


def rejects_number(number):
    """Return a behaviour: 503 for one event of announce(), 200 for all others."""

    def behave(handler):
        answer(503 if f'"number" : {number}}}'.encode() in handler.body else 200)(handler)

    return behave


def test_an_event_that_fails_among_others_keeps_its_whole_schedule(
    worker, cast, connection, receiver
):
    receiver.behaves(rejects_number(1))
    subscribe(connection, cast["acme"], receiver.url)
    poisoned = []
    # All are due at the same moment, so in any order.
    while max((row["attempts"] for row in poisoned), default=0) <= 3:
        announce(connection, cast["acme"], 3)
        due_now(connection)
        worker(WEBHOOK_SCHEDULE="20,20").run_once()
        poisoned = [row for row in deliveries(connection) if row["state"] != "delivered"]
        assert {row["state"] for row in poisoned} == {"due"}
        assert len(poisoned) < 100
    receiver.behaves(answer(200))
    due_now(connection)
    worker(WEBHOOK_SCHEDULE="20,20").run_once()
    assert {state for state, _ in states(connection)} == {"delivered"}


def test_a_success_makes_the_waiting_deliveries_of_its_webhook_due(
    worker, cast, connection, receiver
):
    receiver.behaves(answer(500))
    webhook = subscribe(connection, cast["acme"], receiver.url)
    announce(connection, cast["acme"], 3)
    for _ in range(2):
        connection.execute("UPDATE webhooks SET backoff_until = NULL")
        assert worker(WEBHOOK_SCHEDULE="60,600").run_once() == 1
    connection.execute("UPDATE attempts SET at = at - interval '59 seconds'")
    connection.execute("UPDATE attempts SET at = at - interval '9 seconds' WHERE delivery_id = "
                       "(SELECT min(delivery_id::text)::uuid FROM attempts)")  # fmt: skip
    connection.execute("UPDATE webhooks SET backoff_until = NULL")
    receiver.behaves(answer(200))
    # The third is due, and the first follows; the second's last attempt is not a step ago.
    assert worker(WEBHOOK_SCHEDULE="60,600").run_once() == 2
    assert [state for state, _ in states(connection)] == ["delivered", "due", "delivered"]
    assert 0 < seconds_until(deliveries(connection)[1]["due_at"]) <= 1
    assert webhook_row(connection, webhook)["failing_since"] is None


def test_retry_after_makes_the_whole_webhook_back_off(worker, cast, connection, receiver):
    receiver.behaves(answer(429, Retry_After="120"), answer(200))
    webhook = subscribe(connection, cast["acme"], receiver.url)
    announce(connection, cast["acme"], 2)
    assert worker().run_once() == 1
    row = max(deliveries(connection), key=lambda row: row["attempts"])
    assert 110 < seconds_until(row["due_at"]) <= 120
    assert 110 < seconds_until(webhook_row(connection, webhook)["backoff_until"]) <= 120
    assert receiver.connections == 1


def test_a_failing_receiver_delays_no_other(worker, cast, connection, receiver, other_receiver):
    receiver.behaves(answer(500))
    subscribe(connection, cast["acme"], receiver.url)
    subscribe(connection, cast["globex"], other_receiver.url)
    announce(connection, cast["acme"], 50)
    announce(connection, cast["globex"], 5)
    assert worker(WEBHOOK_SCHEDULE="60").run_once() == 6
    assert (receiver.connections, other_receiver.connections) == (1, 5)


def test_an_attempt_connects_to_public_addresses_only(worker, cast, connection, receiver):
    subscribe(connection, cast["acme"], receiver.url)
    announce(connection, cast["acme"])
    assert worker(WEBHOOK_ALLOW="", WEBHOOK_SCHEDULE="60").run_once() == 1
    assert receiver.connections == 0
    (attempt,) = attempts(connection)
    assert attempt["error"] == "blocked: leads to 127.0.0.1, which is not a public address"
    assert states(connection) == [("due", 1)]


# Disabling


def test_410_disables_at_once_and_due_deliveries_wait(worker, cast, connection, receiver):
    receiver.behaves(answer(410))
    webhook = subscribe(connection, cast["acme"], receiver.url)
    announce(connection, cast["acme"], 3)
    assert worker().run_once() == 1
    row = webhook_row(connection, webhook)
    assert row["disabled_at"] is not None
    assert row["disabled_reason"] == "the receiver answered 410 Gone"
    assert sorted(states(connection)) == [("due", 0), ("due", 0), ("due", 1)]
    due_now(connection)
    assert worker().run_once() == 0
    announce(connection, cast["acme"])
    assert len(deliveries(connection)) == 3
    assert receiver.connections == 1


def test_four_responses_of_410_at_once_do_not_deadlock(worker, cast, connection, receiver):
    together = Barrier(4)

    def gone(handler):
        together.wait(PATIENCE)
        answer(410)(handler)

    receiver.behaves(gone)
    webhook = subscribe(connection, cast["acme"], receiver.url)
    announce(connection, cast["acme"], 4)
    with ThreadPoolExecutor(4) as pool:
        attempted = [pool.submit(worker().run_once) for _ in range(4)]
    assert [attempt.result() for attempt in attempted] == [1] * 4
    assert webhook_row(connection, webhook)["disabled_reason"] == "the receiver answered 410 Gone"
    assert states(connection) == [("due", 1)] * 4


def fails_since(connection, webhook, **age):
    connection.execute(
        "UPDATE webhooks SET failing_since = %s, backoff_until = NULL WHERE id = %s",
        (datetime.now(UTC) - timedelta(**age), webhook),
    )


@pytest.mark.parametrize(("hours", "changes"), [(120, {}), (1, {"WEBHOOK_DISABLE_AFTER": "1"})])
def test_only_failures_for_webhook_disable_after_disable(
    hours, changes, worker, cast, connection, receiver
):
    receiver.behaves(answer(500))
    webhook = subscribe(connection, cast["acme"], receiver.url)
    announce(connection, cast["acme"], 2)
    fails_since(connection, webhook, hours=hours, seconds=-60)
    assert worker(WEBHOOK_SCHEDULE="60", **changes).run_once() == 1
    assert webhook_row(connection, webhook)["disabled_at"] is None
    fails_since(connection, webhook, hours=hours, seconds=1)
    assert worker(WEBHOOK_SCHEDULE="60", **changes).run_once() == 1
    row = webhook_row(connection, webhook)
    assert row["disabled_at"] is not None
    assert row["disabled_reason"] == f"only failures for {hours} hours"
    assert {state for state, _ in states(connection)} == {"due"}


def test_one_success_keeps_a_webhook_enabled(worker, cast, connection, receiver):
    receiver.behaves(answer(200), answer(500))
    webhook = subscribe(connection, cast["acme"], receiver.url)
    announce(connection, cast["acme"], 2)
    fails_since(connection, webhook, days=30)
    assert worker(WEBHOOK_SCHEDULE="60").run_once() == 2
    assert sorted(row["status"] for row in attempts(connection)) == [200, 500]
    row = webhook_row(connection, webhook)
    assert row["disabled_at"] is None
    assert seconds_until(row["failing_since"]) > -60


def test_a_delivery_written_while_its_webhook_is_disabled_waits(
    worker, database_url, cast, connection, receiver
):
    """Neither transaction sees the other."""
    webhook = subscribe(connection, cast["acme"], receiver.url)
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


# Pruning


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


def test_finished_events_are_pruned_after_webhook_keep(worker, cast, connection, receiver):
    subscribe(connection, cast["acme"], receiver.url)
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
    state, age, worker, cast, connection, receiver, other_receiver
):
    subscribe(connection, cast["acme"], receiver.url)
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


def test_pruning_deletes_a_bounded_batch_at_a_time(worker, cast, connection, receiver):
    subscribe(connection, cast["acme"], receiver.url)
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


def test_events_for_a_disabled_webhook_end_at_webhook_keep(worker, cast, connection, receiver):
    webhook = subscribe(connection, cast["acme"], receiver.url)
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
    worker, alice, cast, connection, receiver, caplog
):
    subscribe(connection, cast["acme"], receiver.url)
    announce(connection, cast["acme"])
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


def test_events_of_a_deleted_webhook_are_pruned(worker, cast, connection, receiver):
    webhook = subscribe(connection, cast["acme"], receiver.url)
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
    ada, cast, connection, database_url, receiver, together
):
    webhook = subscribe(connection, cast["acme"], receiver.url)

    def delete():
        with psycopg.connect(database_url) as other:
            other.execute("DELETE FROM webhooks WHERE id = %s", (webhook,))

    _, created = together("webhooks", webhook, delete, lambda: ada.post("/tasks", {"title": "New"}))
    assert created.status_code == 201
    assert counts(connection) == (0, 0, 0)


def test_a_webhook_that_is_deleted_while_an_attempt_is_recorded_causes_no_error(
    worker, database_url, cast, connection, receiver
):
    """The deletion holds the webhook and waits for its delivery; the record needs both."""
    receiver.behaves(hang)
    webhook = subscribe(connection, cast["acme"], receiver.url)
    announce(connection, cast["acme"])
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


# Keys


OLD, NEW = "the first key that an operator made", "the second key that an operator made"
BOTH = f"{NEW},{OLD}"


def new_webhook(connection, workspace_id, url, key):
    return subscribe(connection, workspace_id, url, key_fingerprint=secrets.fingerprint(key))


def signs(received, key, webhook, number=1):
    """Return whether this secret made the first signature, and Standard Webhooks accepts it."""
    secret = secrets.derive_secret(key, webhook, number)
    return is_genuine(received.headers, received.body, secret)


def warnings(caplog):
    return [record.message for record in caplog.records if record.levelname == "WARNING"]


def test_after_a_new_key_old_webhooks_sign_as_before_and_new_ones_with_the_new_key(
    worker, cast, connection, receiver
):
    # Written before fingerprints were stored.
    ancient = subscribe(connection, cast["acme"], f"{receiver.url}/ancient")
    old = new_webhook(connection, cast["acme"], f"{receiver.url}/old", OLD)
    new = new_webhook(connection, cast["acme"], f"{receiver.url}/new", NEW)
    announce(connection, cast["acme"])
    assert worker(WEBHOOK_KEY=BOTH).run_once() == 3
    received = {one.path.rpartition("/")[2]: one for one in receiver.take_all()}
    assert signs(received["ancient"], OLD, ancient)
    assert signs(received["old"], OLD, old)
    assert signs(received["new"], NEW, new)
    assert webhook_row(connection, ancient)["key_fingerprint"] == secrets.fingerprint(OLD)


def test_a_webhook_whose_key_is_not_listed_waits_and_is_named(
    worker, cast, connection, receiver, caplog
):
    old = new_webhook(connection, cast["acme"], receiver.url, OLD)
    announce(connection, cast["acme"])
    assert worker(WEBHOOK_KEY=NEW).run_once() == 0
    assert states(connection) == [("due", 0)]
    assert caplog.messages == [
        f"WEBHOOK_KEY does not list the key {secrets.fingerprint(OLD)}:"
        f" events for 1 webhook(s) wait, {old} among them"
    ]
    assert OLD not in caplog.text
    assert worker(WEBHOOK_KEY=BOTH).run_once() == 1
    assert signs(receiver.take(), OLD, old)


def test_a_request_leaves_a_webhook_whose_key_it_does_not_have_to_the_worker(
    with_webhooks, cast, connection, receiver, caplog
):
    old = new_webhook(connection, cast["acme"], receiver.url, OLD)
    client = Client(with_webhooks(WEBHOOK_KEY=NEW), TOKENS["alice"])
    assert client.post("/tasks", {"title": "New"}).status_code == 201
    assert states(connection) == [("due", 0)]
    assert receiver.connections == 0
    (message,) = warnings(caplog)
    assert old in message


def test_a_web_process_without_a_key_says_so_once_if_there_are_webhooks(
    with_webhooks, cast, connection, receiver, caplog
):
    Client(with_webhooks(WEBHOOK_KEY=""), TOKENS["alice"]).get("/tasks")
    assert warnings(caplog) == []
    subscribe(connection, cast["acme"], receiver.url)
    client = Client(with_webhooks(WEBHOOK_KEY=""), TOKENS["alice"])
    for _ in range(2):
        assert client.post("/tasks", {"title": "New"}).status_code == 201
    assert client.client.get("/healthz").status_code == 200
    assert warnings(caplog) == ["WEBHOOK_KEY is not set: this process sends no event to a webhook"]


def test_the_key_of_the_first_process_is_kept_as_a_fingerprint_that_a_later_key_does_not_replace(
    worker, cast, connection, receiver, caplog
):
    webhook = subscribe(connection, cast["acme"], receiver.url)
    worker(WEBHOOK_KEY=OLD).run_once()
    assert caplog.messages == []
    worker(WEBHOOK_KEY=NEW).run_once()
    assert len(caplog.messages) == 1
    assert webhook_row(connection, webhook)["key_fingerprint"] == secrets.fingerprint(OLD)
