"""Killed, stopped and reloaded processes."""

import json
import os
import signal
import socket
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from random import Random
from time import monotonic

import psycopg
import pytest
from faults.load import WEB, Load, compare_events, compare_tasks, kill, read, wait_until_delivered
from support.front import connects
from support.processes import (
    ALICE,
    TASK,
    children,
    free_port,
    post,
    send,
    serving,
    wait_until,
    working,
)
from support.receivers import WEBHOOK_SETTINGS, announce, answer, attempts, hang, secret_of
from support.rows import insert
from support.statements import waiting

from service.devkit.signatures import is_genuine

pytestmark = pytest.mark.faults

# With this short lease, another worker soon repeats an attempt that was killed.
SETTINGS = {**WEBHOOK_SETTINGS, **WEB, "WEBHOOK_TIMEOUT": "1", "WEBHOOK_LEASE": "1.5"}
RETRIES = {**SETTINGS, "WEBHOOK_SCHEDULE": ",".join(["0.5"] * 120)}


def kill_a_worker(server, random):
    """Kill one of the two worker processes with SIGKILL, once both run."""
    wait_until(lambda: len(children(server.pid)) == 2, server)
    os.kill(random.choice(children(server.pid)), signal.SIGKILL)


def test_killed_workers_lose_no_acknowledged_task_and_no_event(
    connection, database_url, receiver, subscribed, measure, rounds
):
    kills = rounds(10, 50)
    random = Random(1)
    with serving(database_url, **RETRIES) as server, working(database_url, **RETRIES):
        with Load(server.port, clients=6) as load:
            for _ in range(kills):
                load.wait_for_replies(random.randint(10, 40))
                kill_a_worker(server, random)
            load.wait_for_replies(20)
        stopped = monotonic()
        wait_until_delivered(connection)
        drained = monotonic() - stopped
    received = Counter(json.loads(one.body)["data"]["id"] for one in receiver.take_all())
    tasks = {row["id"] for row in connection.execute("SELECT id::text FROM tasks")}
    compare_tasks(measure, connection, load)
    compare_events(measure, connection)
    measure("tasks whose event did not arrive", len(tasks - received.keys()), exactly=0)
    measure("events of no task that arrived", len(received.keys() - tasks), exactly=0)
    measure("events that arrived again", received.total() - len(received), at_most=2 * kills)
    measure("all delivered after", drained, at_most=60, unit="s")


def test_a_killed_gunicorn_is_replaced_within_three_seconds(
    connection, database_url, receiver, subscribed, measure, rounds
):
    kills = rounds(3, 10)
    gaps = []
    port = free_port()
    with ExitStack() as stack, working(database_url, **RETRIES):
        server = stack.enter_context(serving(database_url, port=port, **RETRIES))
        with Load(port, clients=4) as load:
            for _ in range(kills):
                load.wait_for_replies(20)
                killed = monotonic()
                # As a supervisor would, the test immediately starts another gunicorn. The workers
                # of the first one notice that it is gone, and end.
                os.kill(server.pid, signal.SIGKILL)
                server.wait()
                server = stack.enter_context(serving(database_url, port=port, **RETRIES))
                gaps.append(load.recovery(killed))
        wait_until_delivered(connection)
    received = {json.loads(one.body)["data"]["id"] for one in receiver.take_all()}
    compare_tasks(measure, connection, load)
    compare_events(measure, connection)
    missing = load.acknowledged.keys() - received
    measure("acknowledged tasks whose event did not arrive", len(missing), exactly=0)
    measure("longest gap", max(gaps), at_most=3, unit="s")


def test_retries_with_one_idempotency_key_create_one_task_despite_kills_and_restarts(
    postgres, subscribed, database_url, reconnect, measure, rounds
):
    kills, restarts = rounds(10, 50), rounds(2, 8)
    random = Random(1)
    with (
        serving(database_url, **{**SETTINGS, "WEBHOOK_LEASE": "60"}) as server,
        Load(server.port, clients=4, keyed=True) as load,
    ):
        for number in range(1, kills + 1):
            load.stop.wait(random.uniform(0.1, 0.3))
            kill_a_worker(server, random)
            if number % (kills // restarts) == 0:
                postgres.pg_ctl("restart", "-m", "immediate", "-l", str(postgres.log))
                load.wait_for_replies(1)
    connection = reconnect()
    tasks = connection.execute("SELECT id::text, title FROM tasks").fetchall()
    events = connection.execute(
        "SELECT body::json -> 'data' ->> 'id' AS id FROM events WHERE type = 'task.created'"
    ).fetchall()
    keys = connection.execute(
        "SELECT key, body::json ->> 'id' AS id FROM idempotency_keys"
    ).fetchall()
    created = [reply for reply in load.replies if reply.id]
    for reply in created:
        assert reply.headers["location"] == f"tasks/{reply.id}"
        assert reply.headers["etag"] == '"1"'
    answered = sorted((reply.title, reply.id) for reply in created)
    replayed = sum(reply.headers.get("idempotent-replayed") == "true" for reply in created)
    measure("keys", len(answered), at_least=50)
    measure("responses other than 201 and 503", load.other_than(201, 503, None), exactly=0)
    measure("requests without a response", load.number(503, None), at_least=1)
    # Some requests were carried out and not answered. Their repetition gets the stored response.
    measure("responses replayed", replayed, at_least=1)
    # These are compared as lists, so that a duplicate is noticed.
    differences = [
        sorted((task["title"], task["id"]) for task in tasks) != answered,
        sorted(event["id"] for event in events) != sorted(id for _, id in answered),
        sorted((known["key"], known["id"]) for known in keys) != answered,
    ]
    measure("differences between responses and tasks, events, keys", sum(differences), exactly=0)


def test_an_event_whose_acknowledgement_is_lost_arrives_again_unchanged(
    connection, database_url, receiver, subscribed, measure
):
    receiver.behaves(hang, answer(200))
    with serving(database_url, **{**RETRIES, "WEB_CONCURRENCY": "1"}) as server:
        with ThreadPoolExecutor(1) as thread:
            sent = thread.submit(send, server.port, post(TASK, f"Content-Length: {len(TASK)}\r\n"))
            first = receiver.take()
            # The receiver has got the event. Kill the process that waits for the receiver's answer.
            kill(server)
            receiver.released.set()
            assert sent.result().status is None
        with working(database_url, **RETRIES):
            second = receiver.take()
            wait_until_delivered(connection)
    same = first.headers["webhook-id"] == second.headers["webhook-id"]
    other = not same or first.body != second.body
    measure("second arrivals with another id or body", int(other), exactly=0)
    genuine = [
        is_genuine(one.headers.get, one.body, secret_of(subscribed)) for one in (first, second)
    ]
    measure("invalid signatures", genuine.count(False), exactly=0)


def test_four_workers_deliver_each_event_once(
    connection, database_url, cast, receiver, subscribed, measure, rounds
):
    events = rounds(400, 4000)
    announce(connection, cast["acme"], events)
    # Each worker has 16 threads.
    settings = {**RETRIES, "WEBHOOK_LEASE": "60"}
    with ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(working(database_url, **settings))
        wait_until_delivered(connection)
    received = Counter(one.headers["webhook-id"] for one in receiver.take_all())
    measure("events that did not arrive", events - len(received), exactly=0)
    measure("events that arrived again", received.total() - len(received), exactly=0)
    measure("attempts", len(attempts(connection)), at_most=events)


def test_sigterm_lets_every_request_in_flight_finish(connection, database_url, cast, measure):
    requests = 20
    with (
        serving(database_url, WEB_CONCURRENCY="1", WEB_THREADS="4") as server,
        psycopg.connect(database_url) as holder,
        ExitStack() as stack,
    ):
        id = insert(
            connection, "tasks", title="x", workspace_id=cast["acme"], created_by=cast["alice"]
        )
        holder.execute("SELECT FROM tasks WHERE id = %s FOR UPDATE", (id,))
        clients = []
        for number in range(requests):
            body = json.dumps({"title": str(number)}).encode()
            head = f"PATCH /api/tasks/{id} HTTP/1.1\r\n{ALICE}Content-Length: {len(body)}\r\n\r\n"
            clients.append(
                stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            )
            clients[-1].sendall(head.encode() + body)
        # All threads wait for the row. The poller itself rejects a head that is too long, so this
        # response proves that the server has accepted all connections before it.
        wait_until(lambda: waiting(connection) == 4, server)
        assert send(server.port, b"GET / HTTP/1.1\r\nX: " + b"x" * 2**16).status == 431
        server.terminate()
        stopped = monotonic()
        wait_until(lambda: not connects(server.port))
        holder.rollback()
        done = []
        for client in clients:
            client.settimeout(30)
            done.append(client.recv(65536)[9:12])
        stack.close()
        server.wait(30)
        ended = monotonic() - stopped
    measure("requests that did not complete", requests - done.count(b"200"), exactly=0)
    measure("end of the server after SIGTERM", ended, at_most=30, unit="s")


def test_no_client_gets_an_error_when_gunicorn_reloads_or_replaces_worn_out_workers(
    connection, database_url, measure, rounds
):
    reloads = rounds(3, 10)
    # gunicorn replaces a worker process after this many requests.
    settings = {**WEB, "GUNICORN_CMD_ARGS": "--max-requests 150 --max-requests-jitter 50"}
    with (
        serving(database_url, **settings) as server,
        Load(server.port, clients=2) as writers,
        Load(server.port, clients=2, request=read, keep_alive=True) as readers,
    ):
        before = set(children(server.pid))
        for _ in range(reloads):
            writers.wait_for_replies(50)
            server.send_signal(signal.SIGHUP)
        wait_until(lambda: not before & set(children(server.pid)), server)
        writers.wait_for_replies(50)
    measure("errors of clients without keep-alive", writers.other_than(201), exactly=0)
    measure("errors of clients with keep-alive", readers.other_than(200), exactly=0)
    compare_tasks(measure, connection, writers)
