"""The log: one JSON object per line, without secrets. The service works even if logging fails."""

import json
import logging
import re
import select
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from time import monotonic
from traceback import walk_stack

import psycopg
import pytest
from support.http import Client, location
from support.openapi_check import LOGIN_KEY
from support.processes import TASK, get, post, send, serving, wait_until
from support.project import read
from support.receivers import answer, subscribe
from support.rows import SESSION, TOKENS
from support.statements import trigger, waiting

from service import logs
from service.webhooks.worker import Worker


def test_each_log_line_is_short_enough_for_the_kernel_to_write_it_in_one_piece(build, lines):
    stranger = Client(build(trusted_proxies=1))
    address = {"X-Forwarded-For": "\x7f" * 1000, "X-Request-Id": "x" * 64}
    # A text of fewer than 500 characters can have more than 500 bytes.
    for part, short in product(("%01", "%F0%9F%92%A9", "%C3%A9", "%FF", "a"), (False, True)):
        number = 450 if short else 8000 // len(part)
        stranger.get("/" + part * number, headers=address)
        line = lines()[-1]
        assert len(line.encode()) < select.PIPE_BUF
        entry = json.loads(line)
        assert len(entry["path"].encode()) <= 500
        assert short or len(entry["path"].encode()) >= 497
        assert entry["client"] == "\x7f" * 100


def test_each_request_logs_one_line_with_its_time_client_and_caller(
    app, alice, stranger, cast, connection, lines
):
    alice.get(f"/tasks/{cast['acme']}", headers={"X-Request-Id": "one"})
    stranger.post("/tasks", {"title": "x"}, headers={"X-Request-Id": "two"})
    app.test_client().get("/healthz", headers={"X-Request-Id": "three"})
    stranger.get("/nothing", headers={"X-Request-Id": "four"})
    alice.get("/webhooks/x/deliveries", headers={"X-Request-Id": "five"})
    entries = [json.loads(line) for line in lines()]
    for entry in entries:
        assert 0 <= entry.pop("ms") < 10_000
        time = r"20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z"
        assert re.fullmatch(time, entry.pop("time"))
        assert entry.pop("waited", 1) >= 1
        assert entry.pop("db", 1) >= 1
    tokens = connection.execute("SELECT id FROM tokens WHERE user_id = %s", (cast["alice"],))
    token = str(tokens.fetchone()["id"])
    names = ["method", "path", "route", "status", "client"]
    names += ["user", "workspace", "token", "requestId"]
    nothing, own = [None, None, None], [cast["alice"], cast["acme"], token]
    nested = "/api/webhooks/x/deliveries"
    assert [list(entry) for entry in entries] == [names] * 5
    assert [list(entry.values()) for entry in entries] == [
        ["GET", f"/api/tasks/{cast['acme']}", "/api/tasks/:id", 404, "127.0.0.1", *own, "one"],
        ["POST", "/api/tasks", "/api/tasks", 401, "127.0.0.1", *nothing, "two"],
        ["GET", "/healthz", "/healthz", 200, "127.0.0.1", *nothing, "three"],
        ["GET", "/api/nothing", "-", 401, "127.0.0.1", *nothing, "four"],
        ["GET", nested, "/api/webhooks/:id/deliveries", 404, "127.0.0.1", *own, "five"],
    ]


def test_the_log_line_names_the_object_that_the_request_has_created(alice, lines):
    task = alice.post("/tasks", {"title": "x"}).get_json()
    assert json.loads(lines()[0])["created"] == task["id"]


def test_each_sign_in_of_a_login_page_logs_the_user_and_never_the_key(build, lines, cast):
    app = build(trusted_proxies=1)
    page, other = Client(app, LOGIN_KEY), Client(app, LOGIN_KEY[:-1])
    address = {"X-Forwarded-For": "192.0.2.7"}
    made = page.post("/session", {"email": "alice@example.com"}, headers=address)
    page.post("/session", {"email": "nobody@example.com"}, headers=address)
    other.post("/session", {"email": "alice@example.com"}, headers=address)
    entries = [json.loads(line) for line in lines()]
    users = [(201, cast["alice"]), (404, None), (401, None)]
    assert [(entry["status"], entry["user"]) for entry in entries] == users
    assert {entry["client"] for entry in entries} == {"192.0.2.7"}
    for secret in (LOGIN_KEY[:-1], made.get_json()["token"]):
        assert secret not in "".join(lines())


@pytest.mark.parametrize(
    ("queued", "shown"), [(0.0012345, 1.23), (0.001, 1), (0.0009, None), (0, None)]
)
def test_the_log_line_has_the_milliseconds_since_the_arrival_and_in_the_queue(
    app, lines, queued, shown
):
    arrived = monotonic() - 100
    times = {"http_server.arrived": arrived, "http_server.queued": queued}
    assert app.test_client().get("/", environ_overrides=times).status_code == 200
    entry = json.loads(lines()[-1])
    assert entry.get("queued") == shown
    assert 100_000 <= entry["ms"] <= (monotonic() - arrived) * 1000
    assert entry["ms"] == round(entry["ms"], 2)


def waits_for_a_connection():
    """Return whether a thread is in ``getconn``, or in a function that ``getconn`` has called."""
    return any(
        frame.f_code.co_name == "getconn"
        for innermost in sys._current_frames().values()
        for frame, _ in walk_stack(innermost)
    )


@pytest.mark.slow
def test_the_log_line_says_how_long_the_request_queued_and_waited_for_a_database_connection(
    build, lines
):
    app = build(web_threads=1, pool_timeout=0.2)
    pool = app.extensions["pool"]
    pool.open(wait=True)
    with pool.connection():
        late = {"http_server.arrived": monotonic() - 1, "http_server.queued": 0.5}
        response = Client(app, TOKENS["alice"]).get("/tasks", environ_overrides=late)
    assert response.status_code == 503
    entry = json.loads(lines()[-1])
    assert entry["queued"] == 500
    assert entry["ms"] >= 1000
    app = build(web_threads=1)
    pool = app.extensions["pool"]
    pool.open(wait=True)
    with ThreadPoolExecutor(1) as threads, pool.connection():
        answer = threads.submit(Client(app, TOKENS["alice"]).get, "/tasks")
        wait_until(waits_for_a_connection, answer)
        # Longer than Pool.SHORTEST_WAIT, and shorter than POOL_TIMEOUT.
        held_until = monotonic() + 0.3
        while monotonic() < held_until:
            assert not answer.done()
    assert answer.result().status_code == 200
    entry = json.loads(lines()[-1])
    assert 300 <= entry["waited"] <= entry["ms"]


@pytest.mark.parametrize("at_commit", [False, True])
def test_the_log_line_says_how_long_the_statements_and_the_commit_took(
    ada, lines, database_url, connection, cast, receiver, at_commit
):
    """With an Idempotency-Key, change and commit are one transaction; then the event is posted."""
    task = ada.post("/tasks", {"title": "x"}).get_json()
    subscribe(connection, cast["acme"], receiver.url)
    change = partial(ada.patch, f"/tasks/{task['id']}", headers={"Idempotency-Key": "k"})
    locked = "PERFORM pg_advisory_xact_lock(1); RETURN NULL;"
    with (
        trigger(connection, "AFTER UPDATE ON tasks", locked, at_commit=at_commit),
        ThreadPoolExecutor(1) as threads,
        psycopg.connect(database_url) as other,
    ):
        other.execute("SELECT pg_advisory_xact_lock(1)")
        changed = threads.submit(change, {"title": "y"})
        wait_until(lambda: waiting(connection), changed)
        held_until = monotonic() + 0.1
        while monotonic() < held_until:
            assert not changed.done()
        other.rollback()
    assert changed.result().status_code == 200
    entry = json.loads(lines()[-1])
    assert 100 <= entry["db"] <= entry["ms"]


TRACE = f"{1:032x}"


@pytest.mark.parametrize(
    ("traceparent", "logged"),
    [
        (f"00-{TRACE}-{2:016x}-01", True),
        (f"cc-{TRACE}-{2:016x}-00", True),
        (f"ff-{TRACE}-{2:016x}-01", False),
        (f"00-{0:032x}-{2:016x}-01", False),
        (f"00-{TRACE}-{0:016x}-01", False),
        (f"00-{10:032X}-{2:016x}-01", False),
        (f"00-{TRACE}-{2:016x}-01-what", False),
        (f"00-{TRACE}-{2:016x}", False),
    ],
)
def test_a_valid_traceparent_is_in_the_log_line_and_in_what_the_request_posts(
    traceparent, logged, ada, webhooks_app, lines, connection, cast, receiver
):
    """What the worker posts later has no traceparent, because no row stores it."""
    subscribe(connection, cast["acme"], receiver.url)
    receiver.behaves(answer(503))
    ada.post("/tasks", {"title": "x"}, headers={"traceparent": traceparent})
    assert json.loads(lines()[-1]).get("trace") == (TRACE if logged else None)
    connection.execute("UPDATE deliveries SET due_at = now()")
    connection.execute("UPDATE webhooks SET backoff_until = NULL")
    Worker(webhooks_app.config["SETTINGS"]).run_once(prune=False)
    first, second = receiver.take(), receiver.take()
    assert first.headers.get("traceparent") == (traceparent if logged else None)
    assert "traceparent" not in second.headers


def test_the_log_line_says_how_long_the_request_posted_to_receivers(
    ada, lines, connection, cast, receiver
):
    subscribe(connection, cast["acme"], receiver.url)
    ada.post("/tasks", {"title": "x"})
    entry = json.loads(lines()[-1])
    assert 1 <= entry["posted"] <= entry["ms"]


def test_the_grafana_dashboard_queries_only_fields_that_log_lines_have(alice, lines):
    times = {"http_server.queued": 1}
    alice.get("/tasks", environ_overrides=times)
    # Another test shows that a line can have this field.
    fields = {*json.loads(lines()[0]), "waited"}
    panels = json.loads(read("docs/deploy/grafana.json"))["panels"]
    queries = [
        (target["expr"].split("| json", 1)[1] + target["expr"].split("{")[0], target)
        for panel in panels
        for target in panel["targets"]
        if panel["datasource"]["type"] == "loki"
    ]
    assert len(queries) >= 7
    for query, target in queries:
        named = re.findall(r"(\w+)(?:!?=|>=)|unwrap (\w+)|by \(([\w, ]+)\)", query)
        labels = re.findall(r"{{(\w+)}}", target["legendFormat"])
        words = {*re.findall(r"\w+", " ".join(" ".join(groups) for groups in named)), *labels}
        assert words
        assert words <= fields


def test_no_log_line_contains_a_token_a_cookie_a_query_or_a_body(app, alice, browser, lines):
    secret = {"title": "s3cret"}
    created = alice.post("/tasks", secret)
    for method in ("PATCH", "DELETE"):
        path = location(created)
        refused = alice.send(method, path, json=secret, headers={"If-Match": '"9"'})
        assert refused.get_json()["current"]["title"] == "s3cret"
    alice.get("/tasks?projectId=s3cret")
    alice.get("/tasks?s3cret=1")
    browser.post("/tasks", secret)
    browser.get("/tasks", headers={"Authorization": "Bearer s3cret"})
    Client(app, cookie="s3cret").get("/tasks")
    alice.post("/tasks", data=b"{s3cret")
    assert len(lines()) == 9
    assert not any(word in "\n".join(lines()) for word in ("s3cret", SESSION, *TOKENS.values()))


def test_a_request_is_one_line_of_the_log_whatever_its_path_contains(alice, lines):
    alice.get("/tasks/a%0Ab%22%1B[31m%E2%80%A8")
    (line,) = lines()
    assert len(line.splitlines()) == 1
    assert json.loads(line)["status"] == 404


def test_warnings_and_records_of_libraries_are_logged_as_lines_of_json(lines):
    logging.getLogger("psycopg.pool").warning("error connecting\nin two lines")
    try:
        raise RuntimeError("two\nlines")
    except RuntimeError as error:
        logging.getLogger("service.test").warning("it %s", "happened", exc_info=error)
    library, entry = map(json.loads, lines())
    assert library["message"] == "error connecting\nin two lines"
    assert (entry["level"], entry["message"]) == ("WARNING", "it happened")
    assert "RuntimeError: two\nlines" in entry["exception"]


@pytest.mark.slow
def test_requests_succeed_even_if_the_log_cannot_be_written(database_url, connection):
    with (
        open("/dev/full", "wb") as full,
        serving(database_url, stderr=full, WEB_CONCURRENCY="1") as server,
    ):
        created = send(server.port, post(TASK, f"Content-Length: {len(TASK)}\r\n"))
        assert created.status == 201
        assert get(server.port, "/healthz").status == 200
    assert connection.execute("SELECT count(*) FROM tasks").fetchone()["count"] == 1


@pytest.mark.nodatabase
def test_the_memory_of_rare_errors_is_bounded_although_their_texts_name_hosts(monkeypatch):
    monkeypatch.setattr(logs, "rarely_logged", {})
    texts = [f"host-{number} does not answer" for number in range(3 * logs.MAX_RARE)]
    assert all(map(logs.is_rare, texts))
    assert not logs.is_rare(texts[-1])
    assert len(logs.rarely_logged) <= logs.MAX_RARE
