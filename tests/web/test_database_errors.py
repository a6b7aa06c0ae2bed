"""Errors of PostgreSQL: each SQLSTATE has its response. A trigger raises each of them."""

import json

import pytest
from support.commands import CommandRunner
from support.http import Client, error_message
from support.rows import TOKENS, count
from support.statements import trigger

from service.context import db
from service.web.errors import CONSTRAINTS
from service.web.responses import One

UNAVAILABLE = "The database is not available at the moment"
CONCURRENT = "Another request changed this at the same time; try again"
RANGE = "The request contains a value that is out of range"
INTERNAL = "Internal error; it is logged under this requestId"
SENTENCE = "title must be better"

# SQLSTATE (PostgreSQL, appendix A) by status and message. Class 08 means a lost connection.
STATES = {
    (503, UNAVAILABLE): "08006 53100 53300 57P01 57P03 58030 25006 25P03 25P04 42P01 42501",
    # A statement that takes too long does not mean that the database is unavailable.
    (503, "The database took too long; the statement was cancelled"): "57014 55P03",
    (409, CONCURRENT): "40001 40P01 23503",
    (400, RANGE): "22003 22P05 54000",
    (500, INTERNAL): "23502 23505 23514 54001 55000 25001 42601 P0001 XX000",
}
ERRORS = [(state, *error) for error, states in STATES.items() for state in states.split()]


@pytest.fixture
def failing(connection):
    """Make each write to a task raise the error whose SQLSTATE is the description of the task."""
    body = """
        DECLARE
            item tasks := coalesce(NEW, OLD);
        BEGIN
            IF item.description IS NULL THEN
                RETURN item;
            END IF;
            IF item.project_id IS NULL THEN
                RAISE EXCEPTION 's3cret' USING ERRCODE = item.description;
            END IF;
            RAISE EXCEPTION 's3cret' USING
                ERRCODE = item.description,
                CONSTRAINT = item.project_id,
                COLUMN = item.project_id;
        END;
    """
    with trigger(connection, "BEFORE INSERT OR UPDATE OR DELETE ON tasks", body):
        yield


def send(alice, state, name=None):
    return alice.post("/tasks", {"title": "New", "description": state, "projectId": name})


@pytest.mark.usefixtures("failing")
@pytest.mark.parametrize(("state", "status", "message"), ERRORS)
def test_each_sqlstate_leads_to_its_status_and_message(
    alice, connection, logged, state, status, message
):
    response = send(alice, state)
    assert error_message(response, status) == message
    assert response.headers.get("Retry-After") == ("1" if status == 503 else None)
    assert "s3cret" not in response.text
    # The service logs an error that the client cannot correct.
    assert bool(logged()) == (status >= 500)
    assert count(connection, "tasks") == 0
    # The connection still works.
    assert alice.post("/tasks", {"title": "New"}).status_code == 201


@pytest.mark.usefixtures("failing")
@pytest.mark.parametrize("state", ["23503", "23514"])
def test_a_constraint_whose_name_is_a_sentence_gives_that_sentence_as_the_message(
    alice, logged, state
):
    response = send(alice, state, SENTENCE)
    assert error_message(response, 400) == "title: must be better"
    assert response.get_json()["errors"] == [{"field": "title", "message": "must be better"}]
    assert logged() == []


@pytest.mark.usefixtures("failing")
@pytest.mark.parametrize("state", ["23503", "23514"])
def test_a_constraint_with_a_short_name_gives_its_words_as_the_message(
    alice, app, logged, monkeypatch, state, cast
):
    monkeypatch.setitem(CONSTRAINTS, "tasks_title_quality", SENTENCE)
    response = send(alice, state, "tasks_title_quality")
    assert error_message(response, 400) == "title: must be better"
    assert response.get_json()["errors"] == [{"field": "title", "message": "must be better"}]
    assert logged() == []
    # Commands, too.
    line = {"type": "task", "workspace": "acme", "title": "New"}
    line |= {"description": state, "projectId": "tasks_title_quality"}
    loaded = CommandRunner(app).invoke(["load", "-"], input=json.dumps(line))
    assert (loaded.exit_code, loaded.stderr) == (1, f"Error: -:1: {SENTENCE}\n")


@pytest.mark.usefixtures("failing")
def test_only_violated_checks_and_foreign_keys_use_the_name_of_the_constraint_as_the_message(alice):
    error_message(send(alice, "23505", SENTENCE), 500)
    error_message(send(alice, "23502", SENTENCE), 500)
    error_message(send(alice, "23503", "tasks_fkey"), 409)
    error_message(send(alice, "23514", "tasks_check"), 500)


@pytest.mark.usefixtures("failing")
def test_a_write_without_a_workspace_gets_409_with_the_reason_no_active_workspace(alice):
    assert "no active workspace" in error_message(send(alice, "23502", "workspace_id"), 409)
    error_message(send(alice, "23505", "workspace_id"), 500)


def test_a_delete_gets_409_if_a_new_reference_prevents_it(alice, connection, request):
    """The sentence of the constraint is about the row that refers, not about the deleted one."""
    task = alice.post("/tasks", {"title": "New"}).get_json()["id"]
    request.getfixturevalue("failing")
    with connection.transaction():
        connection.execute("ALTER TABLE tasks DISABLE TRIGGER USER")
        connection.execute("UPDATE tasks SET description = '23503', project_id = %s", (SENTENCE,))
        connection.execute("ALTER TABLE tasks ENABLE TRIGGER USER")
    assert error_message(alice.delete(f"/tasks/{task}"), 409) == CONCURRENT
    assert count(connection, "tasks") == 1


def test_a_nul_that_gets_past_the_fields_to_the_database_gets_400(build):
    app = build()
    app.add_url_rule("/api/nul", view_func=lambda: db.row(One, "tasks/get", id="\0"))
    response = Client(app, TOKENS["alice"]).get("/nul")
    assert "the character NUL" in error_message(response, 400)


@pytest.mark.parametrize("state", ["40001", "40P01"])
@pytest.mark.parametrize(("method", "status"), [("GET", 503), ("HEAD", 503), ("POST", 409)])
def test_a_request_that_changes_nothing_is_no_conflict(connection, bob, method, status, state):
    """The gate counts every request, and this write can fail like any other."""
    assert bob.get("/tasks").status_code == 200
    body = f"BEGIN RAISE EXCEPTION 's3cret' USING ERRCODE = '{state}'; END;"
    with trigger(connection, "BEFORE UPDATE ON usage", body):
        response = bob.send(method, "/tasks", json={"title": "x"} if method == "POST" else None)
        assert response.status_code == status
        assert ("Retry-After" in response.headers) == (status == 503)
