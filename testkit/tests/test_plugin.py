"""The fixture ``service`` is the real service. It is reset before each test and fails on demand."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial

import psycopg
import pytest
import urllib3
from standardwebhooks import Webhook
from support.processes import is_running, wait_until
from support.receivers import Receiver

from pytest_task_service import Service
from pytest_task_service.process import Command
from service.webhooks.secrets import signatures

pytestmark = pytest.mark.nodatabase

http = urllib3.PoolManager(retries=False, timeout=20)
TASK = {"title": "Write"}
# Other plugins of this environment would take a second to import.
PYTEST = [sys.executable, "-m", "pytest", "-p", "pytest_task_service"]


@pytest.fixture
def call(service):
    """Return a function that sends a request as the owner, or with another token."""

    def call(method, path, token=None, json=None, **headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if "Cookie" not in headers:
            headers["Authorization"] = f"Bearer {token or service.token}"
        return http.request(method, service.base_url + path, headers=headers, json=json)

    return call


def titles(response):
    return [item["title"] for item in response.json()["data"]]


def test_each_test_begins_with_exactly_the_initial_state(service, call):
    me = service.user
    members = call("GET", f"/workspaces/{service.workspace.id}/members").json()
    assert [(user["userId"], user["email"], user["role"]) for user in members] == [
        (user.id, user.email, user.role) for user in (me, service.member)
    ]
    assert service.stranger.workspace.id != service.workspace.id
    for user in (me, service.member, service.stranger):
        for credential in ({"token": user.token}, {"Cookie": f"session={user.cookie}"}):
            (workspace,) = call("GET", "/workspaces", **credential).json()
            assert (workspace["id"], workspace["slug"]) == (user.workspace.id, user.workspace.slug)
    for path in ("/tasks", "/meetings", "/mail", "/knowledge", "/ai/suggestions"):
        assert titles(call("GET", path)) == []
    assert [webhook["id"] for webhook in call("GET", "/webhooks").json()] == [service.webhooks.id]
    assert service.webhooks.posts == []


def test_a_reset_undoes_everything_and_keeps_ids_and_credentials(service, call, database_url):
    def plans(url):
        with psycopg.connect(url) as connection:
            return connection.execute("SELECT * FROM plans ORDER BY name").fetchall()

    for name in ("Team", "Pro", "Starter"):
        service.plan(name, per_minute=1, per_day=9)
    service.webhooks.fail()
    assert call("POST", "/tasks", json=TASK, Idempotency_Key="once").status == 201
    assert call("GET", "/tasks").status == 429
    service.fault("503", times=100)
    service.reset()
    assert plans(service.database_url) == plans(database_url)
    assert service.webhooks.posts == []
    assert titles(call("GET", "/tasks")) == []
    again = call("POST", "/tasks", json={"title": "Other"}, Idempotency_Key="once")
    assert again.status == 201
    assert again.headers["X-RateLimit-Limit"] == "1000"
    assert [event["data"] for event in service.webhooks.events] == [again.json()]


def test_load_accepts_the_objects_of_the_command_load_and_fills_in_the_owner(service, call):
    mail = {"from": "eve@example.com", "subject": "Hi", "receivedAt": "2026-01-01T00:00:00Z"}
    service.load(
        {"type": "task", "title": "Mine", "assigneeId": service.member.email},
        {"type": "task", "title": "Theirs", "workspace": service.stranger.workspace.slug},
        {"type": "mail", **mail},
    )
    (task,) = call("GET", "/tasks").json()["data"]
    assert (task["title"], task["assigneeId"], task["createdBy"]) == (
        "Mine",
        service.member.id,
        service.user.id,
    )
    assert titles(call("GET", "/tasks", service.stranger.token)) == ["Theirs"]
    assert [item["subject"] for item in call("GET", "/mail").json()["data"]] == ["Hi"]


def test_load_returns_ids_accepts_datetimes_and_keeps_the_order_of_creation(service, call):
    task = {"type": "task", **TASK}
    day = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
    ids = service.load(
        *[task] * 100,
        {**task, "createdAt": day, "dueDate": day},
        {"type": "user", "name": "Eve", "email": "eve@example.com"},
        {"type": "member", "user": "eve@example.com"},
        {
            "type": "deleted_user",
            "id": service.member.id.replace(service.member.id[:8], "01900000"),
        },
    )
    *tasks, old, eve, member, gone = ids
    assert member is None
    assert gone.startswith("01900000")
    assert call("GET", f"/tasks/{old}").json()["dueDate"] == "2026-01-02T03:04:00.000Z"
    listed = [item["id"] for item in call("GET", "/tasks?limit=200").json()["data"]]
    assert listed == [*tasks[::-1], old]
    token = service.create_token("eve@example.com")
    assert call("GET", "/me", token).json()["user"]["id"] == eve
    with pytest.raises(TypeError, match="neither JSON nor a datetime"):
        service.load({**task, "dueDate": day.date()})


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda service: service.load(TASK | {"type": "task"}, {"type": "task"}), "objects:2: tit"),
        (lambda service: service.load({"type": "deleted_user"}), "objects:1: id: is required"),
        (lambda service: service.load({"type": "job"}), "objects:1: type: must be one of: "),
        (lambda service: service.load({"type": ["task"]}), "objects:1: type: must be one of: "),
        (lambda service: service.fault("503", path="/tasks"), "path: must begin with /api/"),
        (lambda service: service.fault("503", path="/api/tasks?limit=1"), "path: must begin with"),
        (lambda service: service.fault("404"), "kind: must be one of: 500, 503, 429, drop, "),
        (lambda service: service.fault("slow", seconds=61), "seconds: "),
        (lambda service: service.plan("Gold"), "name: must be one of: Starter, Pro, Team"),
        (lambda service: service.plan(per_minute=0), "perMinute: "),
        (lambda service: service.set_clock("tomorrow"), "now: "),
        (lambda service: service.webhooks.fail(status=200), "status: "),
        (lambda service: service.create_token("ada"), "user: must be one of: user, member, str"),
        (lambda service: service.create_token("a@b.de"), "user: there is no user a@b.de"),
        (lambda service: service.fault("503", skip=-1), "skip: "),
        (lambda service: service.fault("503", rate=1.5), "rate: must be from 0 to 1"),
        (lambda service: service.fault("503", rate=-0.1), "rate: must be from 0 to 1"),
        (lambda service: service.fault("slow", jitter=61), "jitter: must be from 0 to 60"),
        (lambda service: service.fault("503", jitter=1), "jitter: only with kind slow or latency"),
        (lambda service: service.fault("503", seed=1), "seed: only with rate or jitter"),
        (lambda service: service.fault("503", rate=1, seed=-1), "seed: "),
        (lambda service: service.reset("A"), "name: there is no snapshot 'A'; there are: none"),
        (lambda service: service.snapshot(""), "name: must have 1 to "),
        (lambda service: service.snapshot("A" * 65_537), "name: must have 1 to "),
        (lambda service: service.webhooks.create("http://x", "lost"), "events[0]: must be one"),
        (lambda service: service.webhooks.create("localhost:9000/hook"), "url: must "),
    ],
)
def test_an_invalid_argument_raises_an_error_that_names_the_allowed_values(
    service, call, act, message
):
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        act(service)
    assert titles(call("GET", "/tasks")) == []


def test_a_rate_limit_applies_until_the_clock_is_set_past_its_window(service, call):
    service.plan(per_minute=2, per_day=3)
    assert [call("GET", "/tasks").status for _ in range(3)] == [200, 200, 429]
    service.set_clock(service.now + timedelta(minutes=1))
    assert [call("GET", "/tasks").status for _ in range(2)] == [200, 429]
    service.set_clock(service.now + timedelta(days=1))
    assert call("GET", "/tasks").status == 200


def test_credentials_expire_by_the_clock_of_the_double_except_the_token_of_the_owner(service, call):
    token = service.create_token("member", scope="read", expires_in=7)
    assert call("POST", "/tasks", token, TASK).status == 403
    cookie = service.create_token(kind="session", expires_in=8)
    session = {"Cookie": f"session={cookie}"}
    month = {"Cookie": f"session={service.create_token(kind='session')}"}
    assert call("GET", "/tasks", token).status == call("GET", "/tasks", **session).status == 200
    service.set_clock(service.now + timedelta(days=7))
    assert call("GET", "/tasks", token).status == 401
    assert call("GET", "/tasks", **session).status == 200
    service.set_clock(service.now + timedelta(days=22))
    assert call("GET", "/tasks", **session).status == 401
    assert call("GET", "/tasks", **month).status == 200
    service.set_clock(service.now + timedelta(days=1))
    assert call("GET", "/tasks", **month).status == 401
    assert call("GET", "/tasks", Cookie=f"session={service.cookie}").status == 401
    assert call("GET", "/tasks").status == 200


@pytest.mark.parametrize(("kind", "wait"), [("503", "7"), ("429", "7"), ("500", None)])
def test_the_next_requests_get_the_fault_as_a_genuine_error_response_of_the_service(
    service, call, kind, wait
):
    service.fault(kind, times=2, seconds=7)
    for _ in range(2):
        response = call("POST", "/tasks", json=TASK)
        assert response.status == response.json()["status"] == int(kind)
        assert response.headers.get("Retry-After") == wait
        assert wait is None or response.headers["X-RateLimit-Remaining"] == "0"
        assert response.json()["requestId"] == response.headers["X-Request-Id"]
    assert titles(call("GET", "/tasks")) == []


def test_a_fault_waits_for_a_request_with_its_method_and_its_path_which_may_have_a_star(
    service, call
):
    service.fault("503", method="GET", skip=2, times=2)
    assert call("POST", "/tasks", json=TASK).status == 201
    assert [call("GET", "/tasks").status for _ in range(5)] == [200, 200, 503, 503, 200]
    # A request that one fault lets pass can meet the next one.
    service.fault("503", method="GET", skip=1)
    service.fault("500", method="GET")
    assert [call("GET", "/tasks").status for _ in range(3)] == [500, 503, 200]
    service.fault("503", method="POST", path="/api/meetings")
    assert call("GET", "/meetings").status == 200
    task = call("POST", "/tasks", json=TASK).json()
    assert call("POST", "/meetings", json=TASK).status == 503
    assert call("POST", "/meetings", json=TASK).status == 400
    service.fault("503", path="/api/tasks/*", times=2)
    assert call("GET", "/tasks").status == 200
    assert call("GET", f"/tasks/{task['id']}").status == 503
    service.fault("500", path="/api/*/members")
    assert call("GET", f"/workspaces/{service.workspace.id}").status == 200
    assert call("GET", f"/workspaces/{service.workspace.id}/members").status == 500


def test_faults_that_no_request_has_met_are_listed_until_they_are_cleared(service, call):
    service.fault("503", path="/api/task")
    service.fault("500", times=2)
    service.fault("latency", seconds=0)
    assert call("GET", "/tasks").status == 500
    assert [(fault["kind"], fault["times"], fault["met"]) for fault in service.unmet_faults] == [
        ("503", 1, False),
        ("500", 1, True),
    ]
    service.clear_faults()
    assert service.unmet_faults == []
    assert call("GET", "/tasks").status == 200


def test_a_fault_with_a_rate_meets_a_share_of_the_requests_which_its_seed_repeats(service, call):
    def statuses(**options):
        service.reset()
        service.fault("503", method="GET", **options)
        return [call("GET", "/tasks").status for _ in range(40)]

    first = statuses(rate=0.5)
    assert {*first} == {200, 503}
    (fault,) = service.unmet_faults
    assert (fault["rate"], fault["times"], fault["met"]) == (0.5, None, True)
    assert statuses(rate=0.5, seed=fault["seed"]) == first
    assert statuses(rate=0.5, seed=fault["seed"] + 1) != first
    assert statuses(rate=0) == [200] * 40
    assert statuses(rate=1, skip=2, times=3) == [200] * 2 + [503] * 3 + [200] * 35
    # The seed of a fault that is over is needed to repeat the run.
    (fault,) = service.unmet_faults
    assert fault["times"] == 0
    assert fault["seed"] is not None
    few, many = statuses(rate=0.1, seed=1).count(503), statuses(rate=0.9, seed=1).count(503)
    assert 0 < few < 15 < 25 < many < 40


def test_jitter_adds_a_part_of_its_seconds_to_each_delay(service, call):
    def longest(kind, **options):
        """Return the place of the longest of five delays."""
        service.reset()
        service.fault(kind, times=5, seconds=0, **options)
        waited = []
        for _ in range(5):
            began = time.monotonic()
            assert call("GET", "/tasks").status == 200
            waited.append(time.monotonic() - began)
        return waited.index(max(waited))

    # With this seed, one delay has almost the whole second, and the others have a tenth at most.
    assert longest("slow", jitter=1, seed=6714) == longest("latency", jitter=1, seed=6714) == 2
    longest("slow", jitter=0.001)
    (fault,) = service.unmet_faults
    assert (fault["jitter"], fault["rate"]) == (0.001, None)
    assert fault["seed"] is not None
    service.reset()
    service.fault("latency", rate=0, jitter=60)
    # The client gives up after 20 seconds.
    assert call("GET", "/tasks").status == 200


def test_the_journal_records_what_the_client_sent_without_its_credentials(service, call):
    call("POST", "/tasks", json=TASK, Idempotency_Key="once")
    call("GET", "/tasks?limit=1&status=todo", Cookie=f"session={service.cookie}")
    call("POST", "/tasks", "unknown", {"title": "No"})
    service.fault("drop-after-commit")
    with pytest.raises(urllib3.exceptions.ProtocolError):
        call("POST", "/tasks", json=TASK)
    call("POST", "/tasks", json={"title": "A" * 200_000})
    http.request("GET", service.base_url.removesuffix("/api") + "/healthz")
    created, listed, rejected, dropped, long = service.requests
    assert (created.method, created.path, created.query) == ("POST", "/api/tasks", "")
    assert (created.json, created.status) == (TASK, 201)
    assert created.headers["idempotency-key"] == "once"
    assert (listed.path, listed.query, listed.body) == ("/api/tasks", "limit=1&status=todo", "")
    assert (rejected.json, rejected.status) == ({"title": "No"}, 401)
    assert (dropped.json, dropped.status) == (TASK, None)
    assert (len(long.body), long.status) == (65_536, 400)
    for sent in service.requests:
        assert not {"authorization", "cookie"} & sent.headers.keys()
    service.reset()
    assert service.requests == []


def test_a_reset_within_a_snapshot_restores_the_rows_of_the_snapshot(service, call):
    with psycopg.connect(service.database_url, autocommit=True) as connection:

        def rows():
            tables = connection.execute(
                "SELECT relname FROM pg_class WHERE relkind = 'r'"
                " AND relnamespace = 'public'::regnamespace"
                " AND relname NOT IN ('usage', 'counters', 'processes', 'pruning_clock')"
            ).fetchall()
            return {
                table: sorted(connection.execute(f"SELECT t::text FROM {table} AS t").fetchall())
                for (table,) in tables
            }

        service.plan("Pro", per_minute=500)
        mail = {"from": "eve@example.com", "receivedAt": "2026-01-01T00:00:00Z"}
        times = {"startTime": "2027-03-01T09:00Z", "endTime": "2027-03-01T10:00Z"}
        (task, child, *_) = service.load(
            {"type": "task", "title": "Parent", "id": "0190163d-8694-7000-8000-000000000001"},
            {"type": "task", "title": "Child", "parentId": "0190163d-8694-7000-8000-000000000001"},
            {"type": "meeting", "title": "Weekly", **times},
            {"type": "mail", **mail},
            {"type": "knowledge", "title": "Tea", "content": "Green"},
            {"type": "suggestion", "kind": "task", "title": "Ask"},
        )
        assert (
            call("PATCH", f"/tasks/{task}", json={"title": "P"}, Idempotency_Key="a").status == 200
        )
        secret = service.webhooks.rotate()
        service.set_clock("2031-01-01T00:00:00Z")
        before = rows()
        with service.snapshot():
            for _ in range(2):
                assert call("DELETE", f"/tasks/{task}").status == 204
                assert call("POST", "/tasks", json=TASK).status == 201
                service.plan("Starter")
                service.set_clock("2001-01-01T00:00:00Z")
                service.webhooks.rotate()
                service.reset()
                assert rows() == before
            assert service.now.year == 2031
            assert titles(call("GET", "/knowledge?q=green")) == ["Tea"]
            assert service.webhooks.secret == secret
            call("POST", "/tasks", json=TASK)
            # The triggers of the service run again: a subtask cannot be a parent.
            assert call("POST", "/tasks", json={**TASK, "parentId": child}).status == 400
            assert [event["type"] for event in service.webhooks.events] == ["task.created"]
        assert titles(call("GET", "/tasks")) == []
        assert service.now.year != 2031
        service.reset()
        assert titles(call("GET", "/knowledge")) == []


def test_a_reset_with_a_name_restores_the_snapshot_of_that_name(service, call):
    service.load({"type": "task", "title": "One"})
    one = service.snapshot("one")
    service.load({"type": "task", "title": "Two"})
    secret = service.webhooks.rotate()
    with service.snapshot("ä long name, " * 50) as two:
        service.reset()
        assert titles(call("GET", "/tasks")) == []
        service.reset("one")
        assert titles(call("GET", "/tasks")) == ["One"]
        assert service.webhooks.secret != secret
        service.reset(two.name)
        assert titles(call("GET", "/tasks")) == ["Two", "One"]
        assert service.webhooks.secret == secret
        # Names and the snapshot without a name do not affect each other.
        service.load({"type": "task", "title": "Three"})
        with service.snapshot():
            service.reset("one")
            service.reset()
            assert titles(call("GET", "/tasks")) == ["Three", "Two", "One"]
        # A second snapshot of the same name replaces the first one.
        service.load({"type": "task", "title": "Four"})
        service.snapshot("one")
        service.reset("one")
        assert titles(call("GET", "/tasks")) == ["Four"]
    assert titles(call("GET", "/tasks")) == []
    with pytest.raises(ValueError, match=r"^name: there is no snapshot '.*'; there are: one$"):
        service.reset(two.name)
    one.forget()
    with pytest.raises(ValueError, match=r"^name: there is no snapshot 'one'; there are: none$"):
        one.forget()


@pytest.mark.parametrize("path", ["reset", "snapshot", "forget-snapshot"])
def test_operations_on_snapshots_need_no_body(service, path):
    response = http.request("POST", f"{service.control_url}/{path}")
    assert response.status == 200


@pytest.mark.parametrize(
    ("kind", "stored"), [("drop", []), ("drop-after-commit", ["Write"]), ("truncated", ["Write"])]
)
def test_a_fault_can_close_the_connection_before_or_after_the_change_or_within_the_response(
    service, call, kind, stored
):
    service.fault(kind)
    with pytest.raises(urllib3.exceptions.ProtocolError):
        call("POST", "/tasks", json=TASK, Idempotency_Key="once")
    assert titles(call("GET", "/tasks")) == stored
    retried = call("POST", "/tasks", json=TASK, Idempotency_Key="once")
    assert retried.status == 201
    assert ("Idempotent-Replayed" in retried.headers) is bool(stored)
    assert titles(call("GET", "/tasks")) == ["Write"]
    assert len(service.webhooks.events) == 1


@pytest.mark.parametrize(
    ("kind", "status", "stored"), [("503", 503, 0), ("drop-after-commit", 0, 3)]
)
def test_a_batch_meets_a_fault_as_one_request_and_a_reset_undoes_all_of_it(
    service, call, kind, status, stored
):
    kept = call("POST", "/tasks", json={"title": "Kept"}).json()
    batch = {
        "create": [{"title": "One"}, {"title": "Two"}, {"title": "Three"}],
        "delete": [{"id": kept["id"], "version": 1}],
    }
    service.fault(kind, path="/api/tasks/batch")
    send = partial(call, "POST", "/tasks/batch", json=batch, Idempotency_Key="batch")
    if status:
        assert send().status == status
    else:
        with pytest.raises(urllib3.exceptions.ProtocolError):
            send()
    assert len(titles(call("GET", "/tasks"))) == (stored or 1)
    retried = send()
    assert (retried.status, retried.json()["deleted"]) == (200, [kept["id"]])
    assert ("Idempotent-Replayed" in retried.headers) is bool(stored)
    assert [event["data"]["title"] for event in service.webhooks.events] == [
        "Kept", "One", "Two", "Three", "Kept"
    ]  # fmt: skip
    service.reset()
    assert titles(call("GET", "/tasks")) == []
    assert service.webhooks.events == []


def test_a_reset_ends_a_slow_request_before_it_changes_anything(service, call):
    service.fault("slow", seconds=60)
    service.fault("503")
    with ThreadPoolExecutor() as threads:
        requests = [threads.submit(call, "POST", "/tasks", json=TASK) for _ in range(2)]
        # Either request may meet the first fault.
        (fast,), (slow,) = wait(requests, 20, FIRST_COMPLETED)
        assert fast.result().status == 503
        service.reset()
        with pytest.raises(urllib3.exceptions.ProtocolError):
            slow.result(20)
    assert titles(call("GET", "/tasks")) == []


def test_the_service_survives_a_hanging_receiver_and_ctrl_c_in_a_debugger(
    service, call, task_service_running
):
    service.webhooks.hang()
    with ThreadPoolExecutor() as threads:
        created = threads.submit(call, "POST", "/tasks", json=TASK)
        while not service.webhooks.posts:
            assert not created.done()
        service.reset()
        assert created.result().status == 201
    assert "Traceback" not in task_service_running.process.log()
    assert os.getpgid(task_service_running.process.pid) != os.getpgrp()


@pytest.mark.slow
def test_a_reset_survives_a_deadlock_with_a_transaction_that_still_runs(service, call):
    task = call("POST", "/tasks", json=TASK).json()
    with psycopg.connect(service.database_url) as running, ThreadPoolExecutor(1) as threads:
        # PostgreSQL reports the deadlock to the other transaction.
        running.execute("SET LOCAL deadlock_timeout = '1min'")
        running.execute("SELECT FROM tasks WHERE id = %s FOR UPDATE", (task["id"],))
        reset = threads.submit(service.reset)
        with psycopg.connect(service.database_url, autocommit=True) as watching:
            waiting = "SELECT FROM pg_locks WHERE NOT granted"
            while watching.execute(waiting).fetchone() is None:
                assert not reset.done()
        running.execute("SELECT FROM workspaces WHERE id = %s FOR UPDATE", (task["workspaceId"],))
        running.rollback()
        reset.result(30)
    assert titles(call("GET", "/tasks")) == []


@pytest.mark.slow
def test_operations_of_the_control_url_that_come_at_the_same_time_take_turns(service, call):
    operations = {
        "reset": {},
        "snapshot": {},
        "clock": {"now": "2031-01-01T00:00:00Z"},
        "plan": {"name": "Pro"},
        "load": {"type": "task", "title": "Write"},
        "tokens": {"user": "member"},
        "webhooks": {"url": f"{service.control_url}/receiver"},
        "rotate": {},
        "deliver": {},
        "duplicate": {},
    }

    def send(path):
        url = f"{service.control_url}/{path}"
        return path, http.request("POST", url, json=operations[path]).status

    try:
        with ThreadPoolExecutor(8) as threads:
            answers = {*threads.map(send, [*operations, "reset", "reset"] * 12)}
    finally:
        http.request("POST", f"{service.control_url}/forget-snapshot", json={})
    assert answers == {(path, 200) for path in operations}
    service.reset()
    assert titles(call("GET", "/tasks")) == []


def test_events_of_simultaneous_requests_are_received_before_the_responses(service, call):
    with ThreadPoolExecutor(16) as threads:
        created = [threads.submit(call, "POST", "/tasks", json=TASK) for _ in range(32)]
        ids = {request.result().json()["id"] for request in created}
    assert len(ids) == 32
    assert {event["data"]["id"] for event in service.webhooks.events} == ids


@pytest.mark.slow
def test_load_accepts_more_data_than_a_request_to_the_service_may_have(service, call):
    title = "A" * 500
    service.load(*({"type": "task", "title": title} for _ in range(2500)))
    assert call("GET", "/dashboard/stats").json()["tasks"]["total"] == 2500


def test_the_command_deliver_attempts_all_deliveries_but_only_one_if_the_webhook_fails(
    service, call
):
    service.webhooks.fail(503, times=2)
    for _ in range(3):
        call("POST", "/tasks", json=TASK)
    assert [service.webhooks.deliver() for _ in range(3)] == [1, 3, 0]
    assert [post.status for post in service.webhooks.posts] == [503, 503, 204, 204, 204]
    assert len({post.headers["webhook-id"] for post in service.webhooks.posts}) == 3
    assert len(service.webhooks.events) == 3


def test_an_event_fails_at_the_end_of_its_schedule_and_410_disables_the_webhook(service, call):
    service.webhooks.fail()
    call("POST", "/tasks", json=TASK)
    service.set_clock(service.now + timedelta(days=3))
    assert service.webhooks.deliver() == 1
    service.webhooks.accept()
    assert service.webhooks.deliver() == 0
    service.reset()
    service.webhooks.gone()
    assert call("POST", "/tasks", json=TASK).status == 201
    service.webhooks.accept()
    assert call("POST", "/tasks", json=TASK).status == 201
    assert service.webhooks.deliver() == 0
    assert [post.status for post in service.webhooks.posts] == [410]


@pytest.mark.parametrize("made_by", ["the fixture", "the API"])
def test_a_test_can_run_a_receiver_that_verifies_events_with_the_secret_of_its_webhook(
    service, call, made_by
):
    with closing(Receiver()) as receiver:
        url = f"http://127.0.0.1:{receiver.server_address[1]}/hook"
        if made_by == "the fixture":
            secret = service.webhooks.create(url, "task.created")
        else:
            made = call("POST", "/webhooks", json={"url": url, "events": ["task.created"]})
            secret = made.json()["secret"]
        task = call("POST", "/tasks", json=TASK).json()
        call("DELETE", f"/tasks/{task['id']}")
        received = receiver.received.get(timeout=60)
        assert Webhook(secret).verify(received.body, dict(received.headers))["data"] == task
        assert receiver.received.empty()


def test_the_receiver_records_only_posts_with_a_valid_signature_even_if_they_are_not_utf_8(service):
    url, body = f"{service.control_url}/receiver", b"\xff"
    for headers in (
        {},
        {"webhook-timestamp": "1", "webhook-id": "evt_1", "X-Service-Signature": "0" * 64},
        {"webhook-timestamp": "\u0663".encode().decode("latin-1")},
    ):
        assert http.request("POST", url, body=body, headers=headers).status == 400
    assert service.webhooks.posts == []
    headers = signatures(body, "evt_1", 1, [service.webhooks.secret])
    assert http.request("POST", url, body=body, headers=headers).status == 204
    assert [post.body for post in service.webhooks.posts] == ["\ufffd"]


def ask(url, **headers):
    """Return the status and the message of a request for the clock, with these headers."""
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    response = http.request("GET", f"{url}/clock", headers=headers)
    return response.status, response.json().get("message", "")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-origin"},
        {"Host": "evil.example"},
        {"Host": "evil.example:80", "Sec_Fetch_Site": "none"},
        {"Host": "localhost.evil.example"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "127.0.0.1@evil.example"},
        {"Host": "::1"},
        {"Host": "[evil.example]"},
    ],
)
def test_a_page_in_a_browser_cannot_control_the_double(service, headers):
    status, message = ask(service.control_url, **headers)
    assert status == 403
    shown = "pages in a browser must not control" if "Origin" in headers else "--control-host-name"
    assert (shown if headers.keys() != {"Sec_Fetch_Site"} else "pages in a browser") in message


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "localhost"},
        {"Host": "LocalHost:8001"},
        {"Host": "192.0.2.7:8001"},
        {"Host": "[2001:db8::7]:8001"},
        {"Host": "[::1]"},
        {"Sec_Fetch_Site": "none"},
    ],
)
def test_a_client_reaches_the_control_url_by_an_address_or_localhost(service, headers):
    assert ask(service.control_url, **headers) == (200, "")


def test_control_requests_work_only_below_the_exact_control_url(service):
    host, _, path = service.control_url.rpartition("/")
    assert len(path) == 16
    for url in (f"{host}/reset", f"{host}/{path[::-1]}/reset"):
        response = http.request("POST", url, body=b"{}")
        assert response.status == json.loads(response.data)["status"] == 404


def test_column_defaults_use_the_clock_of_the_double_and_not_that_of_the_machine(service):
    with psycopg.connect(service.database_url) as connection:
        defaults = connection.execute(
            "SELECT adrelid::regclass::text, pg_get_expr(adbin, adrelid) FROM pg_attrdef"
        ).fetchall()
    assert ("events", "clock.now()") in defaults
    assert not [table for table, default in defaults if default == "now()"]


def test_the_clock_can_go_forward_and_back_and_new_objects_have_its_time(service, call):
    def created():
        return call("POST", "/tasks", json=TASK).json()["createdAt"]

    first = call("POST", "/tasks", json={**TASK, "dueDate": "2999-01-01T00:00:00Z"}).json()
    assert call("GET", "/dashboard/stats").json()["tasks"]["overdue"] == 0
    service.set_clock("2999-01-02T12:00:00Z")
    assert call("GET", "/dashboard/stats").json()["tasks"]["overdue"] == 1
    assert created().startswith("2999-01-02T12:00:")
    assert service.webhooks.events[-1]["timestamp"].startswith("2999-01-02T12:00:")
    assert call("GET", f"/tasks/{first['id']}").json() == first
    service.set_clock(service.now + timedelta(hours=13))
    assert service.now.isoformat().startswith("2999-01-03T01:00:")
    assert created().startswith("2999-01-03T01:00:")
    assert titles(call("GET", "/tasks")) == ["Write"] * 3
    service.set_clock(datetime(2001, 2, 3, 4, 5, tzinfo=UTC))
    assert created().startswith("2001-02-03T04:05:")
    service.reset()
    assert created()[:4] == first["createdAt"][:4]


def test_a_task_is_completed_at_the_time_of_the_doubles_clock(service, call):
    days = "2031-05-05", "2031-05-12", "2031-05-07"
    for day in days:
        service.set_clock(f"{day}T12:00:00Z")
        task = call("POST", "/tasks", json={**TASK, "title": day}).json()["id"]
        done = call("PATCH", f"/tasks/{task}", json={"status": "done"}).json()
        assert done["completedAt"].startswith(f"{day}T12:00:")
    assert titles(call("GET", "/tasks?sort=completedAt")) == sorted(days, reverse=True)
    week = "completedAfter=2031-05-05&completedBefore=2031-05-12"
    assert titles(call("GET", f"/tasks?{week}&sort=completedAt")) == ["2031-05-07", "2031-05-05"]


def test_the_fixture_has_the_same_events_that_a_client_pulls_until_they_are_too_old(service, call):
    begin = call("GET", "/events").json()["nextCursor"]
    task = call("POST", "/tasks", json=TASK).json()["id"]
    call("DELETE", f"/tasks/{task}")
    page = call("GET", f"/events?after={begin}").json()
    assert [event["type"] for event in page["data"]] == ["task.created", "task.deleted"]
    assert page["data"] == service.webhooks.events
    (post, *_) = service.webhooks.posts
    Webhook(service.webhooks.secret).verify(post.body.encode(), post.headers)
    service.set_clock(service.now + timedelta(days=10))
    assert call("GET", f"/events?after={begin}").status == 410
    assert call("GET", f"/events?after={page['nextCursor']}").status == 410
    assert call("GET", "/events").status == 200


def test_a_garbled_response_has_the_announced_length_but_is_not_valid_json(service, call):
    service.fault("garbled")
    response = call("POST", "/tasks", json=TASK)
    assert response.status == 201
    assert len(response.data) == int(response.headers["Content-Length"])
    with pytest.raises(json.JSONDecodeError):
        response.json()
    assert titles(call("GET", "/tasks")) == ["Write"]


def test_latency_delays_all_requests_until_the_reset_or_the_next_latency(service, call):
    service.fault("latency", seconds=60)
    service.fault("503", method="GET")
    with ThreadPoolExecutor() as threads:
        requests = [threads.submit(call, method, "/tasks") for method in ("GET", "POST", "GET")]
        assert not wait(requests, 0.2).done
        service.reset()
        for request in requests:
            # They no longer have an effect.
            assert request.exception(20) or request.result().status == 503
    service.fault("latency", seconds=60, path="/api/tasks")
    service.fault("latency", seconds=0.01)
    assert call("GET", "/tasks").status == 200


def test_a_rotated_secret_signs_until_the_reset(service, call):
    before = service.webhooks.secret
    after = service.webhooks.rotate()
    assert after == service.webhooks.secret != before
    call("POST", "/tasks", json=TASK)
    (post,) = service.webhooks.posts
    # For a day, events are signed with the old secret as well.
    for secret in (before, after):
        Webhook(secret).verify(post.body.encode(), post.headers)
    service.reset()
    assert service.webhooks.secret == before
    call("POST", "/tasks", json=TASK)
    assert len(service.webhooks.events) == 1


def test_ping_posts_immediately_and_returns_the_status(service):
    assert service.webhooks.ping() == 204
    assert [post.event["type"] for post in service.webhooks.posts] == ["ping"]
    service.webhooks.fail(503)
    assert service.webhooks.ping() == 503


def test_duplicates_have_the_id_and_the_bytes_of_the_first_delivery(service, call):
    for _ in range(2):
        call("POST", "/tasks", json=TASK)
    assert service.webhooks.duplicate() == 2
    posts = service.webhooks.posts
    assert len(posts) == 4
    assert len({(post.headers["webhook-id"], post.body) for post in posts}) == 2


def test_reordered_events_arrive_newest_first(service, call):
    service.webhooks.reorder()
    task = call("POST", "/tasks", json=TASK).json()
    for status in ("in_progress", "done"):
        call("PATCH", f"/tasks/{task['id']}", json={"status": status})
    assert service.webhooks.posts == []
    assert service.webhooks.deliver() == 3
    assert [event["data"]["version"] for event in service.webhooks.events] == [3, 2, 1]
    service.reset()
    call("POST", "/tasks", json=TASK)
    assert len(service.webhooks.events) == 1


@pytest.mark.slow
def test_deliver_waits_for_webhook_timeout_and_an_error_shows_the_log_of_a_service_that_died():
    with Service.start(environment={"WEBHOOK_TIMEOUT": "0.2"}) as service:
        service.webhooks.hang(times=1)
        service.load({"type": "suggestion", "kind": "task", "title": "Ask"})
        assert [service.webhooks.deliver() for _ in range(2)] == [1, 1]
        assert [post.status for post in service.webhooks.posts] == [None, 204]
        with psycopg.connect(service.database_url) as connection:
            (error, milliseconds), _ = connection.execute(
                "SELECT error, milliseconds FROM attempts ORDER BY number"
            )
        assert error == "timeout"
        # A worker would wait 15 seconds.
        assert milliseconds < 10_000
        http.request("GET", f"{service.base_url}/last-request")
        os.kill(json.loads(service.process.line)["pid"], signal.SIGKILL)
        wait_until(lambda: not is_running(service.process.pid))
        with pytest.raises(RuntimeError, match=r"(?s)has ended with status 1:.*/api/last-request"):
            service.reset()


def test_the_command_to_start_is_a_path_that_may_have_spaces_or_a_list_of_words(tmp_path):
    command = tmp_path / "a folder" / "task-service"
    command.parent.mkdir()
    command.touch()
    (tmp_path / "python").touch()
    for option in ("a folder/task-service", str(command)):
        assert Command.find(option, tmp_path / "none", tmp_path).words == [str(command)]
    words = [str(tmp_path / "./python"), "-m", "service"]
    assert Command.find("./python -m service", tmp_path).words == words
    assert Command.find("python -m service", tmp_path).words == ["python", *words[1:]]
    assert Command.find("'/opt/a b/task-service'", tmp_path).words == ["/opt/a b/task-service"]


@pytest.mark.slow
@pytest.mark.parametrize(("configuration", "where"), [(None, "."), ("pytest.ini", "tests")])
def test_a_relative_command_is_resolved_from_the_root_of_the_project(
    tmp_path, configuration, where
):
    command = tmp_path / "double/bin/task-service"
    command.parent.mkdir(parents=True)
    command.touch()
    (tmp_path / "tests").mkdir()
    if configuration:
        (tmp_path / configuration).write_text("[pytest]\n")
    shown = subprocess.run(
        [*PYTEST, "--task-service-command=double/bin/task-service"],
        cwd=tmp_path / where,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    ).stdout
    assert f"\ntask-service: {shlex.quote(str(command))} (as told)\n" in shown
