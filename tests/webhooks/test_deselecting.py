"""A webhook that deselects a type of event gets no event of this type, not even a waiting one."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import psycopg
import pytest
from support.commands import CommandRunner
from support.http import Client
from support.processes import states
from support.receivers import announce, answer, attempts, deliveries
from support.rows import TOKENS
from support.statements import until_waiting

ONE, TWO = "task.created", "task.updated"
REDELIVER = "webhook", "redeliver", "--failed"


@pytest.fixture
def alice(webhooks_app):
    return Client(webhooks_app, TOKENS["alice"])


@pytest.fixture
def waiting(connection, cast, webhook):
    """Announce three events of two types; no request posts them."""
    for type, times in ((ONE, 2), (TWO, 1)):
        announce(connection, cast["acme"], times, type)


@pytest.fixture
def select(alice, webhook):
    """Return a function that changes the types of the webhook."""

    def select(*types, **changes):
        response = alice.patch(f"/webhooks/{webhook}", {"events": [*types] or None, **changes})
        assert response.status_code == 200, response.get_json()
        return response.get_json()

    return select


def shown(client, webhook):
    """Return the type and the state of each delivery, as the API shows them."""
    page = client.get(f"/webhooks/{webhook}/deliveries").get_json()["data"]
    return sorted((delivery["type"], delivery["state"]) for delivery in page)


def kinds(connection):
    return {str(row["id"]): row["type"] for row in deliveries(connection)}


@pytest.mark.parametrize("changes", [{}, {"enabled": True}, {"enabled": False}], ids=str)
def test_waiting_deliveries_of_a_deselected_type_become_failed_and_are_never_posted(
    alice, webhook, waiting, select, worker, receiver, changes
):
    changed = select(TWO, **changes)
    assert changed["waiting"] == 1
    assert shown(alice, webhook) == [(ONE, "failed")] * 2 + [(TWO, "waiting")]
    # Selecting the type again, enabling and a new URL resume what waits, and nothing else.
    assert select(enabled=True, url=f"{receiver.url}?moved")["waiting"] == 1
    assert alice.post(f"/webhooks/{webhook}/ping").get_json()["status"] == 200
    receiver.take_all()
    assert worker().run_once() == 1
    assert len(receiver.take_all()) == 1
    assert shown(alice, webhook) == [(ONE, "failed")] * 2 + [(TWO, "delivered")]


@pytest.mark.parametrize("types", [(), (ONE, TWO), (ONE, TWO, "meeting.created")], ids=str)
def test_a_change_that_keeps_the_types_keeps_the_waiting_deliveries(waiting, select, worker, types):
    assert select(*types)["waiting"] == 3
    assert worker().run_once() == 3


def test_a_change_of_other_fields_keeps_a_delivery_that_somebody_redelivers(
    alice, webhook, waiting, select, worker, receiver
):
    select(TWO)
    given_up = alice.get(f"/webhooks/{webhook}/deliveries?state=failed").get_json()["data"][0]["id"]
    again = alice.post(f"/webhooks/{webhook}/deliveries/{given_up}/redeliver")
    assert (again.status_code, again.get_json()["state"]) == (200, "waiting")
    assert alice.patch(f"/webhooks/{webhook}", {"enabled": True}).get_json()["waiting"] == 2
    assert worker().run_once() == 2
    assert shown(alice, webhook) == [(ONE, "delivered"), (ONE, "failed"), (TWO, "delivered")]


def test_redelivering_all_failed_deliveries_leaves_out_deselected_types(
    webhooks_app, connection, webhook, waiting, select, worker
):
    connection.execute("UPDATE deliveries SET state = 'failed', finished_at = now()")
    select(TWO)
    runner = CommandRunner(webhooks_app)
    ran = runner.invoke(args=[*REDELIVER, webhook])
    assert [kinds(connection)[id] for id in ran.stdout.split()] == [TWO]
    select()
    ran = runner.invoke(args=[*REDELIVER, webhook])
    assert sorted(kinds(connection)[id] for id in ran.stdout.split()) == [ONE, ONE]
    assert worker().run_once() == 3


def test_redelivering_failed_deliveries_waits_for_a_running_change_of_the_types(
    webhooks_app, connection, database_url, webhook, waiting
):
    connection.execute("UPDATE deliveries SET state = 'failed', finished_at = now()")
    redeliver = partial(CommandRunner(webhooks_app).invoke, args=[*REDELIVER, webhook])
    with ThreadPoolExecutor(1) as pool, psycopg.connect(database_url) as other:
        # As webhooks/update locks it.
        other.execute("SELECT FROM webhooks WHERE id = %s FOR UPDATE", (webhook,))
        other.execute("UPDATE webhooks SET events = %s WHERE id = %s", ([TWO], webhook))
        ran = pool.submit(redeliver)
        until_waiting(connection, ran)
        other.commit()
        ids = ran.result().stdout.split()
    assert [kinds(connection)[id] for id in ids] == [TWO]


@pytest.mark.parametrize(
    ("status", "state"), [(200, "delivered"), (500, "failed"), (410, "failed")]
)
def test_an_attempt_in_flight_ends_as_it_ends_and_is_not_retried(
    alice, webhook, connection, cast, select, worker, receiver, status, state
):
    announce(connection, cast["acme"], 1, ONE)

    def late(handler):
        handler.server.released.wait(30)
        answer(status)(handler)

    receiver.behaves(late)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(worker().run_once)
        receiver.take()
        select(TWO)
        assert states(connection) == [("failed", 1)]
        receiver.released.set()
        assert running.result() == 1
    assert states(connection) == [(state, 1)]
    assert [attempt["status"] for attempt in attempts(connection)] == [status]
    connection.execute("UPDATE deliveries SET due_at = now()")
    connection.execute("UPDATE webhooks SET backoff_until = NULL")
    assert worker().run_once() == 0


def test_an_event_that_is_being_written_while_its_type_is_deselected_is_not_posted(
    connection, cast, webhook, select, worker, receiver
):
    with ThreadPoolExecutor(1) as pool:
        with connection.transaction():
            announce(connection, cast["acme"], 1, ONE)
            changed = pool.submit(select, TWO)
            until_waiting(connection, changed)
        assert changed.result()["waiting"] == 0
    assert states(connection) == [("failed", 0)]
    assert worker().run_once() == 0
    assert receiver.connections == 0
