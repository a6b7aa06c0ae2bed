"""Receivers of webhooks that are down or hang, and tenants that crowd each other out."""

import json
from contextlib import closing
from threading import Event
from time import monotonic

import pytest
from faults.load import (
    WEB,
    Load,
    compare_events,
    compare_tasks,
    percentile,
    read,
    wait_until_delivered,
)
from support.processes import free_port, serving, wait_until, working
from support.receivers import WEBHOOK_SETTINGS, Receiver, announce, hang, subscribe, webhook_row
from support.rows import TOKENS

pytestmark = pytest.mark.faults

SETTINGS = {**WEBHOOK_SETTINGS, **WEB, "WEBHOOK_SCHEDULE": ",".join(["1"] * 120)}


def test_an_outage_of_a_receiver_delays_events_and_nothing_else(
    connection, database_url, cast, measure, rounds
):
    outage = rounds(4, 60)
    port = free_port()
    subscribe(connection, cast["acme"], f"http://127.0.0.1:{port}/hook", "task.created")
    with serving(database_url, **SETTINGS) as server, working(database_url, **SETTINGS):
        with Load(server.port, clients=2, pause=0.02) as load:
            load.wait_for_replies(10)
            Event().wait(outage)
        with closing(Receiver(address=("127.0.0.1", port))) as receiver:
            up = monotonic()
            wait_until_delivered(connection)
            drained = monotonic() - up
            received = {json.loads(one.body)["data"]["id"] for one in receiver.take_all()}
    measure("writes other than 201", load.other_than(201), exactly=0)
    compare_tasks(measure, connection, load)
    compare_events(measure, connection)
    measure("events that did not arrive", len(load.acknowledged.keys() - received), exactly=0)
    measure("p99 of writes meanwhile", load.percentile(0.99) * 1000, at_most=100, unit="ms")
    measure("backlog delivered after", drained, at_most=60, unit="s")


def test_a_receiver_that_hangs_slows_down_only_the_first_writes(
    connection, database_url, receiver, subscribed, measure, rounds
):
    seconds = rounds(3, 20)
    with (
        serving(database_url, **SETTINGS) as server,
        working(database_url, **SETTINGS),
        Load(server.port, clients=2, request=read) as readers,
        Load(server.port, clients=2) as writers,
    ):
        writers.wait_for_replies(20)
        starts = [monotonic()]
        Event().wait(seconds)
        starts.append(monotonic())
        receiver.behaves(hang)
        # Once an attempt has failed, requests leave the events of this webhook to the worker.
        wait_until(lambda: webhook_row(connection, subscribed)["failing_since"])
        starts.append(monotonic())
        Event().wait(seconds)
        receiver.released.set()
    calm, hanging = (
        [
            [one for one in load.replies if start <= one.started < start + seconds]
            for load in (readers, writers)
        ]
        for start in (starts[0], starts[2])
    )
    others = readers.other_than(200) + writers.other_than(201)
    measure("responses other than 200 and 201", others, exactly=0)
    measure("slowest write, the receiver begins to hang", writers.slowest, at_most=2.5, unit="s")
    before, after = (1000 * percentile(replies[0], 0.99) for replies in (calm, hanging))
    measure("p99 of reads while it hangs", after, at_most=2 * before, unit="ms")
    share = 100 * len(hanging[1]) // len(calm[1])
    measure("writes while it hangs, of those while it responds", share, at_least=50, unit="%")


def test_a_tenant_with_a_backlog_to_a_hanging_receiver_does_not_delay_other_tenants(
    connection, database_url, cast, receiver, subscribed, measure
):
    receiver.behaves(hang)
    announce(connection, cast["acme"], 10_000)
    with closing(Receiver()) as other, working(database_url, **SETTINGS):
        # Wait until the worker has as many attempts in flight as one workspace may have.
        for _ in range(4):
            receiver.take()
        subscribe(connection, cast["globex"], other.url)
        delays = []
        for _ in range(5):
            announce(connection, cast["globex"])
            started = monotonic()
            other.take()
            delays.append(monotonic() - started)
        receiver.released.set()
    measure("longest delay of another workspace's events", max(delays), at_most=2, unit="s")


def test_a_tenant_that_floods_past_its_limit_does_not_slow_down_other_tenants(
    connection, database_url, cast, measure, rounds
):
    seconds = rounds(2, 20)
    connection.execute("UPDATE workspaces SET plan = 'Starter' WHERE slug = 'acme'")
    charlie = {"clients": 1, "request": read, "token": TOKENS["charlie"], "pause": 0.01}
    with serving(database_url, **SETTINGS) as server:
        with Load(server.port, **charlie) as calm:
            Event().wait(seconds)
        with (
            Load(server.port, clients=4, request=read) as flood,
            Load(server.port, **charlie) as load,
        ):
            Event().wait(seconds)
    measure("of them admitted", len(flood.good()), at_most=60)
    measure("responses to the other tenant other than 200", load.other_than(200), exactly=0)
    before = calm.percentile(0.99) * 1000
    measure("p99 beside it", load.percentile(0.99) * 1000, at_most=1.5 * before, unit="ms")
