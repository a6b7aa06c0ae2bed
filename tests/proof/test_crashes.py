"""Idempotency-Keys through crashes: a request that is retried until its response runs once."""

import http.client
import json
import os
import signal
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from threading import Event, Thread
from time import monotonic

import psycopg
import pytest
from client import TOKENS, insert, insert_member, insert_token
from psycopg.rows import dict_row
from receivers import WEBHOOK_SETTINGS, subscribe
from server import children, serving

from service.commands.migrate import migrate
from service.devkit import postgres as embedded
from service.settings import Settings

KILLS, RESTARTS, CLIENTS = 30, 5, 4
# Seconds until the test gives up; it takes a quarter of that.
PATIENCE = 60


pytestmark = pytest.mark.proof


@pytest.fixture
def postgres(database_url):
    """A server of its own, which may be torn down."""
    with tempfile.TemporaryDirectory(prefix="service-tests-", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o711)
        server = embedded.start(folder)
        yield server
        server.cleanup()


def restart(postgres):
    """End every backend at once, without a checkpoint; Postgres recovers from its log."""
    postgres.pg_ctl("restart", "-m", "immediate", "-l", str(postgres.log))


def connect(postgres):
    return psycopg.connect(postgres.get_uri(), autocommit=True, row_factory=dict_row)


@dataclass
class RetryingClient:
    """Creates one task a key, and retries each request until it has a response."""

    name: int
    port: int
    stop: Event
    # Keys to the ids in their answers.
    answered: dict = field(default_factory=dict)
    unanswered: Counter = field(default_factory=Counter)
    replayed: int = 0
    failure: Exception | None = None

    def run(self):
        try:
            end = monotonic() + PATIENCE
            while not self.stop.is_set():
                self.create(f"{self.name}-{len(self.answered)}", end)
        except Exception as error:
            self.failure = error

    def create(self, key, end):
        while monotonic() < end:
            try:
                answer, body = self.post(key)
            except (OSError, http.client.HTTPException) as error:
                self.unanswered[type(error).__name__] += 1
                self.stop.wait(0.02)
                continue
            if answer.status == 503:
                self.unanswered[503] += 1
                self.stop.wait(0.02)
                continue
            task = json.loads(body)
            assert answer.status == 201, task
            assert task["title"] == key
            assert answer.headers["Location"] == f"/api/tasks/{task['id']}"
            assert answer.headers["ETag"] == '"1"'
            self.replayed += answer.headers["Idempotent-Replayed"] == "true"
            self.answered[key] = task["id"]
            return
        raise AssertionError(f"{key} was never answered")

    def post(self, key):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request(
                "POST",
                "/api/tasks",
                json.dumps({"title": key}),
                {
                    "Authorization": f"Bearer {TOKENS['alice']}",
                    "Content-Type": "application/json",
                    "Idempotency-Key": key,
                },
            )
            answer = connection.getresponse()
            return answer, answer.read()
        finally:
            connection.close()


def arrange(postgres, url):
    """Alice in Acme, on a plan without limits, and a webhook for task.created."""
    migrate(Settings.read({"DATABASE_URL": postgres.get_uri()}))
    with connect(postgres) as connection:
        connection.execute("INSERT INTO plans (name, per_minute) VALUES ('Tests', 1000000)")
        acme = insert(connection, "workspaces", name="Acme", slug="acme", plan="Tests")
        alice = insert(connection, "users", email="alice@example.com", name="Alice")
        insert_member(connection, acme, alice, "owner")
        connection.execute("UPDATE users SET active_workspace_id = %s", (acme,))
        insert_token(connection, alice, TOKENS["alice"])
        subscribe(connection, acme, url, "task.created")


def strike(served, postgres, people):
    """Kill workers and restart Postgres under load, KILLS and RESTARTS times."""
    kills, restarts, random, pause = 0, 0, Random(1), Event()
    end = monotonic() + PATIENCE
    while kills < KILLS or restarts < RESTARTS:
        assert monotonic() < end, f"{kills} kills, {restarts} restarts"
        pause.wait(random.uniform(0.1, 0.3))
        # Not before the other one is there, so that there is something to kill.
        if kills < KILLS and len(workers := children(served.pid)) == 2:
            os.kill(random.choice(workers), signal.SIGKILL)
            kills += 1
        if restarts < RESTARTS and kills >= (restarts + 1) * KILLS // (RESTARTS + 1):
            before = sum(len(person.answered) for person in people)
            restart(postgres)
            restarts += 1
            # Not before somebody has been answered since.
            while sum(len(person.answered) for person in people) == before:
                assert monotonic() < end, "nobody was answered after a restart"
                pause.wait(0.02)
    return kills, restarts


def test_retries_under_a_key_create_one_task_through_kills_and_restarts(
    postgres, receiver, tmp_path
):
    arrange(postgres, receiver.url)
    started = monotonic()
    stop = Event()
    settings = {**WEBHOOK_SETTINGS, "WEB_CONCURRENCY": "2", "WEB_THREADS": "4"}
    with (
        open(tmp_path / "gunicorn.log", "wb") as log,
        serving(postgres.get_uri(), stderr=log, **settings) as served,
    ):
        people = [RetryingClient(number, served.port, stop) for number in range(CLIENTS)]
        threads = [Thread(target=person.run) for person in people]
        try:
            for thread in threads:
                thread.start()
            kills, restarts = strike(served, postgres, people)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    with connect(postgres) as connection:
        tasks = connection.execute("SELECT id::text, title FROM tasks").fetchall()
        events = connection.execute(
            "SELECT body::json -> 'data' ->> 'id' AS id FROM events WHERE type = 'task.created'"
        ).fetchall()
        keys = connection.execute(
            "SELECT key, body::json ->> 'id' AS id FROM idempotency_keys"
        ).fetchall()
    answered = {key: id for person in people for key, id in person.answered.items()}
    unanswered = sum((person.unanswered for person in people), Counter())
    replayed = sum(person.replayed for person in people)
    print(
        f"{monotonic() - started:.1f} s: kills {kills}, restarts {restarts}, keys {len(answered)},"
        f" unanswered {sum(unanswered.values())} {dict(unanswered)},"
        f" replayed {replayed},"
        f" tasks {len(tasks)}, events {len(events)}, kept keys {len(keys)}"
    )
    assert [person.failure for person in people] == [None] * CLIENTS
    assert (kills, restarts) == (KILLS, RESTARTS)
    assert len(answered) > 100
    # Some were done and not answered: what this is about.
    assert unanswered
    assert replayed
    # Exactly one of each: compared as lists, so that a second one shows.
    assert sorted((task["title"], task["id"]) for task in tasks) == sorted(answered.items())
    assert sorted(event["id"] for event in events) == sorted(answered.values())
    assert sorted((known["key"], known["id"]) for known in keys) == sorted(answered.items())
