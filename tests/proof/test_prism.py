"""Prism validates each request and each response between a client and the service.

It reads the published document. With ``--errors`` it answers by itself if one does not fit.
"""

import http.client
import json
import subprocess
from contextlib import closing, contextmanager

import pytest
from client import UNKNOWN
from openapi_check import document
from server import answers, environment, free_port, wait_until

pytestmark = pytest.mark.proof

TASK = {"title": "Call Ada", "dueDate": "2036-05-02T15:00:00Z"}
MEETING = {
    "title": "Planning",
    "startTime": "2036-05-05T09:00:00Z",
    "endTime": "2036-05-05T10:00:00Z",
    "attendees": ["ada@example.com"],
}


@pytest.fixture
def send(npm, service):
    """Send requests through Prism; each returns the status and the body.

    Prism validates requests by the document of this release.
    """
    with prism(npm, service["TOKEN"], "proxy", "openapi.json", service["THIS_RELEASE"]) as send:
        yield send


@contextmanager
def prism(npm, token, *command):
    """Yield a function that sends a request to Prism, which this command starts."""
    port = free_port()
    program = str(npm / "node_modules/.bin/prism")
    json_type = {"Content-Type": "application/json"}
    by_token = {"Authorization": f"Bearer {token}", **json_type}
    by_cookie = {"Cookie": "session=tmw_session_alice", **json_type}

    def send(method, path, body=None, *, cookie=False):
        content = None if body is None else json.dumps(body)
        headers = by_cookie if cookie else by_token
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as connection:
            connection.request(method, path, content, headers)
            with connection.getresponse() as response:
                return response.status, json.loads(response.read() or "null")

    process = subprocess.Popen(
        [program, *command, "--errors", f"--port={port}"],
        cwd=npm,
        env=environment(),
        stdout=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: answers(port), process)
        yield send
    finally:
        process.terminate()
        process.wait(10)


def test_the_mock_of_prism_answers_every_read_from_the_examples(npm):
    with prism(npm, "any", "mock", "openapi.json") as send:
        for path, item in document()["paths"].items():
            if "get" in item:
                path = path.replace("{id}", UNKNOWN).replace("{delivery}", UNKNOWN)
                only_with_a_session = item["get"].get("security") == [{"session": []}]
                status, body = send("GET", path, cookie=only_with_a_session)
                assert status == 200, (path, body)


def test_a_client_sends_back_what_it_read_without_a_mismatch(send):
    _, task = send("POST", "/api/tasks", TASK)
    _, meeting = send("POST", "/api/meetings", MEETING)
    _, (workspace,) = send("GET", "/api/workspaces")
    completion = {"status": "completed", "summary": "Done", "decisions": ["Yes"]}
    for path, changes in (
        (f"/api/tasks/{task['id']}", {"status": "done"}),
        (f"/api/meetings/{meeting['id']}", completion),
        (f"/api/workspaces/{workspace['id']}", {"timezone": "Europe/Rome"}),
    ):
        for change in ({}, changes):
            status, read = send("GET", path)
            assert status == 200
            status, changed = send("PATCH", path, {**read, **change})
            assert status == 200, changed
            assert {**changed, **change} == changed


def test_every_read_is_as_documented(send):
    reads = {
        path: item["get"].get("security") == [{"session": []}]
        for path, item in document()["paths"].items()
        if "{" not in path and "get" in item
    }
    assert len(reads) > 10
    for path, only_with_a_session in reads.items():
        status, body = send("GET", path, cookie=only_with_a_session)
        assert status == 200, (path, body)
    for query in ("assignee=me", "assignee=none", "status=todo&limit=1", "limit=9999"):
        assert send("GET", f"/api/tasks?{query}")[0] == 200


def test_prism_rejects_what_the_service_rejects(send):
    _, task = send("POST", "/api/tasks", TASK)
    for method, path, body in (
        ("PATCH", f"/api/tasks/{task['id']}", {"titel": "Call Ada"}),
        ("POST", "/api/tasks", {**TASK, "id": task["id"]}),
        ("POST", "/api/tasks", {**TASK, "dueDate": "2036-05-02"}),
        ("GET", "/api/tasks?parentId=null", None),
    ):
        status, problem = send(method, path, body)
        assert status == 422
        assert problem["validation"], problem
