"""The programs of docs/examples: pages name them, and one of them reports a week."""

import json
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from support.commands import CommandRunner
from support.derived import Values, key, references, settable
from support.openapi_check import document
from support.processes import serving
from support.project import PROJECT, environment, read, run
from support.rows import TOKENS

from service.api.tasks import Task

EXAMPLES = PROJECT / "docs/examples"


@pytest.mark.nodatabase
def test_a_page_or_a_program_names_each_file_of_the_examples():
    pages = [*PROJECT.glob("docs/*.md"), PROJECT / "README.md", *EXAMPLES.glob("*.*")]
    texts = {page: page.read_text(encoding="utf-8") for page in pages}
    for file in EXAMPLES.iterdir():
        if file.is_file():
            others = [text for page, text in texts.items() if page != file]
            assert any(re.search(rf"\b{file.stem}\b", text) for text in others), file


@pytest.mark.nodatabase
def test_each_program_in_python_says_what_it_needs():
    for file in EXAMPLES.glob("*.py"):
        text = read(file)
        if "\nfrom urllib3 import" in text or "\nimport urllib3" in text:
            assert "urllib3" in text.split('"""')[1] or file.name == "todo.py", file
        assert "\nimport requests" not in text, file


@pytest.fixture
def busy():
    """Return a function that returns the URL of a server; its first response is 503."""
    servers = []

    def busy(headers):
        class Server(BaseHTTPRequestHandler):
            answers = iter((503, 201))

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(next(self.answers))
                for name, value in {**headers, "Content-Length": "10"}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(b'{"id":"1"}')

            def log_message(self, *_):
                pass

        servers.append(ThreadingHTTPServer(("127.0.0.1", 0), Server))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{servers[-1].server_port}"

    yield busy
    for server in servers:
        server.shutdown()
        server.server_close()


IN_PYTHON = """
import sys
from todo import Tasks
print(Tasks(sys.argv[1], "x").add("x")["id"])
"""
IN_JAVASCRIPT = """
import { Tasks } from "./todo.mjs";
console.log((await new Tasks(process.argv[1], "x").add("x")).id);
"""


@pytest.mark.nodatabase
@pytest.mark.parametrize(
    "headers",
    [{"Retry-After": "0"}, {}, {"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"}],
    ids=["seconds", "none", "date"],
)
@pytest.mark.parametrize(
    "program",
    [
        pytest.param((sys.executable, "-B", "-c", IN_PYTHON), id="python"),
        pytest.param(
            ("node", "--input-type=module", "--eval", IN_JAVASCRIPT),
            marks=pytest.mark.needs("node"),
            id="javascript",
        ),
    ],
)
def test_the_client_repeats_a_request_whatever_retry_after_says(busy, program, headers):
    ended = subprocess.run(
        (*program, busy(headers)), cwd=EXAMPLES, capture_output=True, text=True, timeout=60
    )
    assert (ended.stdout, ended.stderr) == ("1\n", "")


def task(title, **members):
    return {"type": "task", "workspace": "acme", "title": title, "status": "done", **members}


@pytest.mark.slow
def test_the_report_lists_what_was_finished_in_the_week_before_in_the_timezone_of_the_workspace(
    app, alice, cast, join, database_url, tmp_path
):
    cli = CommandRunner(app)
    for name in ("zoe", "max"):
        join(name, "member")
    alice.patch(f"/workspaces/{cast['acme']}", {"timezone": "Europe/Berlin"})
    # In Berlin, the week begins on 2026-11-15 at 23:00 UTC.
    tasks = [
        task("Too early", completedAt="2026-11-15T22:59:59Z"),
        task("First", completedAt="2026-11-15T23:00:00Z", assigneeId="bob@example.com"),
        task("By Bob", completedAt="2026-11-16T12:00:00Z", completedBy="bob@example.com"),
        task("By Zoe", completedAt="2026-11-17T12:00:00Z", completedBy="zoe@example.com"),
        task("By Max", completedAt="2026-11-18T12:00:00Z", completedBy="max@example.com"),
        task("Late", completedAt="2026-11-20T12:00:00Z", dueDate="2026-11-19"),
        task("In time", completedAt="2026-11-22T22:59:59Z", dueDate="2026-11-30"),
        task("Too late", completedAt="2026-11-22T23:00:00Z"),
    ]
    lines = "\n".join(map(json.dumps, tasks))
    loaded = cli.invoke(args=["load", "-"], input=lines)
    assert loaded.exit_code == 0, loaded.stderr
    # Zoe has left, and Max is deleted.
    for words in (
        ["member", "remove", "acme", "zoe@example.com"],
        ["user", "delete", "max@example.com"],
    ):
        done = cli.invoke(args=[*words, "--yes"])
        assert done.exit_code == 0, done.stderr
    with serving(database_url, WEB_CONCURRENCY="1") as server:
        variables = {"URL": f"http://127.0.0.1:{server.port}", "TOKEN": TOKENS["alice"]}
        program = sys.executable, str(EXAMPLES / "report.py")
        printed = run(*program, cwd=tmp_path, **variables, DAY="2026-11-25")
    assert printed.splitlines() == [
        "Acme finished 6 tasks last week, 1 of them late.",
        "- In time",
        "- Late",
        "- By Max (finished by a deleted user)",
        "- By Zoe (finished by Zoe)",
        "- By Bob (finished by Bob)",
        "- First",
    ]


def uploaded(task, alice, database_url, folder):
    """Create a task again with upload.py, from a line as the command export writes it."""
    with serving(database_url, WEB_CONCURRENCY="1") as server:
        variables = {"URL": f"http://127.0.0.1:{server.port}", "TOKEN": TOKENS["alice"]}
        line = json.dumps({"type": "task", "workspace": "acme", **task})
        ran = subprocess.run(
            [sys.executable, str(EXAMPLES / "upload.py")],
            **{"cwd": folder, "input": line, "capture_output": True, "text": True},
            env=environment(**variables),
        )
        assert ran.returncode == 0, ran.stderr


def undone(task, alice, database_url, folder):
    """Create a task again with what tasks.html sends when a person undoes a deletion."""
    function = re.search(r"(?ms)^function settable\(.*?^}$", read("docs/examples/tasks.html"))[0]
    script = f"{function}\nconsole.log(JSON.stringify(settable({json.dumps(task)})))"
    body = json.loads(run("node", "-e", script, cwd=folder))
    assert alice.post("/tasks/batch", {"create": [body]}).status_code == 200


@pytest.mark.slow
@pytest.mark.needs("node")
@pytest.mark.parametrize("again", [uploaded, undone])
def test_a_program_that_creates_a_task_again_sends_every_field_that_a_client_can_set(
    alice, cast, connection, insert_into, database_url, tmp_path, again
):
    """It leaves out what only the service sets, so it also sends the fields of later releases."""
    values, schema = Values(references(connection, cast, insert_into)), Task()
    every = {key(field): values.of(field, schema)[-1] for field in settable(schema)}
    assert every.keys() == document()["components"]["schemas"]["TaskInput"]["properties"].keys()
    before = alice.post("/tasks", every).get_json()
    assert alice.delete(f"/tasks/{before['id']}").status_code == 204
    again(before, alice, database_url, tmp_path)
    after = alice.get(f"/tasks/{before['id']}").get_json()
    same = {*every, "dueDay"}
    assert {name: after[name] for name in same} == {name: before[name] for name in same}
    # And for a day.
    alice.patch(f"/tasks/{before['id']}", {"dueDate": "2098-03-01"})
    day = alice.get(f"/tasks/{before['id']}").get_json()
    alice.delete(f"/tasks/{before['id']}")
    again(day, alice, database_url, tmp_path)
    assert alice.get(f"/tasks/{before['id']}").get_json()["dueDay"] == "2098-03-01"
