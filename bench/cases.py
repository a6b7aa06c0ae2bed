"""The requests of the benchmark, and the statement behind each for the floor."""

import json
from dataclasses import dataclass, field

from bench.stage import READERS, WORKSPACES, WRITERS, row_id

NEW = {
    "title": "Prepare the release notes, part #",
    "description": "What changed since the last release, in the words of those who use it",
    "priority": "high",
}


@dataclass(frozen=True, eq=False)
class Case:
    """One kind of request. ``#`` in a body is a number that is never the same."""

    name: str
    path: str
    statement: str
    method: str = "GET"
    body: dict | None = None
    # The parameters of the statement that the request does not give.
    values: dict = field(default_factory=dict)
    # CPU milliseconds a request that the service should stay below.
    target: float | None = None

    def requests(self):
        """Pairs of token and path, one for each caller."""
        users = WRITERS if self.body else READERS
        return [(f"bench-{user}", self.path.format(id=own_task(user))) for user in users]

    def text(self):
        return json.dumps(self.body) if self.body else ""


def own_task(user):
    """A task in the workspace of this user."""
    return row_id(2 * (user % WORKSPACES + WORKSPACES * (5 + user // WORKSPACES)))


FIRST = {"after_id": None, "limit": 50}
OPTIONAL = ("status", "due_date", "due_day", "assignee_id", "project_id", "parent_id")

CASES = (
    Case("list 50", "/api/tasks", "tasks/list", values=FIRST, target=1.0),
    Case("list 1", "/api/tasks?limit=1", "tasks/list", values={**FIRST, "limit": 1}, target=0.75),
    Case("get", "/api/tasks/{id}", "tasks/get"),
    Case(
        "create",
        "/api/tasks",
        "tasks/create",
        method="POST",
        body=NEW,
        values={**dict.fromkeys(OPTIONAL), "status": "todo"},
        target=0.9,
    ),
    Case(
        "patch",
        "/api/tasks/{id}",
        "tasks/update",
        method="PATCH",
        body={"title": "Another title, number #"},
        values={"versions": None},
    ),
    Case("workspaces", "/api/workspaces", "workspaces/list", target=0.75),
    Case(
        "dashboard",
        "/api/dashboard/stats",
        "dashboard/stats",
        values={"only_workspace_id": None},
    ),
)
