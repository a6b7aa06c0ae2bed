"""The requests of the benchmark."""

import json
from dataclasses import dataclass

from bench.stage import READERS, WORKSPACES, WRITERS, row_id

NEW = {
    "title": "Prepare the release notes, part #",
    "description": "What changed since the last release, in the words of those who use it",
    "priority": "high",
}


@dataclass(frozen=True, eq=False)
class Case:
    """One kind of request. Each request has a new number instead of the ``#`` in its body."""

    name: str
    path: str
    method: str = "GET"
    body: dict | None = None
    # The service should need fewer CPU milliseconds per request than this.
    target: float | None = None

    def requests(self):
        """Return pairs of token and path, one for each caller."""
        users = WRITERS if self.body else READERS
        return [(f"bench-{user}", self.path.format(id=own_task(user))) for user in users]

    def text(self):
        return json.dumps(self.body) if self.body else ""


def own_task(user):
    """Return the id of a task in this user's active workspace."""
    return row_id(2 * (user % WORKSPACES + WORKSPACES * (5 + user // WORKSPACES)))


CASES = (
    Case("list 50", "/api/tasks", target=1.0),
    Case("list 1", "/api/tasks?limit=1", target=0.75),
    Case("get", "/api/tasks/{id}"),
    Case("create", "/api/tasks", "POST", NEW, target=0.9),
    Case("batch of 100", "/api/tasks/batch", "POST", {"create": [NEW] * 100}, target=15),
    Case("patch", "/api/tasks/{id}", "PATCH", {"title": "Another title, number #"}),
    Case("workspaces", "/api/workspaces", target=0.75),
    Case("dashboard", "/api/dashboard/stats"),
)
