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
from support.project import blocks
from support.rows import TOKENS, count

from service.settings import Settings

PROGRAM, UPLOAD = blocks("docs/import.md", "python")
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


def convert(folder, program, *before):
    (folder / "convert.py").write_text(PROGRAM)
    command = [sys.executable, "convert.py", program, "acme", *before]
    ran = subprocess.run(command, cwd=folder, input=CSV[program], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


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


@pytest.fixture
def upload(tmp_path, database_url):
    """Yield a function that runs upload.py with these lines, and returns its stderr."""
    (tmp_path / "upload.py").write_text(UPLOAD)
    with serving(database_url) as server:
        variables = {"URL": f"http://127.0.0.1:{server.port}", "TOKEN": TOKENS["alice"]}

        def upload(lines):
            return subprocess.run(
                [sys.executable, "upload.py"],
                cwd=tmp_path,
                env={**os.environ, **variables},
                input=lines,
                capture_output=True,
                text=True,
            )

        yield upload


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
    same = json.loads(json.dumps(rest).replace(cast["bob"], bob))
    assert sorted(map(str, same)) == sorted(
        str(line) for line in map(json.loads, moved.splitlines()) if line["type"] != "user"
    )
    token = there("token", "create", "bob@example.com").stdout.strip()
    shown = Client(app, token).get(f"/tasks/{task}").get_json()
    assert shown["assigneeId"] == shown["createdBy"] == bob
    assert len(Client(app, token).get("/mail").get_json()["data"]) == 1
