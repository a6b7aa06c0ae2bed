"""Round trips: a request needs two statements, one for the gate and one for the view."""

import pytest
from support.database import alice_at, traced

READS = (
    "/tasks", "/tasks?limit=1&status=todo", "/tasks?assignee={alice}", "/tasks?assignee=me",
    "/tasks/{task}", "/tasks/unknown", "/me", "/meetings",
    "/meetings?upcoming=true&workspaceId={acme}",
    "/meetings/{meeting}", "/workspaces", "/workspaces/{acme}", "/workspaces/{acme}/members",
    "/dashboard/stats", "/mail", "/knowledge", "/knowledge?q=x", "/ai/suggestions",
)  # fmt: skip
TASK = {"title": "Write the report"}
TIMES = {"startTime": "2026-01-01T10:00Z", "endTime": "2026-01-01T11:00Z"}
WRITES = (
    ("POST", "/tasks", TASK),
    ("PATCH", "/tasks/{task}", {"title": "Another"}),
    ("PATCH", "/tasks/{task}", {}),
    ("DELETE", "/tasks/unknown", None),
    ("DELETE", "/tasks/{task}", None),
    ("POST", "/meetings", {"title": "Plan", **TIMES}),
    ("PATCH", "/meetings/{meeting}", {"status": "completed", "summary": "Done"}),
    ("PATCH", "/workspaces/{acme}", {"name": "Acme & Co"}),
)


@pytest.mark.parametrize("prepare", [True, False])
def test_a_request_whose_token_was_just_used_needs_two_statements_and_two_round_trips(
    build, cast, prepare
):
    app = build(web_threads=1, database_prepare=prepare)
    alice = alice_at(app)
    names = {
        **cast,
        "task": alice.post("/tasks", TASK).get_json()["id"],
        "meeting": alice.post("/meetings", {"title": "Plan", **TIMES}).get_json()["id"],
    }
    reads = [("GET", path, None) for path in READS]
    for method, path, body in (*reads, *WRITES):
        # These requests prepare the statements and record the use of the token, which is then not
        # recorded again for a minute.
        for _ in range(2):
            alice.send(method, path.format(**{**names, "task": "unknown"}), json=body)
        path = path.format(**names)
        trips = traced(app, method, path, body)
        assert (method, path, trips) == (method, path, {"statements": 2, "round trips": 2})


def test_a_request_that_fails_before_its_view_runs_only_the_statement_of_the_gate(build):
    app = build(web_threads=1)
    for _ in range(2):
        alice_at(app).get("/nothing")
    assert traced(app, "GET", "/nothing") == {"statements": 1, "round trips": 1}
    assert traced(app, "POST", "/tasks", []) == {"statements": 1, "round trips": 1}
