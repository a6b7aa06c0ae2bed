"""Bounds: no request makes the service read, return or keep more than fixed amounts."""

import gc
import json
import weakref
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO

import pytest
from support.http import error_message
from support.processes import get, post, resident, send, serving
from support.rows import TOKENS, UNKNOWN
from werkzeug.test import create_environ

MEBIBYTE = 2**20 - 64


def repeated_names():
    names = ",".join(f'"a{number}":1' for number in range(50_000))
    return f'{{{names},"a0":1}}'


def names_that_end_with_a_backslash():
    return "{" + ",".join(f'"{number:x}\\\\":1' for number in range(80_000)) + "}"


BODIES = {
    "many names that end with a backslash": names_that_end_with_a_backslash(),
    "one repeated name": f"{{{','.join([chr(34) + 'a' + chr(34) + ':1'] * 150_000)}}}",
    "many names, one of them twice": repeated_names(),
    "many unknown names": json.dumps({f"{number:x}": 1 for number in range(80_000)}),
    "one long unknown name": json.dumps({"x" * (MEBIBYTE - 64): 1}),
    "many nested objects": json.dumps({"title": [{} for _ in range(250_000)]}),
    "many entries": json.dumps({"attendees": ["x"] * 200_000}),
}


@pytest.mark.parametrize("name", BODIES)
def test_the_response_to_a_mebibyte_of_faults_is_short(alice, name):
    response = alice.post("/meetings", data=BODIES[name].encode()[: 2**20])
    assert error_message(response, 400)
    assert len(response.data) < 20_000


def test_at_most_100_errors_are_listed_and_long_names_are_cut(alice):
    response = alice.post("/tasks", {f"{'x' * 200}{number}": 1 for number in range(150)})
    error_message(response, 400)
    errors = response.get_json()["errors"]
    assert len(errors) == 100
    assert max(len(error["field"]) for error in errors) == 100


@pytest.mark.slow
def test_memory_does_not_grow_with_floods_of_eight_large_bodies_at_the_same_time(
    database_url, unlimited
):
    bodies = [body.encode()[: 2**20] for body in BODIES.values()] * 2
    requests = [post(body, f"Content-Length: {len(body)}\r\n") for body in bodies]

    def flood():
        with ThreadPoolExecutor(8) as threads:
            responses = list(threads.map(lambda request: send(server.port, request), requests))
        assert {response.status for response in responses} == {400}

    with serving(database_url, WEB_CONCURRENCY="1", WEB_THREADS="8") as server:
        for _ in range(10):
            get(server.port)
        before = resident(server)
        for _ in range(4):
            flood()
        assert resident(server) - before < 20


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        *[("POST", "/api/meetings", body, 400) for body in BODIES.values()],
        ("POST", "/api/tasks", "{}", 400),
        ("POST", "/api/tasks", f'{{"title": "x", "parentId": "{UNKNOWN}"}}', 400),
        ("PATCH", f"/api/tasks/{UNKNOWN}", "{}", 404),
        ("POST", "/api/tasks", '{"title": "\\u0000"}', 400),
        ("POST", "/api/nothing", "{}", 404),
        ("PUT", "/api/tasks", "{}", 405),
        ("POST", "/api/tasks", '{"title": "x"}', 201),
        ("PATCH", "task", '{"title": "y"}', 200),
        ("PATCH", "task", '{"title": "y"}', 412),
    ],
)
def test_a_request_is_freed_without_the_garbage_collector(app, alice, method, path, body, status):
    if path == "task":
        path = "/api/tasks/" + alice.post("/tasks", {"title": "x"}).get_json()["id"]

    class Input(BytesIO):
        """A body to which a weak reference can refer."""

    def request():
        stream = Input(body.encode()[: 2**20])
        environ = create_environ(
            path,
            method=method,
            content_type="application/json",
            headers={"Authorization": f"Bearer {TOKENS['alice']}"},
        )
        if status == 412:
            environ["HTTP_IF_MATCH"] = '"99"'
        environ |= {"wsgi.input": stream, "CONTENT_LENGTH": str(len(stream.getvalue()))}
        statuses = []
        list(app(environ, lambda line, _: statuses.append(line)))
        assert statuses[0].startswith(str(status)), statuses
        return weakref.ref(stream)

    request()
    gc.disable()
    try:
        assert request()() is None
    finally:
        gc.enable()
