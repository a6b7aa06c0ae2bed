"""The examples of docs/import.md: moving a workspace, and importing the CSV of other programs."""

import json
import os
import subprocess
import sys
from uuid import UUID

import pytest
from support.commands import CommandRunner
from support.http import Client
from support.processes import serving
from support.project import PROJECT
from support.rows import TOKENS, count

from pytest_task_service import Service
from service.settings import Settings

EXAMPLES = PROJECT / "docs/examples"
CSV = {
    "todoist": "TYPE,CONTENT,DESCRIPTION,PRIORITY,INDENT,AUTHOR,RESPONSIBLE,DATE\n"
    "section,Home,,,,,,\ntask,Call Ada,Soon,1,1,Bob (1),,2026-12-01\ntask,Water,,4,1,,,every day\n",
    "asana": "Task ID,Created At,Completed At,Last Modified,Name,Section/Column,Assignee,"
    "Assignee Email,Start Date,Due Date,Tags,Notes,Projects,Parent task\n"
    "12,2026-01-02,2026-01-02,2026-01-02,Call Ada,Done,Bob,bob@example.com,,2026-12-01,,Soon,P,\n"
    "13,2026-01-03,,2026-01-03,Water,,,,,,,,P,\n",
    "trello": "Card ID,Card Name,Card Description,Due Date,List Name,Archived,Due Complete\n"
    "6956fd80aaaaaaaaaaaaaaaa,Call Ada,Soon,2026-12-01T10:00:00.000Z,Done,false,true\n"
    "69584f00aaaaaaaaaaaaaaaa,Water,,,Doing,false,false\n"
    "69584f00aaaaaaaaaaaaaaab,Old,,,Doing,true,false\n",
}


# One export has all of these: subtasks of two levels, tasks with the same text, a parent that is
# not above its subtask, and dates as times and text.
NESTED = {
    "todoist": "TYPE,CONTENT,DESCRIPTION,PRIORITY,INDENT,AUTHOR,RESPONSIBLE,DATE\n"
    "task,Move,,4,1,,,2026-12-24 17:00\ntask,Pack,,4,2,,,\ntask,Books,,4,3,,,Dec 24\n"
    "note,A comment,,,,,,\ntask,Move,,4,1,,,\ntask,Pack,Soon,4,2,,,every day\n",
    "asana": "Task ID,Name,Created At,Completed At,Due Date,Assignee Email,Notes,Parent task\n"
    "1,Move,2026-01-02,,2026-12-24 17:00,,,\n2,Pack,2026-01-02,,,,,Move\n"
    "3,Books,2026-01-02,,Dec 24,,,Pack\n4,Move,2026-01-02,,,,,\n"
    "5,Pack,2026-01-02,,every day,,Soon,Move\n6,Lost,2026-01-02,,,,,Nowhere\n",
}
ACCOUNTS = {
    "todoist": "6 rows, 5 tasks, 3 subtasks, 2 dates as text, 0 without their parent, 0 known,"
    " 1 other rows\n",
    "asana": "6 rows, 6 tasks, 3 subtasks, 2 dates as text, 1 without their parent, 0 known,"
    " 0 other rows\n",
}


def run_convert(folder, program, text, *before):
    command = [sys.executable, str(EXAMPLES / "convert.py"), program, "acme", *before]
    given = {"cwd": folder, "input": text, "env": {**os.environ, "TZ": "Europe/Berlin"}}
    ran = subprocess.run(command, capture_output=True, text=True, **given)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout, ran.stderr


def convert(folder, program, *before):
    return run_convert(folder, program, CSV[program], *before)[0]


@pytest.mark.parametrize("program", CSV)
def test_the_csv_of_another_program_is_imported_and_a_repetition_imports_nothing_twice(
    alice, cli, cast, tmp_path, program
):
    lines = convert(tmp_path, program)
    assert cli("load", "-", input=lines).exit_code == 0
    tasks = {task["title"]: task for task in alice.get("/tasks").get_json()["data"]}
    assert [*tasks] == ["Water", "Call Ada"] or program == "todoist"
    assert tasks.keys() == {"Water", "Call Ada"}
    call = tasks["Call Ada"]
    assert (call["description"], call["dueDate"][:10]) == ("Soon", "2026-12-01")
    if program == "todoist":
        assert (call["priority"], tasks["Water"]["dueDate"]) == ("urgent", None)
    else:
        assert (call["status"], tasks["Water"]["status"]) == ("done", "todo")
        assert call["createdAt"][:10] == "2026-01-02" or program == "trello"
    if program == "asana":
        assert call["completedAt"] == "2026-01-02T00:00:00.000Z"
        assert call["assigneeId"] == cast["bob"]
    again = cli("load", "-", input=lines)
    assert (again.exit_code, "-:1: id: is taken" in again.stderr) == (1, True)
    (tmp_path / "before").write_text(cli("workspace", "export", "acme").stdout)
    assert convert(tmp_path, program, "before") == ""


def assert_nested(client):
    """Every task of NESTED is there, below its parent, with its date."""
    tasks = client.get("/tasks").get_json()["data"]
    title = {task["id"]: task["title"] for task in tasks}
    first = next(task for task in tasks if task["dueDate"])
    below = {task["title"]: task for task in tasks if task["parentId"] == first["id"]}
    assert (first["title"], first["dueDate"]) == ("Move", "2026-12-24T16:00:00.000Z")
    # The subtask of a subtask is its sibling.
    assert below.keys() == {"Pack", "Books"}
    assert below["Books"]["description"] == "Date: Dec 24"
    (other,) = [task for task in tasks if task["parentId"] and task["parentId"] != first["id"]]
    assert (other["title"], title[other["parentId"]]) == ("Pack", "Move")
    assert other["description"] == "Soon\n\nDate: every day"


@pytest.mark.parametrize("program", NESTED)
def test_subtasks_equal_texts_and_dates_are_imported_and_each_row_is_accounted_for(
    alice, cli, connection, tmp_path, program
):
    lines, account = run_convert(tmp_path, program, NESTED[program])
    assert account == ACCOUNTS[program]
    assert cli("load", "-", input=lines).exit_code == 0
    assert_nested(alice)
    # A subtask that the other program has got since then is loaded below its parent.
    connection.execute("DELETE FROM tasks WHERE title = 'Books'")
    (tmp_path / "before").write_text(cli("workspace", "export", "acme").stdout)
    lines, account = run_convert(tmp_path, program, NESTED[program], "before")
    assert "1 tasks, 1 subtasks, 1 dates as text" in account
    assert f"{count(connection, 'tasks')} known" in account
    assert cli("load", "-", input=lines).exit_code == 0
    assert_nested(alice)


def run_upload(folder, url, token, lines):
    variables = {"URL": url, "TOKEN": token, "PAUSE": "0"}
    return subprocess.run(
        [sys.executable, str(EXAMPLES / "upload.py")],
        cwd=folder,
        env={**os.environ, **variables},
        input=lines,
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def served(database_url):
    """Yield the URL of a web server, which all tests of this module share."""
    with serving(database_url, WEB_CONCURRENCY="1") as server:
        yield f"http://127.0.0.1:{server.port}"


@pytest.fixture
def upload(tmp_path, served):
    """Return a function that runs upload.py with these lines, and returns its stderr."""
    return lambda lines: run_upload(tmp_path, served, TOKENS["alice"], lines)


@pytest.mark.slow
@pytest.mark.parametrize("program", CSV)
def test_the_csv_of_another_program_is_imported_over_http(
    alice, upload, cast, connection, tmp_path, program
):
    lines = convert(tmp_path, program)
    for _ in range(2):
        assert (upload(lines).returncode, count(connection, "tasks")) == (0, 2)
    connection.execute("DELETE FROM idempotency_keys")
    late = upload(lines)
    assert (late.returncode, "create[0].id: is taken" in late.stderr) == (1, True)
    tasks = {task["title"]: task for task in alice.get("/tasks").get_json()["data"]}
    assert [*tasks] == ["Water", "Call Ada"] or program == "todoist"
    assert tasks.keys() == {"Water", "Call Ada"}
    call = tasks["Call Ada"]
    assert (call["description"], call["dueDate"][:10]) == ("Soon", "2026-12-01")
    assert call["assigneeId"] == (cast["bob"] if program == "asana" else None)


@pytest.mark.slow
@pytest.mark.parametrize("program", NESTED)
def test_subtasks_are_imported_over_http(alice, upload, tmp_path, program):
    lines, _ = run_convert(tmp_path, program, NESTED[program])
    assert upload(lines).returncode == 0
    assert_nested(alice)


@pytest.mark.slow
def test_an_assignee_who_is_no_member_is_named(upload):
    line = json.dumps({"id": str(UUID(int=1)), "title": "A", "assigneeId": "eve@example.com"})
    refused = upload(line)
    assert refused.returncode == 1
    assert refused.stderr == "eve@example.com is not a member of the workspace\n"


@pytest.mark.slow
def test_an_upload_survives_responses_that_are_not_json_and_creates_each_task_once(
    database_url, tmp_path
):
    double = Service.start(database=database_url)
    try:
        double.fault("garbled", times=4)
        line = json.dumps({"id": str(UUID(int=1)), "title": "A"})
        url = double.base_url.removesuffix("/api")
        assert run_upload(tmp_path, url, double.token, line).returncode == 0
        assert double.unmet_faults == []
        double.fault("garbled", path="/api/tasks/batch")
        line = json.dumps({"id": str(UUID(int=2)), "title": "B"})
        assert run_upload(tmp_path, url, double.token, line).returncode == 0
        (first, again) = [sent.status for sent in double.requests if sent.method == "POST"][-2:]
        assert (first, again) == (200, 200)
    finally:
        double.stop()


@pytest.mark.slow
def test_an_import_over_http_sends_few_requests_and_a_repetition_continues_it(
    alice, upload, connection
):
    tasks = [{"id": str(UUID(int=number)), "title": f"{number}"} for number in range(1, 251)]
    # Fewer of these tasks fit into one request.
    tasks += [
        {"id": str(UUID(int=number)), "title": "x", "description": "x" * 65_536}
        for number in range(300, 320)
    ]

    def lines():
        return "\n".join(map(json.dumps, tasks))

    tasks[220]["title"] = ""
    refused = upload(lines())
    assert (refused.returncode, refused.stderr[:16]) == (1, "create[20].title")
    assert count(connection, "tasks") == 200
    tasks[220]["title"] = "221"
    assert upload(lines()).returncode == 0
    assert count(connection, "tasks") == 270
    assert count(connection, "idempotency_keys") < 10


@pytest.fixture
def elsewhere(other, start):
    """Yield the app of another installation, and a function that runs a command there."""
    app = start(Settings.read({"DATABASE_URL": other}))
    yield app, lambda *words, **options: CommandRunner(app).invoke(args=words, **options)
    app.extensions["pool"].close()


@pytest.mark.slow
def test_a_workspace_moves_to_an_installation_that_has_some_of_the_same_people(
    cli, cast, insert_into, elsewhere
):
    app, there = elsewhere
    assert there("user", "create", "BOB@example.com", "Robert").exit_code == 0
    bob = there("user", "list").stdout.split("\t")[0]
    changed = {"updated_by": cast["bob"], "updated_by_version": 1}
    task = insert_into("tasks", user="bob", assignee_id=cast["bob"], **changed)
    insert_into("mail", user="bob")
    exported = cli("workspace", "export", "acme").stdout
    refused = there("load", "-", input=exported)
    assert (refused.exit_code, "email: is taken by another user" in refused.stderr) == (1, True)
    # An id may have capital letters.
    exported = exported.replace(cast["bob"], cast["bob"].upper())
    loaded = there("load", "--match-users", "email", "-", input=exported)
    assert loaded.exit_code == 0, loaded.stderr
    moved = there("workspace", "export", "acme").stdout
    lines = [json.loads(line) for line in exported.splitlines()]
    users = [line for line in map(json.loads, moved.splitlines()) if line["type"] == "user"]
    assert {(user["id"], user["name"]) for user in users} == {
        (cast["alice"], "Alice"),
        (bob, "Robert"),
    }
    rest = [line for line in lines if line["type"] != "user"]
    same = json.loads(json.dumps(rest).replace(cast["bob"].upper(), bob))
    assert sorted(map(str, same)) == sorted(
        str(line) for line in map(json.loads, moved.splitlines()) if line["type"] != "user"
    )
    token = there("token", "create", "bob@example.com").stdout.strip()
    shown = Client(app, token).get(f"/tasks/{task}").get_json()
    assert shown["assigneeId"] == shown["createdBy"] == bob
    assert len(Client(app, token).get("/mail").get_json()["data"]) == 1
