"""The webhook commands: what they print, reject and store."""

import json
import re
from datetime import UTC

import pytest
from support.commands import TIMESTAMP, assert_failed, lines
from support.http import Client
from support.receivers import KEY, announce, answer, deliveries, reset, subscribe, webhook_row
from support.rows import TOKENS

from service.webhooks.secrets import derive_secret

UNKNOWN = "00000000-0000-7000-8000-000000000000"


@pytest.fixture
def cli(with_settings):
    return lambda *words, **changes: with_settings("webhook", *map(str, words), **changes)


@pytest.fixture
def work(with_settings):
    return lambda **changes: with_settings("worker", "--once", **changes)


@pytest.mark.parametrize(
    ("command", "thing"),
    [
        ("rotate", "webhook"),
        ("disable", "webhook"),
        ("enable", "webhook"),
        ("deliveries", "webhook"),
        ("redeliver", "delivery"),
        ("list", "workspace"),
    ],
)
@pytest.mark.parametrize("id", [UNKNOWN, "nonsense", "'; --"])
def test_a_webhook_command_names_an_unknown_id(command, thing, id, cli):
    ran = cli(command, id)
    assert ran.exit_code == 1
    assert ran.stderr == f"Error: there is no {thing} {id}\n"


def test_rotate_fails_without_webhook_key_and_changes_nothing(cli, cast, connection, receiver):
    webhook = subscribe(connection, cast["acme"], receiver.url)
    ran = cli("rotate", webhook, WEBHOOK_KEY="")
    assert ran.exit_code == 1
    assert "WEBHOOK_KEY is not set" in ran.stderr
    assert webhook_row(connection, webhook)["secret_number"] == 1


# list, deliveries


@pytest.mark.parametrize(
    ("behaviour", "end"), [(answer(500), "500"), (reset, "ConnectionResetError")]
)
def test_the_command_list_shows_waiting_deliveries_and_their_next_and_last_attempts(
    behaviour, end, work, cli, cast, connection, receiver
):
    receiver.behaves(behaviour)
    webhook = subscribe(connection, cast["acme"], receiver.url)
    announce(connection, cast["acme"], 3)
    work(WEBHOOK_SCHEDULE="3600")
    ((*known, _, _, waiting, next_attempt, backoff, last, status),) = lines(cli("list", "acme"))
    assert known == [webhook, "failing", receiver.url, "all"]
    row = webhook_row(connection, webhook)
    ends = row["backoff_until"].astimezone(UTC).isoformat(timespec="milliseconds")
    assert (waiting, status.partition(":")[0]) == ("3", end)
    assert next_attempt == backoff == ends.replace("+00:00", "Z")
    assert last < next_attempt
    (listed,) = json.loads(cli("list", "acme", "--json").stdout)
    assert (listed["waiting"], listed["nextAttemptAt"]) == (3, next_attempt)
    assert (listed["events"], listed["lastStatus"]) == (None, status)
    cli("disable", webhook)
    assert lines(cli("list", "acme"))[0][6:8] == ["3", "-"]


def test_the_command_deliveries_shows_each_attempt_in_one_line(
    work, cli, cast, connection, receiver
):
    receiver.behaves(answer(500, b"line\nline\ttab \x1b[31mred"), answer(200, b""))
    webhook = subscribe(connection, cast["acme"], receiver.url)
    announce(connection, cast["acme"], 2)
    work(WEBHOOK_SCHEDULE="60")
    connection.execute("UPDATE deliveries SET due_at = now()")
    connection.execute("UPDATE webhooks SET backoff_until = NULL")
    work()
    shown = lines(cli("deliveries", webhook))
    assert len(shown) == 3
    assert all(len(line) == 12 for line in shown)
    (failed,) = [line for line in shown if line[5] == "500"]
    assert failed[1:4] == ["task.created", "delivered", "1"]
    assert failed[8] == r"line\nline\ttab \x1b[31mred"
    assert sorted(line[3] for line in shown) == ["1", "1", "2"]
    assert [line[0] for line in shown] == sorted((line[0] for line in shown), reverse=True)
    assert {line[0] for line in lines(cli("deliveries", webhook, "--limit", 1))} == {shown[0][0]}


def test_deliveries_shows_a_delivery_without_attempts(cli, cast, connection, receiver):
    webhook = subscribe(connection, cast["acme"], receiver.url)
    announce(connection, cast["acme"])
    ((_, *rest),) = lines(cli("deliveries", webhook))
    assert rest[:8] == ["task.created", "waiting", "-", "-", "-", "-", "-", "-"]
    assert re.fullmatch(TIMESTAMP, rest[8])
    assert rest[9:] == [webhook, "-"]


def test_deliveries_are_found_by_the_id_of_the_task(cli, with_webhooks, cast, connection, receiver):
    both = {subscribe(connection, cast["acme"], receiver.url) for _ in range(2)}
    alice = Client(with_webhooks(WEBHOOK_KEY=""), TOKENS["alice"])
    task = alice.post("/tasks", {"title": "Sought", "description": UNKNOWN}).get_json()["id"]
    other = alice.post("/tasks", {"title": task}).get_json()["id"]
    found = lines(cli("deliveries", "--about", task.upper()))
    assert {line[10] for line in found} == both
    assert {line[11] for line in found} == {task}
    webhook = both.pop()
    (only,) = lines(cli("deliveries", webhook, "--about", task))
    assert only[10:] == [webhook, task]
    assert {line[11] for line in lines(cli("deliveries", webhook))} == {task, other}
    assert lines(cli("deliveries", "--about", UNKNOWN)) == []
    (document,) = json.loads(cli("deliveries", webhook, "--about", task, "--json").stdout)
    assert (document["about"], document["state"], document["status"]) == (task, "waiting", None)


# redeliver


def test_redeliver_retries_a_failed_delivery_once_its_webhook_is_enabled(
    work, cli, cast, connection, receiver
):
    webhook = subscribe(connection, cast["acme"], receiver.url)
    announce(connection, cast["acme"])
    connection.execute("UPDATE deliveries SET state = 'failed', attempts = 9, finished_at = now()")
    (delivery,) = deliveries(connection)
    cli("disable", webhook)
    cli("redeliver", delivery["id"])
    assert deliveries(connection)[0]["state"] == "waiting"
    assert lines(work()) == [["0"]]
    cli("enable", webhook)
    assert lines(work()) == [["1"]]
    assert deliveries(connection)[0]["state"] == "delivered"


def test_redeliver_failed_retries_the_deliveries_that_failed_since_a_time(
    work, cli, cast, connection, receiver
):
    webhook = subscribe(connection, cast["acme"], receiver.url)
    other = subscribe(connection, cast["acme"], receiver.url)
    announce(connection, cast["acme"], 3)
    connection.execute(
        "UPDATE deliveries SET state = 'failed', finished_at = '2026-01-01T00:00:00Z'"
    )
    of_webhook = "SELECT id::text FROM deliveries WHERE webhook_id = %s ORDER BY id"
    old, new, delivered = (row["id"] for row in connection.execute(of_webhook, (webhook,)))
    connection.execute(
        "UPDATE deliveries SET finished_at = '2026-01-02T00:00:00Z' WHERE id = %s", (new,)
    )
    connection.execute("UPDATE deliveries SET state = 'delivered' WHERE id = %s", (delivered,))
    failed = "redeliver", "--failed", webhook
    assert lines(cli(*failed, "--since", "2026-01-02T00:00:00.001Z")) == []
    assert lines(cli(*failed, "--since", "2026-01-02T00:00:00Z")) == [[new]]
    assert lines(cli(*failed)) == [[old]]
    assert lines(cli(*failed)) == []
    assert lines(work()) == [["2"]]
    states = "SELECT DISTINCT state FROM deliveries WHERE webhook_id = %s"
    assert [row["state"] for row in connection.execute(states, (other,))] == ["failed"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("redeliver", "--failed", UNKNOWN), 1, f"there is no webhook {UNKNOWN}"),
        (("redeliver", "--failed", None, "--since", "yesterday"), 1, "--since: must be an ISO 860"),
        (("redeliver", UNKNOWN, "--since", "2026-01-01T00:00:00Z"), 2, "--since needs --failed"),
        (("deliveries",), 2, "give the ID of a webhook, or --about the id of a task"),
    ],
)
def test_a_webhook_command_says_which_argument_it_needs(
    words, code, message, cli, cast, connection, receiver
):
    webhook = subscribe(connection, cast["acme"], receiver.url)
    assert_failed(cli(*(word or webhook for word in words)), message, code)


# rotate


@pytest.mark.parametrize("key", [KEY, "the new key that an operator has made"])
def test_rotate_prints_a_secret_that_derives_from_the_newest_key(
    cli, cast, connection, receiver, key
):
    webhook = subscribe(connection, cast["acme"], receiver.url)
    keys = KEY if key == KEY else f"{key},{KEY}"
    assert lines(cli("rotate", webhook, WEBHOOK_KEY=keys)) == [[derive_secret(key, webhook, 2)]]
    assert webhook_row(connection, webhook)["secret_number"] == 2
    assert KEY not in cli("list", "acme").output
