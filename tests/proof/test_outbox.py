"""The outbox of docs/sync.md: every change happens once, whatever is lost, and no other is lost."""

import os
import sys
import threading
from collections import Counter
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from support.processes import call, serving
from support.project import blocks, run
from support.rows import TOKENS, count

pytestmark = pytest.mark.proof

_, OUTBOX, EXAMPLE = blocks("docs/sync.md", "python")

# Prints the problems that the outbox tells.
SEND = "from outbox import send\nsend(lambda *told: told[2] and print(told))"


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
    (tmp_path / "outbox.py").write_text(OUTBOX)

    def program(code, port, token=TOKENS["alice"]):
        (tmp_path / "program.py").write_text(code)
        variables = {"URL": f"http://127.0.0.1:{port}", "TOKEN": token, "OUTBOX": "outbox.db"}
        return run(
            sys.executable, "program.py", cwd=tmp_path, **{**os.environ, **variables}
        ).splitlines()

    return program


def titles(connection):
    rows = connection.execute(
        "SELECT task.title, task.status, task.version, parent.title AS parent"
        "  FROM tasks AS task LEFT JOIN tasks AS parent ON parent.id = task.parent_id"
        " ORDER BY task.id"
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
send(lambda path, now, problem: print(problem, now.get("version")))
"""
    with losing(service) as port:
        told = program(example + more, port)
    assert told == [f"None {version}" for version in (1, 1, 2, 3, 1, None)]
    assert titles(connection) == [
        ("Plan the journey", "in_progress", 3, None),
        ("Book a train", "todo", 1, "Plan the journey"),
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


def test_a_conflict_shows_the_object_as_it_is_now_and_drops_what_followed(
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
put("DELETE", "/api/tasks/{task["id"][::-1]}", version=1)
""",
        service,
    )
    conflict, invalid, unknown = map(eval, program(SEND, service))
    assert conflict[:2] == (path, theirs)
    assert invalid[:2] == ("/api/tasks", None)
    assert invalid[2].startswith("title: must have 1 to 500 characters")
    assert unknown[1:] == (None, "Task not found")
    assert titles(connection) == [("Bob's", "todo", 2, None), ("Other", "todo", 1, None)]
    assert program(SEND, service) == []


def test_what_cannot_be_sent_now_stays(service, program, connection):
    program(PUT, service)
    until_refused = f"""
try:
    {"; ".join(SEND.splitlines())}
except SystemExit as problem:
    print(problem)
"""
    (refused,) = program(until_refused, service, token="tmw_api_nobody")
    assert refused.startswith("Unauthorized")
    assert count(connection, "tasks") == 0
    assert program(SEND, service) == []
    assert count(connection, "tasks") == 1
