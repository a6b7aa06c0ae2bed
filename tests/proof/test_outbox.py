"""The program docs/examples/outbox.py: every change happens once, and no other is lost."""

import os
import shutil
import sys
import threading
from ast import literal_eval
from collections import Counter
from contextlib import closing, contextmanager
from datetime import timedelta
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest
from support.processes import call, serving
from support.project import PROJECT, blocks, run
from support.rows import TOKENS, activate, count

pytestmark = pytest.mark.proof

(EXAMPLE,) = blocks("docs/sync.md", "python")

# Prints the problems that the outbox tells.
SEND = "from outbox import send\nsend(lambda *told: told[-1] and print(told))"


PUT = 'from outbox import new_id, put\nput("POST", "/api/tasks", {"id": new_id(), "title": "x"})'


@contextmanager
def losing(port):
    """Yield the port of a proxy that passes on every request, and loses its first response."""
    seen = Counter()

    class Proxy(BaseHTTPRequestHandler):
        def forward(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            with closing(HTTPConnection("127.0.0.1", port, timeout=20)) as service:
                service.request(self.command, self.path, body, dict(self.headers))
                answer = service.getresponse()
                content = answer.read()
            request = self.command, self.path, body, self.headers["Idempotency-Key"]
            seen[request] += 1
            self.close_connection = True
            if seen[request] > 1:
                self.send_response(answer.status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        def do_POST(self):
            self.forward()

        def do_PATCH(self):
            self.forward()

        def do_DELETE(self):
            self.forward()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        try:
            yield proxy.server_port
        finally:
            proxy.shutdown()


@pytest.fixture
def service(database_url):
    with serving(database_url) as server:
        yield server.port


@pytest.fixture
def program(tmp_path):
    """Return a function that runs a program beside outbox.py, and returns what it prints."""
    shutil.copy(PROJECT / "docs/examples/outbox.py", tmp_path)

    def program(code, port, token=TOKENS["alice"]):
        (tmp_path / "program.py").write_text(code)
        variables = {
            "URL": f"http://127.0.0.1:{port}",
            "TOKEN": token,
            "OUTBOX": "outbox.db",
            "PAUSE": "0",
        }
        return run(
            sys.executable, "program.py", cwd=tmp_path, **{**os.environ, **variables}
        ).splitlines()

    return program


def titles(connection):
    rows = connection.execute(
        "SELECT task.title, task.status, task.version, parent.title AS parent"
        "  FROM tasks AS task LEFT JOIN tasks AS parent ON parent.id = task.parent_id"
        " ORDER BY task.title"
    )
    return [tuple(row.values()) for row in rows.fetchall()]


def test_the_example_links_a_task_to_one_that_waits_and_each_change_happens_once(
    service, program, connection
):
    example = EXAMPLE.replace("send(print)", "")
    more = """
put("PATCH", f"/api/tasks/{trip}", {"title": "Plan the journey"}, version=1)
gone = new_id()
put("POST", "/api/tasks", {"id": gone, "title": "Gone"})
put("DELETE", f"/api/tasks/{gone}", version=1)
send(lambda *told: print(told[-1], told[-2].get("version")))
"""
    with losing(service) as port:
        told = program(example + more, port)
    assert told == [f"None {version}" for version in (1, 1, 2, 3, 1, None)]
    assert titles(connection) == [
        ("Book a train", "todo", 1, "Plan the journey"),
        ("Plan the journey", "in_progress", 3, None),
    ]


def test_a_new_object_is_made_once_even_if_the_service_has_forgotten_the_key(
    service, program, connection
):
    program(PUT, service)
    store = "import shutil; shutil.copy('outbox.db', 'before.db')"
    program(store, service)
    assert program(SEND, service) == []
    connection.execute("DELETE FROM idempotency_keys")
    # The device lost power before it stored that the request was answered.
    program("import shutil; shutil.copy('before.db', 'outbox.db')", service)
    assert program(SEND, service) == []
    assert titles(connection) == [("x", "todo", 1, None)]


def test_a_conflict_shows_the_object_as_it_is_now_and_tells_each_change_that_it_drops(
    service, program, connection
):
    _, task = call(service, "POST", "/api/tasks", TOKENS["alice"], {"title": "Old"})
    path = f"/api/tasks/{task['id']}"
    _, theirs = call(service, "PATCH", path, TOKENS["bob"], {"title": "Bob's"})
    program(
        f"""
from outbox import new_id, put
put("PATCH", "{path}", {{"title": "Mine"}}, version=1)
put("PATCH", "{path}", {{"status": "done"}}, version=1)
put("POST", "/api/tasks", {{"id": new_id(), "title": ""}})
put("POST", "/api/tasks", {{"id": new_id(), "title": "Other"}})
put("PATCH", "/api/tasks/{task["id"][::-1]}", {{"title": "Nowhere"}}, version=1)
put("DELETE", "{path}", version=1)
""",
        service,
    )
    *conflicts, invalid, unknown = map(literal_eval, program(SEND, service))
    problem = "If-Match: the resource has changed; its current version is 2"
    assert conflicts == [
        (method, path, body, theirs, problem)
        for method, body in (
            ("PATCH", {"title": "Mine"}),
            ("PATCH", {"status": "done"}),
            ("DELETE", None),
        )
    ]
    assert invalid[:2] == ("POST", "/api/tasks")
    assert invalid[-1].startswith("title: must have 1 to 500 characters")
    assert unknown[2:] == ({"title": "Nowhere"}, None, "Task not found")
    assert titles(connection) == [("Bob's", "todo", 2, None), ("Other", "todo", 1, None)]
    assert program(SEND, service) == []


# Sends the first change, and is killed when its response is lost.
LOSE = """
import outbox
from urllib3 import PoolManager, exceptions
outbox.http = PoolManager(retries=False)
try:
    outbox.send(print)
except exceptions.ProtocolError:
    print("lost")
"""


@pytest.fixture
def late(double, program):
    """Return a function that loses the first response, and sends what waits a day later."""

    def late(put, meanwhile=lambda: None):
        port = urlsplit(double.base_url).port
        program(f"from outbox import put\n{put}", port, double.token)
        double.fault("drop-after-commit")
        assert program(LOSE, port, double.token) == ["lost"]
        meanwhile()
        # The key of the change is gone.
        double.set_clock(double.now + timedelta(hours=25))
        return program(SEND, port, double.token)

    return late


@pytest.fixture
def now(double):
    """Return a function that returns an object as it is now."""

    def now(path):
        port = urlsplit(double.base_url).port
        return call(port, "GET", path, double.token)[1]

    return now


ID = "01a1f940-4ea4-7a9f-8e5b-2cb966349abb"
TASK = f"/api/tasks/{ID}"


@pytest.mark.parametrize("metadata", [{"new": "3", "gone": None}, None])
def test_a_change_that_happened_a_day_ago_is_no_conflict_and_what_followed_happens_too(
    double, late, now, metadata
):
    old = {"kept": "1", "gone": "2"}
    double.load({"type": "task", "id": ID, "title": "Old", "metadata": old})
    change = {"title": "Plan the trip", "dueDate": "2036-12-01", "projectId": None}
    change["metadata"] = metadata
    told = late(
        f"put('PATCH', {TASK!r}, {change}, version=1)\n"
        f"put('PATCH', {TASK!r}, {{'status': 'done'}}, version=1)\n"
    )
    task = now(TASK)
    assert told == []
    assert [task[name] for name in ("title", "dueDay", "status", "version")] == [
        "Plan the trip",
        "2036-12-01",
        "done",
        3,
    ]
    assert task["metadata"] == ({"kept": "1", "new": "3"} if metadata else {})


def test_what_followed_a_change_is_a_conflict_if_somebody_else_has_changed_the_object_since_then(
    double, late, now
):
    double.load({"type": "task", "id": ID, "title": "Old"})
    port = urlsplit(double.base_url).port
    (told,) = late(
        f"put('PATCH', {TASK!r}, {{'title': 'Plan the trip'}}, version=1)\n"
        f"put('PATCH', {TASK!r}, {{'description': 'Mine'}}, version=1)\n",
        lambda: call(port, "PATCH", TASK, double.member.token, {"description": "Theirs"}),
    )
    _, path, body, current, problem = literal_eval(told)
    assert (path, body) == (TASK, {"description": "Mine"})
    assert (current["description"], current["version"]) == ("Theirs", 3)
    assert "current version is 3" in problem
    assert now(TASK)["title"] == "Plan the trip"


PARENT = "01a1f940-4ea4-7a9f-8e5b-2cb966349abc"


@pytest.mark.parametrize(
    "change",
    [
        {"title": " Plan the trip\n"},
        {"dueDate": "2036-12-01T10:00:00+02:00"},
        {"dueDate": "2036-12-01T08:00:00Z"},
        {"parentId": PARENT.upper()},
    ],
)
def test_a_change_that_happened_a_day_ago_is_no_conflict_if_the_service_writes_its_value_otherwise(
    double, late, now, change
):
    for id in (ID, PARENT):
        double.load({"type": "task", "id": id, "title": "Old"})
    told = late(
        f"put('PATCH', {TASK!r}, {change}, version=1)\n"
        f"put('PATCH', {TASK!r}, {{'status': 'done'}}, version=1)\n"
    )
    assert (told, now(TASK)["status"], now(TASK)["version"]) == ([], "done", 3)


@pytest.mark.parametrize("added", [{"description": "Theirs"}, {"metadata": {"new": "theirs"}}])
@pytest.mark.parametrize("by", ["somebody else", "another device"])
def test_what_followed_is_a_conflict_if_the_same_change_was_made_elsewhere_with_another_one(
    double, program, now, by, added
):
    double.load({"type": "task", "id": ID, "title": "Old", "metadata": {"old": "1"}})
    port = urlsplit(double.base_url).port
    seen = now(TASK)
    token = double.member.token if by == "somebody else" else double.token
    call(port, "PATCH", TASK, token, {"status": "done", **added})
    program(
        "from outbox import put\n"
        f"put('PATCH', {TASK!r}, {{'status': 'done'}}, 1, {seen})\n"
        f"put('PATCH', {TASK!r}, {{'description': 'Mine'}}, version=1)\n",
        port,
        double.token,
    )
    (told,) = program(SEND, port, double.token)
    _, _, body, current, _ = literal_eval(told)
    assert (body, current) == ({"description": "Mine"}, now(TASK))
    assert now(TASK)["version"] == 2


def test_what_followed_a_change_that_happened_a_day_ago_happens_too_if_the_person_saw_the_object(
    double, late, now
):
    old = {"type": "task", "id": ID, "title": "Old", "dueDate": "2036-12-01"}
    double.load({**old, "metadata": {"kept": "1", "gone": "2"}})
    change = {"title": "New ", "metadata": {"new": "3", "gone": None}}
    told = late(
        f"put('PATCH', {TASK!r}, {change}, 1, {now(TASK)})\n"
        f"put('PATCH', {TASK!r}, {{'status': 'done'}}, 1)\n"
    )
    assert (told, now(TASK)["status"], now(TASK)["dueDay"]) == ([], "done", "2036-12-01")


def test_what_followed_a_new_object_is_a_conflict_if_somebody_else_has_changed_it_since_then(
    double, late, now
):
    port = urlsplit(double.base_url).port
    (told,) = late(
        f"put('POST', '/api/tasks', {{'id': {ID!r}, 'title': 'Plan'}})\n"
        f"put('PATCH', {TASK!r}, {{'description': 'Mine'}}, version=1)\n",
        lambda: call(port, "PATCH", TASK, double.member.token, {"description": "Theirs"}),
    )
    _, _, body, current, _ = literal_eval(told)
    assert (body, current["description"]) == ({"description": "Mine"}, "Theirs")
    assert now(TASK)["description"] == "Theirs"


def test_an_object_that_somebody_else_has_made_again_is_told_with_what_followed(
    double, program, now
):
    double.load({"type": "task", "id": ID, "title": "Old"})
    port = urlsplit(double.base_url).port
    call(port, "DELETE", TASK, double.token)
    call(port, "POST", "/api/tasks", double.member.token, {"id": ID, "title": "Theirs"})
    program(f"from outbox import put\n{UNDO}", port, double.token)
    told = [literal_eval(line) for line in program(SEND, port, double.token)]
    problem = "id: is taken: another object has this id"
    assert [(path, current["title"], why) for _, path, _, current, why in told] == [
        ("/api/tasks", "Theirs", problem),
        (TASK, "Theirs", problem),
    ]
    assert (now(TASK)["title"], now(TASK)["status"]) == ("Theirs", "todo")


def test_an_object_that_was_deleted_a_day_ago_is_no_problem(double, late, now):
    double.load({"type": "task", "id": ID, "title": "Old"})
    assert late(f"put('DELETE', {TASK!r}, version=1)") == []
    assert now(TASK)["status"] == 404


@pytest.mark.parametrize("deleted", [False, True])
def test_an_object_that_was_made_a_day_ago_is_no_problem_even_if_somebody_has_deleted_it(
    double, late, now, deleted
):
    port = urlsplit(double.base_url).port

    def meanwhile():
        if deleted:
            call(port, "DELETE", TASK, double.member.token)

    told = late(
        f"put('POST', '/api/tasks', {{'id': {ID!r}, 'title': 'Plan'}})\n"
        f"put('PATCH', {TASK!r}, {{'status': 'done'}}, version=1)\n",
        meanwhile,
    )
    assert (told, now(TASK)["status"]) == ([], "done")


# Undo the deletion of the task, and then change it.
UNDO = (
    f"put('POST', '/api/tasks', {{'id': {ID!r}, 'title': 'Again'}})\n"
    f"put('PATCH', {TASK!r}, {{'status': 'done'}}, version=1)\n"
)


def test_what_follows_the_undoing_of_a_deletion_names_the_version_of_the_object_made_again(
    double, program, now
):
    double.load({"type": "task", "id": ID, "title": "Old"})
    port = urlsplit(double.base_url).port
    program(
        "from outbox import put\n"
        f"put('PATCH', {TASK!r}, {{'title': 'New'}}, version=1)\n"
        f"put('DELETE', {TASK!r}, version=1)\n" + UNDO,
        port,
        double.token,
    )
    assert program(SEND, port, double.token) == []
    task = now(TASK)
    assert (task["title"], task["status"]) == ("Again", "done")
    assert task["version"] > 3


def test_a_deletion_that_was_undone_a_day_ago_is_no_problem_and_what_followed_happens_too(
    double, late, now
):
    double.load({"type": "task", "id": ID, "title": "Old"})
    port = urlsplit(double.base_url).port
    call(port, "DELETE", TASK, double.token)
    assert late(UNDO) == []
    assert (now(TASK)["title"], now(TASK)["status"]) == ("Again", "done")


def test_what_followed_the_undoing_is_a_conflict_if_somebody_else_has_changed_the_object(
    double, late, now
):
    double.load({"type": "task", "id": ID, "title": "Old"})
    port = urlsplit(double.base_url).port
    call(port, "DELETE", TASK, double.token)
    (told,) = late(
        UNDO, lambda: call(port, "PATCH", TASK, double.member.token, {"title": "Theirs"})
    )
    _, path, _, current, _ = literal_eval(told)
    assert (path, current["title"], now(TASK)["status"]) == (TASK, "Theirs", "todo")


def test_a_response_that_is_not_json_is_no_answer(double, program, now):
    port = urlsplit(double.base_url).port
    program(PUT, port, double.token)
    double.fault("garbled", times=2)
    assert program(SEND, port, double.token) == []
    assert [task["title"] for task in now("/api/tasks")["data"]] == ["x"]
    assert len([sent for sent in double.requests if sent.method == "POST"]) == 3


def test_what_cannot_be_sent_now_stays(service, program, connection, cast):
    program(PUT, service)
    until_refused = f"""
try:
    {"; ".join(SEND.splitlines())}
except SystemExit as problem:
    print(problem)
"""
    (refused,) = program(until_refused, service, token="tmw_api_nobody")
    assert refused.startswith("Unauthorized")
    # The user has no active workspace: a 409 that is not about the id of the new object.
    connection.execute("UPDATE users SET active_workspace_id = NULL")
    (refused,) = program(until_refused, service)
    assert "active workspace" in refused
    assert count(connection, "tasks") == 0
    activate(connection, cast["acme"], cast["alice"])
    assert program(SEND, service) == []
    assert count(connection, "tasks") == 1
