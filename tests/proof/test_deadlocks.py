"""No requests wait for each other in a circle, whatever ids clients choose."""

import random
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest
from support.processes import call, serving
from support.rows import TOKENS, insert_member

pytestmark = pytest.mark.proof

# Few ids, so that requests meet. They lie close together, so that parents have subtasks with lower
# and with higher ids.
IDS = [str(UUID(int=number << 64 | 1 << 63)) for number in range(1, 9)]
CLIENTS, REQUESTS = 10, 200
# A task is missing, its id is taken, its parent is none, or its assignee has left.
EXPECTED = {200, 201, 204, 400, 404, 409}


def body_of_batch(choice, people):
    """Return a batch that creates some tasks, changes some or deletes some."""
    ids = choice.sample(IDS, 4)
    parents = [choice.choice([None, *IDS]) for _ in ids]
    assigned = [{"id": id, "assigneeId": choice.choice(people)} for id in ids]
    return choice.choice(
        [
            {"create": [{"title": "x", **item} for item in assigned]},
            {"create": [{"title": "x", "parentId": id} for id in parents]},
            {"update": assigned},
            {"update": [{"id": id, "parentId": to} for id, to in zip(ids, parents, strict=True)]},
            {"delete": [{"id": id} for id in ids[:2]]},
            {"update": [{"id": ids[0], "title": str(choice.random())}], "delete": [{"id": ids[1]}]},
        ]
    )


def write(choice, cast):
    """Return a method, a path and a body: a write of tasks, or of the members they name."""
    member = f"/api/workspaces/{cast['acme']}/members"
    # Alice removes Charlie, and so locks the membership of an owner.
    people = [None, *map(cast.get, ("alice", "bob", "charlie"))]
    id, assignee = choice.choice(IDS), choice.choice(people)
    return choice.choice(
        [
            ("POST", "/api/tasks/batch", body_of_batch(choice, people)),
            ("POST", "/api/tasks/batch", body_of_batch(choice, people)),
            ("POST", "/api/tasks", {"id": id, "title": "x", "assigneeId": assignee}),
            ("POST", "/api/tasks", {"title": "x", "parentId": id}),
            ("PATCH", f"/api/tasks/{id}", {"parentId": choice.choice([None, *IDS])}),
            ("PATCH", f"/api/tasks/{id}", {"assigneeId": assignee}),
            ("DELETE", f"/api/tasks/{id}", None),
            ("DELETE", f"{member}/{cast['charlie']}", None),
            ("POST", member, {"email": "charlie@example.com"}),
        ]
    )


def write_of_family(choice, _):
    """Return a method, a path and a body: a write of a parent, of a subtask or of both."""
    first, second = choice.sample(IDS[:5], 2)
    both, title = [{"id": first}, {"id": second}], str(choice.random())
    return choice.choice(
        [
            ("POST", "/api/tasks/batch", {"update": [{**item, "title": title} for item in both]}),
            ("POST", "/api/tasks/batch", {"delete": both}),
            ("POST", "/api/tasks", {"id": first, "title": title}),
            ("POST", "/api/tasks", {"id": first, "title": title, "parentId": second}),
            ("PATCH", f"/api/tasks/{first}", {"parentId": choice.choice([None, second])}),
            ("DELETE", f"/api/tasks/{first}", None),
        ]
    )


def storm(port, seed, cast, writes):
    """Send requests by chance; return the unexpected statuses and how often each status came."""
    choice = random.Random(seed)
    sender = choice.choice(["alice", "bob"])
    unexpected, counts = [], {}
    for _ in range(REQUESTS):
        method, path, body = writes(choice, cast)
        # Bob may not change the members.
        token = TOKENS["alice" if "/members" in path else sender]
        status, answer = call(port, method, path, token, body)
        counts[status] = counts.get(status, 0) + 1
        if status not in EXPECTED:
            unexpected.append((method, path, status, answer))
    return unexpected, counts


@pytest.mark.parametrize("writes", [write, write_of_family])
def test_a_storm_of_writes_of_the_same_rows_makes_no_deadlock(
    database_url, connection, cast, unlimited, writes
):
    insert_member(connection, cast["acme"], cast["charlie"])

    def deadlocks():
        connection.execute("SELECT pg_stat_clear_snapshot()")
        query = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        return connection.execute(query).fetchone()["deadlocks"]

    before = deadlocks()
    with serving(database_url) as server, ThreadPoolExecutor(CLIENTS) as threads:
        ran = [threads.submit(storm, server.port, seed, cast, writes) for seed in range(CLIENTS)]
        results = [each.result() for each in ran]
    assert [problem for unexpected, _ in results for problem in unexpected][:5] == []
    assert deadlocks() == before
    subtasks = "SELECT workspace_id, id FROM tasks WHERE parent_id IS NOT NULL"
    below = f"SELECT FROM tasks WHERE (workspace_id, parent_id) IN ({subtasks})"
    assert connection.execute(below).fetchall() == []
    # The storm has done something.
    assert {200, 201, 204} <= {status for _, counts in results for status in counts}
