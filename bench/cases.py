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
    """One kind of request. ``#`` in a body is a number that is never the same."""

    name: str
    path: str
    method: str = "GET"
    body: dict | None = None
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


CASES = (
    Case("list 50", "/api/tasks", target=1.0),
    Case("list 1", "/api/tasks?limit=1", target=0.75),
    Case("get", "/api/tasks/{id}"),
    Case("create", "/api/tasks", "POST", NEW, target=0.9),
    Case("patch", "/api/tasks/{id}", "PATCH", {"title": "Another title, number #"}),
    Case("workspaces", "/api/workspaces", target=0.75),
    Case("dashboard", "/api/dashboard/stats"),
)
