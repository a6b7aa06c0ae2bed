"""The log: one JSON object a line, without secrets, and never in the way of a response."""

import json
import logging
import re
from io import StringIO

import pytest
from client import TOKENS, Client, insert_token
from server import TASK, get, post, send, serving

from service.http.access_log import JSONFormatter

COOKIE = "tmw_session_alice"


@pytest.fixture
def lines(app):
    """What the service logs during the test; a function that returns the lines."""
    (handler,) = (
        handler
        for handler in logging.getLogger("service").handlers
        if isinstance(handler.formatter, JSONFormatter)
    )
    stream = StringIO()
    previous = handler.setStream(stream)
    yield lambda: stream.getvalue().split("\n")[:-1]
    handler.setStream(previous)


def test_each_request_is_one_line_of_json_with_time_and_client(app, alice, stranger, cast, lines):
    alice.get("/tasks?limit=1", headers={"X-Request-Id": "one"})
    stranger.post("/tasks", {"title": "x"}, headers={"X-Request-Id": "two"})
    app.test_client().get("/healthz", headers={"X-Request-Id": "three"})
    entries = [json.loads(line) for line in lines()]
    for entry in entries:
        assert 0 <= entry.pop("ms") < 10_000
        time = r"20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z"
        assert re.fullmatch(time, entry.pop("time"))
        assert list(entry) == ["method", "path", "status", "client", "user", "requestId"]
    assert [list(entry.values()) for entry in entries] == [
        ["GET", "/api/tasks", 200, "127.0.0.1", cast["alice"], "one"],
        ["POST", "/api/tasks", 401, "127.0.0.1", None, "two"],
        ["GET", "/healthz", 200, "127.0.0.1", None, "three"],
    ]


def test_no_line_contains_a_token_a_cookie_a_query_or_a_body(app, alice, cast, connection, lines):
    insert_token(connection, cast["alice"], COOKIE, kind="session")
    browser = Client(app, cookie=COOKIE)
    secret = {"title": "s3cret"}
    alice.post("/tasks", secret)
    alice.get("/tasks?projectId=s3cret")
    alice.get("/tasks?s3cret=1")
    browser.post("/tasks", secret)
    browser.get("/tasks", headers={"Authorization": "Bearer s3cret"})
    Client(app, cookie="s3cret").get("/tasks")
    alice.post("/tasks", data=b"{s3cret")
    assert len(lines()) == 7
    assert not any(word in "\n".join(lines()) for word in ("s3cret", COOKIE, *TOKENS.values()))


def test_a_line_stays_one_line_whatever_the_path(alice, lines):
    alice.get("/tasks/a%0Ab%22%1B[31m%E2%80%A8")
    (line,) = lines()
    assert len(line.splitlines()) == 1
    assert json.loads(line)["status"] == 404


def test_warnings_are_json_too(lines):
    try:
        raise RuntimeError("two\nlines")
    except RuntimeError as error:
        logging.getLogger("service.test").warning("it %s", "happened", exc_info=error)
    (line,) = lines()
    entry = json.loads(line)
    assert (entry["level"], entry["message"]) == ("WARNING", "it happened")
    assert "RuntimeError: two\nlines" in entry["exception"]


def test_a_log_that_cannot_be_written_changes_no_response(database_url, connection):
    with open("/dev/full", "wb") as full, serving(database_url, stderr=full) as server:
        created = send(server.port, post(TASK, f"Content-Length: {len(TASK)}\r\n"))
        assert created.status == 201
        assert get(server.port, "/healthz").status == 200
    assert connection.execute("SELECT count(*) FROM tasks").fetchone()["count"] == 1
