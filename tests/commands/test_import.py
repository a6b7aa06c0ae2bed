"""The examples of docs/import.md: moving a workspace, and importing the CSV of other programs."""

import csv
import io
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
    "todoist": "6 rows, 5 tasks, 3 subtasks, 2 dates as text, 0 untitled, 0 titles cut,"
    " 0 descriptions cut, 0 without their parent, 0 known, 1 other rows\n"
    "left out: note rows 1\n",
    "asana": "6 rows, 6 tasks, 3 subtasks, 2 dates as text, 0 untitled, 0 titles cut,"
    " 0 descriptions cut, 1 without their parent, 0 known, 0 other rows\n",
}
# The line of the first task.
FIRST = {"todoist": 3, "asana": 2, "trello": 2}


def start_convert(folder, program, text, *before):
    command = [sys.executable, str(EXAMPLES / "convert.py"), program, "acme", *before]
    given = {"cwd": folder, "input": text, "env": {**os.environ, "TZ": "Europe/Berlin"}}
    return subprocess.run(command, capture_output=True, encoding="utf-8", **given)


def run_convert(folder, program, text, *before):
    ran = start_convert(folder, program, text, *before)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout, ran.stderr


def as_csv(rows):
    """Return rows, which are dictionaries, as CSV with all their columns."""
    columns = {name: None for row in rows for name in row}
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, [*columns], restval="")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


@pytest.fixture
def import_rows(alice, cli, tmp_path):
    """Return a function that imports rows; it returns the tasks by title, and the account."""

    def import_rows(program, rows):
        text = rows if isinstance(rows, str) else as_csv(rows)
        lines, account = run_convert(tmp_path, program, text)
        loaded = cli("load", "-", input=lines)
        assert loaded.exit_code == 0, loaded.stderr
        tasks = alice.get("/tasks?limit=200").get_json()["data"]
        return {task["title"]: task for task in tasks}, account.splitlines()

    return import_rows


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
    taken = f"-:{FIRST[program]}: id: is taken"
    assert (again.exit_code, taken in again.stderr) == (1, True)
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
    assert (late.returncode, f"line {FIRST[program]}: id: is taken" in late.stderr) == (1, True)
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


def test_columns_without_a_field_go_into_metadata_and_each_is_accounted_for(import_rows):
    asana = {"Task ID": "1", "Name": "Call Ada", "Section/Column": "Doing", "Tags": "red,blue"}
    asana |= {"Projects": "House", "Start Date": "2026-11-30", "Last Modified": "2026-11-28"}
    # A text that is too long for metadata, and a name without a letter that metadata can have.
    asana |= {"Story points": "3", "Journal": "x" * 501, "大きさ": "L"}
    text = as_csv([asana, {**asana, "Task ID": "2", "Name": "Water", "Tags": ""}])
    # Two columns with one name, and a row with more fields than the header.
    text = text.replace("大きさ", "大きさ,Tags").replace(",L\r\n", ",L,Mine,more\r\n", 1)
    tasks, account = import_rows("asana", text)
    assert tasks["Call Ada"]["metadata"] == {
        **{"section-column": "Doing", "tags": "red,blue", "projects": "House"},
        **{"start-date": "2026-11-30", "story-points": "3", "tags-11": "Mine"},
        "columns-without-a-name": "more",
    }
    assert tasks["Call Ada"]["description"] == f"Journal: {'x' * 501}\n\n大きさ: L"
    assert "tags" not in tasks["Water"]["metadata"]
    assert account[1:] == [
        "in metadata: Section/Column 2, Tags 1, Projects 2, Start Date 2, Story points 2,"
        " Tags 11 1, Columns without a name 1",
        "in the description: Journal 2, 大きさ 2",
        "left out: Last Modified 2",
    ]


def test_more_columns_than_metadata_can_have_go_into_the_description(import_rows):
    row = {"Task ID": "1", "Name": "Wide", **{f"Own {n}": "é" * 499 for n in range(60)}}
    tasks, account = import_rows("asana", [row])
    kept = tasks["Wide"]["metadata"]
    described = [part.split(":")[0] for part in tasks["Wide"]["description"].split("\n\n")]
    assert len(kept) + len(described) == 60
    assert 0 < len(kept) <= 50
    assert account[1].count("Own ") + account[2].count("Own ") == 60


def test_labels_sections_people_timezones_and_deadlines_of_todoist_are_imported(import_rows):
    first = {"TYPE": "task", "CONTENT": "Call Ada @garden @phone", "PRIORITY": "1", "INDENT": "1"}
    first |= {"AUTHOR": "Bob (1)", "RESPONSIBLE": "Mia (2)", "DATE": "2026-12-24 17:00"}
    first |= {"DATE_LANG": "en", "TIMEZONE": "Asia/Tokyo", "DURATION": "None"}
    first |= {"DEADLINE": "2026-12-30"}
    section = {"TYPE": "section", "CONTENT": "Home"}
    task = {"TYPE": "task", "PRIORITY": "4", "INDENT": "1"}
    rows = [
        {**task, "CONTENT": "a@b.example stays"},
        section,
        first,
        {**task, "CONTENT": "Pay", "DATE": "every day", "DEADLINE": "2026-12-30"},
        {**task, "CONTENT": "Unknown zone", "DATE": "2026-12-24 17:00", "TIMEZONE": "Mars/One"},
        {"TYPE": "note", "CONTENT": "A comment"},
    ]
    tasks, account = import_rows("todoist", rows)
    call, pay = tasks["Call Ada"], tasks["Pay"]
    assert call["dueDate"] == "2026-12-24T08:00:00.000Z"
    people = {"author": "Bob (1)", "responsible": "Mia (2)"}
    assert call["metadata"] == {
        **{"labels": "garden, phone", "section": "Home", "deadline": "2026-12-30"},
        **people,
    }
    assert (pay["dueDay"], pay["description"]) == ("2026-12-30", "Date: every day")
    assert tasks["a@b.example stays"]["metadata"] == {}
    assert tasks["Unknown zone"]["description"] == "Date: 2026-12-24 17:00"
    assert account[1:] == [
        "in metadata: AUTHOR 1, RESPONSIBLE 1, DEADLINE 2, Labels 1, Section 3",
        "left out: DATE_LANG 1, note rows 1",
    ]


DATES = {
    # As people type them.
    "Oct 5 2026": "2026-10-05",
    "5 Oct 2026": "2026-10-05",
    "October 5, 2026": "2026-10-05",
    "5 October 2026 at 17:00": "2026-10-05T15:00:00.000Z",
    "Oct 5 2026 5pm": "2026-10-05T15:00:00.000Z",
    "20261128": "2026-11-28",
    "2026-11-28T10:00": "2026-11-28T09:00:00.000Z",
    "2026-11-28 10:00:00+05:30:15": "2026-11-28T04:29:45.000Z",
    # Text, days that do not exist, and days that the service does not accept.
    **dict.fromkeys(["2026-W48-6", "2026-W48", "2026-02-30", "28/11/2026", "tomorrow", "Dec 24"]),
    **dict.fromkeys(["9999-12-31", "1899-12-31", "0001-01-01 00:00", "9998-12-31T23:30-02:00"]),
}


def test_a_date_is_a_day_or_a_moment_or_else_text_in_the_description(import_rows):
    rows = [{"Task ID": text, "Name": text, "Due Date": text} for text in DATES]
    tasks, account = import_rows("asana", rows)
    shown = {text: task["dueDay"] or task["dueDate"] for text, task in tasks.items()}
    assert shown == DATES
    for text, date in DATES.items():
        assert tasks[text]["description"] == (None if date else f"Date: {text}")
    assert f"{[*DATES.values()].count(None)} dates as text" in account[0]


def test_a_time_of_creation_that_the_service_does_not_accept_becomes_text(import_rows):
    row = {"Created At": "1969-12-31", "Completed At": "yesterday"}
    tasks, account = import_rows("asana", [{"Task ID": "1", "Name": "Old", **row}])
    assert tasks["Old"]["status"] == "done"
    assert tasks["Old"]["description"] == "Created: 1969-12-31\n\nCompleted: yesterday"
    assert "2 dates as text" in account[0]


def test_a_task_without_a_name_and_texts_that_are_too_long_stop_no_import(import_rows):
    long, longer = "t" * 501, "d" * 140_000
    rows = [
        {"Task ID": "1", "Name": " ", "Notes": "No name"},
        {"Task ID": "2", "Name": long, "Notes": "Long name"},
        {"Task ID": "3", "Name": "Long notes", "Notes": longer},
    ]
    tasks, account = import_rows("asana", rows)
    assert tasks["(untitled)"]["description"] == "No name"
    assert tasks[f"{long[:499]}…"]["description"] == f"{long}\n\nLong name"
    assert tasks["Long notes"]["description"] == longer[:65_536]
    assert "1 untitled, 1 titles cut, 1 descriptions cut" in account[0]


BOARD = {
    "name": "House",
    "lists": [
        {"id": "l1", "name": "Doing", "closed": False},
        {"id": "l2", "name": "Old", "closed": True},
        {"id": "l3", "name": "L" * 200, "closed": False},
    ],
    "members": [{"id": "m1", "fullName": "Bob"}],
    "checklists": [
        {
            "idCard": "6956fd80aaaaaaaaaaaaaaaa",
            "name": "Bring",
            "checkItems": [
                {"name": "Paint", "state": "complete"},
                {"name": "Brush", "state": "incomplete"},
            ],
        }
    ],
    "actions": [{"type": "commentCard"}, {"type": "createCard"}],
    "cards": [
        {
            **{"id": "6956fd80aaaaaaaaaaaaaaaa", "name": "Call Ada", "desc": "Soon"},
            **{"idList": "l1", "closed": False, "due": "2026-12-01T10:00:00.000Z"},
            **{"dueComplete": True, "start": None, "idMembers": ["m1", "m2"], "pos": 1},
            "labels": [{"name": "Red", "color": "red"}, {"name": "", "color": "blue"}],
        },
        {"id": "69584f00aaaaaaaaaaaaaaaa", "name": "Gone", "desc": "", "idList": "l2"},
        {"id": "69584f00aaaaaaaaaaaaaaab", "name": "Shut", "idList": "l1", "closed": True},
        {"id": "69584f00aaaaaaaaaaaaaaac", "name": "Water", "idList": "l3"},
    ],
}


def test_the_json_of_trello_is_imported_with_labels_people_and_checklists(import_rows):
    tasks, account = import_rows("trello", json.dumps(BOARD))
    assert tasks.keys() == {"Call Ada", "Water"}
    call = tasks["Call Ada"]
    assert call["description"] == "Soon\n\nBring\n- [x] Paint\n- [ ] Brush"
    assert (call["status"], call["projectId"]) == ("done", "Doing")
    assert (call["dueDate"], call["createdAt"][:10]) == ("2026-12-01T10:00:00.000Z", "2026-01-01")
    assert call["metadata"] == {"labels": "Red, blue", "members": "Bob, m2"}
    assert tasks["Water"]["metadata"] == {"list-name": "L" * 200}
    assert account[0].startswith("4 rows, 2 tasks,")
    assert account[0].endswith("2 other rows")
    assert account[2] == "left out: pos 1, archived cards 2, comments 1"


@pytest.mark.parametrize(
    ("program", "content", "said"),
    [
        ("trello", "{", "The file is no JSON of a board"),
        ("trello", '{"name": "no board"}', "The file is no JSON of a board"),
        ("asana", "{}", "The file has no column Name: is it an export of asana?"),
        ("asana", "", "The file has no column Name: is it an export of asana?"),
        ("todoist", CSV["asana"], "The file has no column CONTENT: is it an export of todoist?"),
        ("jira", CSV["asana"], "PROGRAM is todoist, asana or trello"),
    ],
)
def test_a_file_that_is_no_export_is_named_and_prints_no_traceback(
    tmp_path, program, content, said
):
    ran = start_convert(tmp_path, program, content)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


def test_an_error_names_the_line_of_the_csv(cli, tmp_path):
    rows = [
        {"Task ID": "1", "Name": "First\nwith a second line"},
        {"Task ID": "", "Name": "No task"},
        {"Task ID": "2", "Name": "Second", "Assignee Email": "eve@example.com"},
    ]
    lines, _ = run_convert(tmp_path, "asana", as_csv(rows))
    refused = cli("load", "-", input=lines)
    assert refused.exit_code == 1
    # The header has one line, the first row two.
    assert refused.stderr.startswith("Error: -:5: assigneeId"), refused.stderr


@pytest.mark.slow
def test_an_assignee_who_is_no_member_is_named(upload):
    line = json.dumps({"id": str(UUID(int=1)), "title": "A", "assigneeId": "eve@example.com"})
    refused = upload(line)
    assert refused.returncode == 1
    assert refused.stderr == "line 1: eve@example.com is not a member of the workspace\n"


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
    assert (refused.returncode, refused.stderr[:15]) == (1, "line 221: title")
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
