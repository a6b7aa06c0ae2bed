"""A test that reads what a response lacks fails with the request, the status and the message."""

import pytest
from support.http import error_message


def test_a_missing_member_header_or_body_names_the_request_the_status_and_the_message(alice):
    refused, task = alice.get("/tasks/x"), alice.post("/tasks", {"title": "New"})
    deleted = alice.delete(f"/tasks/{task.get_json()['id']}")
    for read, told in (
        (lambda: refused.get_json()["data"], "GET /api/tasks/x, 404, Task not found: no member"),
        (lambda: refused.headers["ETag"], "GET /api/tasks/x, 404, Task not found: no header ETag"),
        (lambda: task.get_json()["metadata"]["x"], "POST /api/tasks, 201: no member 'x'"),
        (deleted.get_json, f"DELETE {deleted.request.path}, 204: no JSON"),
        (lambda: error_message(deleted, 412), f"DELETE {deleted.request.path}, 204: expected 412"),
    ):
        with pytest.raises(AssertionError) as failure:
            read()
        assert str(failure.value).startswith(told)
    assert refused.get_json(silent=True).get("data") is None
