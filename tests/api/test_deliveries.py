"""Deliveries over HTTP: what was sent, what the receiver answered, and sending it again."""

import json

import pytest
from support.http import invalid_field, names, read_all
from support.receivers import announce, answer, deliveries, reset, subscribe
from support.statements import configure, managed

from service.api.deliveries import Attempt, Delivery, DeliveryDetails
from service.database.statements import STATEMENTS
from service.webhooks.worker import Worker


@pytest.fixture
def app(with_webhooks):
    """Return a service that posts webhooks, and whose worker retries after a minute."""
    return with_webhooks(WEBHOOK_SCHEDULE="60")


@pytest.fixture
def work(app):
    """Return a function that attempts the due deliveries and returns the number of attempts."""
    return lambda: Worker(app.config["SETTINGS"]).run_once()


@pytest.fixture
def webhook(connection, cast, receiver):
    return subscribe(connection, cast["acme"], receiver.url)


def listed(client, webhook, **query):
    return read_all(client, f"/webhooks/{webhook}/deliveries", **query)


def test_a_delivery_shows_its_event_its_state_and_its_attempts(
    alice, webhook, connection, receiver, work
):
    receiver.behaves(answer(500, b"try later"), answer(200, b"thanks"))
    alice.post("/tasks", {"title": "Sent"})
    (delivery,) = listed(alice, webhook)
    event = json.loads(receiver.take().body)
    assert list(delivery) == names(Delivery)
    assert (delivery["eventId"], delivery["type"]) == (event["id"], "task.created")
    assert (delivery["timestamp"], delivery["state"]) == (event["timestamp"], "waiting")
    (attempt,) = delivery["attempts"]
    assert list(attempt) == names(Attempt)
    assert (attempt["status"], attempt["error"], attempt["answer"]) == (500, None, "try later")
    assert delivery["nextAttemptAt"] > attempt["at"]
    connection.execute("UPDATE deliveries SET due_at = now()")
    connection.execute("UPDATE webhooks SET backoff_until = NULL")
    assert work() == 1
    (delivery,) = listed(alice, webhook)
    assert (delivery["state"], delivery["nextAttemptAt"]) == ("delivered", None)
    assert [attempt["status"] for attempt in delivery["attempts"]] == [500, 200]


def test_a_single_delivery_shows_the_bytes_that_were_sent(alice, webhook, receiver):
    alice.post("/tasks", {"title": 'Ünïcode \u2028 and " quotes'})
    (listing,) = listed(alice, webhook)
    response = alice.get(f"/webhooks/{webhook}/deliveries/{listing['id']}")
    delivery = response.get_json()
    assert list(delivery) == names(DeliveryDetails)
    assert delivery.pop("body").encode() == receiver.take().body
    assert delivery == listing
    assert "ETag" not in response.headers


def test_the_stored_answer_has_at_most_200_characters_and_no_headers(alice, webhook, receiver):
    receiver.behaves(answer(500, b"\xffx" * 500, Set_Cookie="token=s3cret", Retry_After="1"))
    alice.post("/tasks", {"title": "Sent"})
    response = alice.get(f"/webhooks/{webhook}/deliveries")
    (delivery,) = response.get_json()["data"]
    assert len(delivery["attempts"][0]["answer"]) == 200
    assert "s3cret" not in response.text


def test_the_error_of_an_attempt_hides_the_address_of_the_receiver(
    alice, cast, connection, work, receiver
):
    blocked = subscribe(connection, cast["acme"], "http://10.0.0.1/")
    failing = subscribe(connection, cast["acme"], receiver.url)
    receiver.behaves(reset)
    announce(connection, cast["acme"])
    work()
    for webhook, error in ((blocked, "blocked"), (failing, "ConnectionResetError")):
        (delivery,) = listed(alice, webhook)
        assert delivery["attempts"][0]["error"] == error
        assert delivery["attempts"][0]["status"] is None
    stored = connection.execute("SELECT error FROM attempts").fetchall()
    assert any("10.0.0.1" in row["error"] for row in stored)


def test_deliveries_can_be_filtered_by_state_and_come_newest_first(
    alice, webhook, cast, connection
):
    announce(connection, cast["acme"], 7)
    ids = [str(row["id"]) for row in reversed(deliveries(connection))]
    for state, some in (("delivered", ids[1:3]), ("failed", ids[3:6])):
        connection.execute(
            "UPDATE deliveries SET state = %s, finished_at = now() WHERE id = ANY (%s::uuid[])",
            (state, some),
        )
    expected = {"waiting": [ids[0], ids[6]], "delivered": ids[1:3], "failed": ids[3:6]}
    for state, some in expected.items():
        for limit in (1, 2, 200):
            found = listed(alice, webhook, state=state, limit=limit)
            assert [delivery["id"] for delivery in found] == some
            assert {delivery["state"] for delivery in found} == {state}
    assert [delivery["id"] for delivery in listed(alice, webhook, limit=3)] == ids
    other = alice.get(f"/webhooks/{webhook}/deliveries", query_string={"state": "due"})
    assert invalid_field(other, "state") == "must be one of: waiting, delivered, failed"


@pytest.mark.slow
@pytest.mark.parametrize("state", [None, "waiting", "delivered", "failed"])
def test_a_page_of_deliveries_in_one_state_reads_only_deliveries_in_that_state(
    webhook, cast, connection, state
):
    """Two waiting and two failed deliveries are older than 20 000 delivered ones."""
    announce(connection, cast["acme"], 4)
    connection.execute(
        "UPDATE deliveries SET state = 'failed'"
        " WHERE id IN (SELECT id FROM deliveries ORDER BY id LIMIT 2)"
    )
    connection.execute(
        "INSERT INTO deliveries (workspace_id, webhook_id, event_id, state, due_at)"
        " SELECT workspace_id, webhook_id, event_id, 'delivered', now()"
        " FROM (SELECT * FROM deliveries LIMIT 1) AS one, generate_series(1, 20000)"
    )
    connection.execute("ANALYZE deliveries")
    values = {"webhook_id": webhook, "after_id": None, "state": state, "limit": 2}
    with connection.transaction():
        configure(connection)
        (row,) = connection.execute(
            b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + STATEMENTS["deliveries/list"].source,
            {**managed(cast), **values},
        ).fetchall()
    ((plan,),) = row.values()
    assert plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"] < 300


def test_a_delivery_shows_its_last_20_attempts(alice, webhook, cast, connection):
    announce(connection, cast["acme"])
    (row,) = deliveries(connection)
    connection.execute(
        "INSERT INTO attempts (workspace_id, delivery_id, number, status, milliseconds)"
        " SELECT %s, %s, number, 400 + number, 1 FROM generate_series(1, 25) AS number",
        (row["workspace_id"], row["id"]),
    )
    (delivery,) = listed(alice, webhook)
    shown = [attempt["status"] for attempt in delivery["attempts"]]
    assert shown == list(range(406, 426))


# With "x", the answers alone have less than 1 MiB: the rest of the attempts must count, too.
@pytest.mark.parametrize("character", ["\U0001f600", "x"])
def test_a_page_of_deliveries_has_about_1_mib_of_attempts_at_most(
    alice, webhook, cast, connection, character
):
    announce(connection, cast["acme"], 200)
    connection.execute(
        "INSERT INTO attempts (workspace_id, delivery_id, number, status, milliseconds, answer)"
        " SELECT workspace_id, id, number, 500, 1, repeat(%s, 200)"
        " FROM deliveries, generate_series(1, 20) AS number",
        (character,),
    )
    path = f"/webhooks/{webhook}/deliveries"
    page = alice.get(path, query_string={"limit": 200})
    assert len(page.get_json()["data"]) < 200
    assert len(page.data) < 2 * 1024 * 1024
    assert len(listed(alice, webhook, limit=200)) == 200


def test_a_redelivery_sends_the_same_bytes_and_id(alice, webhook, connection, receiver, work):
    alice.post("/tasks", {"title": "Sent"})
    (delivery,) = listed(alice, webhook)
    assert delivery["state"] == "delivered"
    response = alice.post(f"/webhooks/{webhook}/deliveries/{delivery['id']}/redeliver")
    assert response.status_code == 200
    again = response.get_json()
    assert list(again) == names(Delivery)
    assert (again["state"], again["id"]) == ("waiting", delivery["id"])
    assert again["nextAttemptAt"] >= again["attempts"][0]["at"]
    assert work() == 1
    first, second = receiver.take_all()
    assert first.body == second.body
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == delivery["eventId"]
    (delivered,) = listed(alice, webhook)
    assert (delivered["state"], len(delivered["attempts"])) == ("delivered", 2)
