"""Every failure is JSON in one shape, with the headers that belong to it."""

import logging
from dataclasses import replace

import pytest
from client import TOKENS, Client

from service import create_app

RATE = "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"


def refused(answer, status):
    assert answer.status_code == status
    assert answer.content_type == "application/json"
    assert "Location" not in answer.headers
    assert all(answer.headers[name].isdigit() for name in RATE)
    if answer.request.method != "HEAD":
        body = answer.get_json()
        assert set(body) - {"errors"} == {"message", "status", "requestId"}
        assert body["status"] == status
        assert body["requestId"] == answer.headers["X-Request-Id"]
    return answer


@pytest.mark.parametrize(
    "path",
    [
        "/api",
        "/api/",
        "/API/tasks",
        "/tasks",
        "//api/tasks",
        "/api//tasks",
        "/api/tasks//",
        "/api/./tasks",
        "/api/tasks/../tasks",
        "/api/tasks/x/y",
        "/api/tasks;x=1",
        "/api/tasks%00",
        "/api/%00",
        "/api/%ff%fe",
        "/api/%ed%a0%80",
        "/api/tasks%20",
        "/api/nothing?zzz=1",
        "/api/" + "x" * 5000,
        "/static/x",
        "/favicon.ico",
        "/healthz/x",
        "/swagger-ui",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS", "HEAD"])
def test_a_path_that_does_not_exist_is_404(app, path, method):
    caller = {"Authorization": f"Bearer {TOKENS['alice']}"}
    refused(app.test_client().open(path, method=method, headers=caller), 404)


PATHS = {
    "/tasks": "GET HEAD POST",
    "/tasks/{id}": "DELETE GET HEAD PATCH",
    "/meetings": "GET HEAD POST",
    "/meetings/{id}": "GET HEAD PATCH",
    "/workspaces": "GET HEAD",
    "/workspaces/{id}": "GET HEAD PATCH",
    "/workspaces/{id}/members": "GET HEAD",
    "/dashboard/stats": "GET HEAD",
    "/mail": "GET HEAD",
    "/knowledge": "GET HEAD",
    "/ai/suggestions": "GET HEAD",
}
METHODS = "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE", "CONNECT", "FOO"


@pytest.mark.parametrize("path", PATHS)
def test_a_method_that_a_path_has_not_is_405_and_tells_which_it_has(alice, path):
    allowed = PATHS[path].split()
    for method in set(METHODS) - set(allowed):
        answer = refused(alice.send(method, path.format(id="x")), 405)
        assert sorted(answer.headers["Allow"].replace(" ", "").split(",")) == allowed


def test_a_path_with_a_slash_behind_is_the_same_path(alice):
    assert alice.get("/tasks/").get_json() == alice.get("/tasks").get_json()
    assert alice.post("/tasks/", {"title": "x"}).status_code == 201
    assert alice.get("/workspaces/").get_json() == alice.get("/workspaces").get_json()


@pytest.mark.parametrize(
    "path", ["/tasks", "/workspaces", "/dashboard/stats", "/nothing", "/tasks/x"]
)
def test_head_answers_like_get_without_a_body(alice, path):
    head, get = alice.send("HEAD", path), alice.get(path)
    assert head.status_code == get.status_code
    assert head.data == b""
    assert (head.content_type, head.content_length) == (get.content_type, get.content_length)


@pytest.mark.parametrize("path", ["/", "/healthz", "/openapi.json"])
def test_the_open_documents_answer_to_get_only(app, path):
    caller = {"Authorization": f"Bearer {TOKENS['alice']}"}
    for method in ("POST", "OPTIONS", "DELETE", "PUT"):
        answer = app.test_client().open(path, method=method, headers=caller)
        assert "GET" in refused(answer, 405).headers["Allow"]


def test_the_message_of_an_unknown_path_or_method_is_in_our_words(alice):
    assert alice.get("/nothing").get_json()["message"] == "No resource has this path"
    assert "Allow" in alice.send("PUT", "/tasks").get_json()["message"]


def test_an_absent_a_foreign_and_a_malformed_id_have_the_same_answer(alice, charlie, cast):
    foreign = charlie.post("/tasks", {"title": "Secret"}).get_json()["id"]
    answers = [
        alice.get(f"/tasks/{id}").get_json()
        for id in ("00000000-0000-7000-8000-000000000000", foreign, "malformed")
    ]
    for answer in answers:
        assert answer.pop("requestId")
    assert answers[0] == answers[1] == answers[2]


def test_several_faults_are_told_at_once(alice):
    answer = alice.post("/tasks", {"title": 1, "status": "open", "zzz": 1})
    errors = refused(answer, 400).get_json()["errors"]
    assert {error["field"] for error in errors} == {"title", "status", "zzz"}
    message = answer.get_json()["message"]
    assert all(f"{error['field']}: {error['message']}" in message for error in errors)
    assert "todo, in_progress, done" in message


def test_a_fault_in_a_list_names_its_place(alice):
    answer = alice.post(
        "/meetings",
        {
            "title": "x",
            "startTime": "2026-01-01T10:00Z",
            "endTime": "2026-01-01T11:00Z",
            "attendees": ["a@example.com", "b"],
        },
    )
    assert [error["field"] for error in refused(answer, 400).get_json()["errors"]] == [
        "attendees[1]"
    ]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"assigneeId": "{charlie}"}, "assigneeId"),
        ({"assigneeId": "nobody"}, "assigneeId"),
        ({"parentId": "{alice}"}, "parentId"),
    ],
)
def test_what_a_constraint_refuses_is_400_and_names_the_field(alice, cast, connection, body, field):
    body = {name: value.format(**cast) for name, value in body.items()}
    answer = refused(alice.post("/tasks", {"title": "x", **body}), 400)
    assert answer.get_json()["errors"][0]["field"] == field
    assert connection.execute("SELECT count(*) FROM tasks").fetchone()["count"] == 0


def test_without_an_active_workspace_a_write_is_409(alice, connection):
    connection.execute("UPDATE users SET active_workspace_id = NULL")
    answer = refused(alice.post("/tasks", {"title": "x"}), 409)
    assert "no active workspace" in answer.get_json()["message"]
    assert alice.get("/tasks").get_json()["data"] == []


def test_a_bug_is_a_500_that_tells_nothing_and_is_logged(settings, cast, caplog):
    app = create_app(replace(settings, web_threads=1))

    @app.get("/api/bug")
    def bug():
        raise RuntimeError("s3cret")

    log = logging.getLogger("service")
    log.addHandler(caplog.handler)
    answer = refused(Client(app, TOKENS["alice"]).get("/bug"), 500)
    log.removeHandler(caplog.handler)
    app.extensions["pool"].close()
    assert "s3cret" not in answer.text
    assert "s3cret" in caplog.text
    assert answer.headers["X-RateLimit-Limit"] == "1000"
