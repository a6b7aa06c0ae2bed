"""Errors: every error is JSON in the same form, with the headers of its status."""

import re
from itertools import product

import pytest
from support.derived import views
from support.http import Client, error_message, invalid_field
from support.openapi_check import check_against_document
from support.rows import TOKENS
from werkzeug.exceptions import BadRequest

from service.database.remedies import NO_RIGHTS
from service.settings import Settings

ALICE = {"Authorization": f"Bearer {TOKENS['alice']}"}


def check_error(response, status):
    """Check that the response is this error; a response to HEAD has the headers only."""
    assert response.status_code == status
    assert response.content_type == "application/json"
    check_against_document(response)
    if response.request.method != "HEAD":
        error_message(response, status)
    return response


UNKNOWN_PATHS = [
    "/api", "/api/", "/API/tasks", "/tasks", "//api/tasks", "/api//tasks", "/api/tasks//",
    "/api/./tasks", "/api/tasks/../tasks", "/api/tasks/x/y", "/api/tasks;x=1", "/api/tasks%00",
    "/api/%00", "/api/%ff%fe", "/api/%ed%a0%80", "/api/tasks%20", "/api/nothing?zzz=1",
    "/api/" + "x" * 5000, "/static/x", "/favicon.ico", "/healthz/x", "/swagger-ui",
]  # fmt: skip


def test_an_unknown_path_gets_404_for_every_method(app):
    for path, method in product(UNKNOWN_PATHS, ("GET", "POST", "OPTIONS", "HEAD")):
        response = app.test_client().open(path, method=method, headers=ALICE)
        assert response.status_code == 404, (path, method)
        check_error(response, 404)


METHODS = "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE", "CONNECT", "FOO"


def pattern(rule):
    return re.sub(r"<id:\w+>", r"[a-z]+", rule)


@pytest.mark.parametrize("rule", sorted({view.rule for view in views()}))
def test_a_method_that_a_path_lacks_gets_405_and_allow_lists_the_methods_of_the_path(alice, rule):
    here = [view for view in views() if view.rule == rule]
    # A path without variables can also be the path of an unknown object: /api/tasks/batch.
    methods = {view.method for view in views() if re.fullmatch(pattern(view.rule), rule)}
    # ``views`` leaves out the operation of login pages, whose credential is a key of the operator.
    methods |= {view.method for view in here} | ({"POST"} if rule == "/api/session" else set())
    allowed = sorted(methods | ({"HEAD"} if "GET" in methods else set()))
    path = here[0].path(*(["x"] * len(here[0].variables)))
    for method in set(METHODS) - set(allowed):
        response = check_error(alice.send(method, path), 405)
        assert sorted(response.headers["Allow"].replace(" ", "").split(",")) == allowed


def test_a_path_with_a_trailing_slash_is_the_same_path(alice):
    assert alice.get("/tasks/").get_json() == alice.get("/tasks").get_json()
    assert alice.post("/tasks/", {"title": "x"}).status_code == 201
    assert alice.get("/workspaces/").get_json() == alice.get("/workspaces").get_json()


def test_the_response_to_head_is_the_response_to_get_without_its_body(alice):
    for path in ("/tasks", "/workspaces", "/dashboard/stats", "/nothing", "/tasks/x"):
        head, get = alice.send("HEAD", path), alice.get(path)
        assert (path, head.status_code, head.data) == (path, get.status_code, b"")
        assert (head.content_type, head.content_length) == (get.content_type, get.content_length)


def test_the_public_documents_allow_get_only(app):
    client = app.test_client()
    for path in ("/", "/healthz", "/openapi.json"):
        assert client.get(path).headers["X-Content-Type-Options"] == "nosniff"
        for method in ("POST", "OPTIONS", "DELETE", "PUT"):
            response = check_error(client.open(path, method=method, headers=ALICE), 405)
            assert "GET" in response.headers["Allow"]


def test_one_response_names_all_invalid_fields(alice):
    response = alice.post("/tasks", {"title": 1, "status": "open", "zzz": 1})
    message = error_message(response, 400)
    errors = response.get_json()["errors"]
    assert {error["field"] for error in errors} == {"title", "status", "zzz"}
    assert message == "; ".join(f"{error['field']}: {error['message']}" for error in errors)
    assert "todo, in_progress, done" in message


def test_the_message_about_an_invalid_entry_of_a_list_has_its_index(alice):
    times = {"startTime": "2026-01-01T10:00Z", "endTime": "2026-01-01T11:00Z"}
    meeting = {"title": "x", **times, "attendees": ["a@example.com", "b"]}
    response = alice.post("/meetings", meeting)
    assert [error["field"] for error in response.get_json()["errors"]] == ["attendees[1]"]
    assert invalid_field(response, "attendees")


def test_an_unexpected_exception_is_a_500_without_details_and_is_logged(build, caplog, logged):
    app = build(web_threads=1)

    @app.get("/api/bug")
    def bug():
        raise RuntimeError("s3cret")

    response = check_error(Client(app, TOKENS["alice"]).get("/bug"), 500)
    assert "s3cret" not in response.text
    assert len(logged()) == 1
    assert "s3cret" in caplog.text
    assert response.headers["X-RateLimit-Limit"] == "1000"


def test_a_brace_in_an_error_of_werkzeug_is_a_part_of_its_message(build):
    app = build(web_threads=1)

    @app.get("/api/refused")
    def refused():
        raise BadRequest("The host {x} is not trusted.")

    response = check_error(Client(app, TOKENS["alice"]).get("/refused"), 400)
    assert error_message(response, 400) == "The host {x} is not trusted."


@pytest.mark.parametrize(
    ("spoil", "restore", "line"),
    [
        (
            "ALTER TABLE knowledge RENAME TO renamed",
            "ALTER TABLE renamed RENAME TO knowledge",
            'relation "knowledge" does not exist: run the command migrate; if it has nothing to do,'
            " the schema was changed by hand: change it back",
        ),
        (
            "REVOKE SELECT ON knowledge FROM {role}",
            "GRANT SELECT ON knowledge TO {role}",
            f"permission denied for table knowledge: {NO_RIGHTS}",
        ),
    ],
    ids=["a table is missing", "a right is missing"],
)
def test_an_error_that_only_an_operator_can_correct_causes_503_and_a_log_line_with_the_remedy(
    spoil, restore, line, start, connection, database_url, granted, logged, cast
):
    with granted(database_url) as (role, url):
        client = Client(start(Settings.read({"DATABASE_URL": url})), TOKENS["alice"])
        connection.execute(spoil.format(role=role))
        try:
            response = client.get("/knowledge")
        finally:
            connection.execute(restore.format(role=role))
    assert error_message(response, 503) == "The database is not available at the moment"
    assert response.headers["Retry-After"] == "1"
    (record,) = logged()
    assert (record.levelname, record.getMessage()) == ("ERROR", line)
    assert record.exc_info is None
