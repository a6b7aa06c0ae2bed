"""Bounds: no request makes the service read, return or keep more than fixed amounts."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from client import error_message
from server import get, post, send, serving

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
def test_a_response_to_a_mebibyte_of_faults_is_short(alice, name):
    response = alice.post("/meetings", data=BODIES[name].encode()[: 2**20])
    assert error_message(response, 400)
    assert len(response.data) < 20_000


def test_an_object_has_at_most_256_members(alice):
    body = {f"field{number}": 1 for number in range(257)}
    assert error_message(alice.post("/tasks", body), 400) == (
        "The body must not contain an object with more than 256 members"
    )


def test_at_most_20_errors_are_listed_and_long_names_are_cut(alice):
    response = alice.post("/tasks", {f"{'x' * 200}{number}": 1 for number in range(100)})
    error_message(response, 400)
    errors = response.get_json()["errors"]
    assert len(errors) == 20
    assert max(len(error["field"]) for error in errors) == 100


def resident(pid):
    """Return the memory of a process in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def test_values_in_strings_are_not_counted(alice):
    text = '",:\\' * 16_384
    response = alice.post("/tasks", {"title": "x", "description": text})
    assert (response.status_code, response.get_json()["description"]) == (201, text)


def test_memory_returns_after_eight_large_bodies_at_once(database_url, unlimited):
    bodies = [body.encode()[: 2**20] for body in BODIES.values()] * 2
    requests = [post(body, f"Content-Length: {len(body)}\r\n") for body in bodies]

    def flood():
        with ThreadPoolExecutor(8) as threads:
            responses = list(threads.map(lambda request: send(server.port, request), requests))
        assert {response.status for response in responses} == {400}

    with serving(database_url, WEB_CONCURRENCY="1", WEB_THREADS="8") as server:
        worker = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()[0]
        for _ in range(10):
            get(server.port)
        before = resident(worker)
        growth = []
        for _ in range(12):
            flood()
            growth.append(resident(worker) - before)
    # The garbage collector comes after some floods, in some versions of Python later than in
    # others. What is kept for good grows with every flood.
    assert max(growth) < 64 * 2**20
    assert min(growth[6:]) < 20 * 2**20
