"""No writes wait for each other in a circle, whatever ids clients choose and operators do."""

import json
import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from uuid import UUID

import psycopg
import pytest
from psycopg.rows import dict_row
from support.processes import call, serving
from support.receivers import subscribe
from support.rows import TOKENS, activate, insert, insert_member
from support.statements import run

pytestmark = pytest.mark.proof

# Few ids, so that requests meet. They lie close together, so that parents have subtasks with lower
# and with higher ids.
IDS = [str(UUID(int=number << 64 | 1 << 63)) for number in range(1, 9)]
CLIENTS, REQUESTS = 10, 200
# A task is missing, its id is taken, its parent is none, its assignee has left; the sender is
# deactivated or no owner; the feed has just ended; Dora has no workspace, and so the limits of
# Starter.
EXPECTED = {200, 201, 204, 400, 401, 403, 404, 409, 410, 429}
TIMES = {"startTime": "2026-11-20T11:00:00Z", "endTime": "2026-11-20T12:00:00Z"}


def body_of_batch(choice, people):
    """Return a batch that creates some tasks, changes some or deletes some."""
    ids = choice.sample(IDS, 4)
    parents = [choice.choice([None, *IDS]) for _ in ids]
    assigned = [{"id": id, "assigneeId": choice.choice(people)} for id in ids]
    return choice.choice(
        [
            {"create": [{"title": "x", **item} for item in assigned]},
            {"create": [{"title": "x", "parentId": id} for id in parents]},
            {"create": [{"title": "x", "id": ids[0]}], "update": assigned[1:]},
            {"update": assigned},
            {"update": [{"id": id, "parentId": to} for id, to in zip(ids, parents, strict=True)]},
            {"delete": [{"id": id} for id in ids[:2]]},
            {"update": [{"id": ids[0], "title": str(choice.random())}], "delete": [{"id": ids[1]}]},
        ]
    )


def write(choice, cast):
    """Return a method, a path and a body: a write of any kind."""
    workspace = f"/api/workspaces/{cast['acme']}"
    # Alice removes Charlie, and so ends the membership of an owner.
    people = [None, *map(cast.get, ("alice", "bob", "charlie"))]
    id, parent, assignee = choice.choice(IDS), choice.choice(IDS), choice.choice(people)
    title = str(choice.random())
    meeting = {"title": title, "platform": "zoom", **TIMES}
    return choice.choice(
        [
            ("POST", "/api/tasks/batch", body_of_batch(choice, people)),
            ("POST", "/api/tasks/batch", body_of_batch(choice, people)),
            ("POST", "/api/tasks/batch?dryRun=true", body_of_batch(choice, people)),
            ("POST", "/api/tasks", {"id": id, "title": title, "assigneeId": assignee}),
            ("POST", "/api/tasks", {"id": id, "title": title, "parentId": parent}),
            ("POST", "/api/tasks", {"title": title, "parentId": id}),
            ("PATCH", f"/api/tasks/{id}", {"parentId": choice.choice([None, *IDS])}),
            ("PATCH", f"/api/tasks/{id}", {"assigneeId": assignee, "title": title}),
            ("DELETE", f"/api/tasks/{id}", None),
            ("POST", "/api/meetings", {**meeting, "id": id}),
            ("PATCH", f"/api/meetings/{id}", {"title": title}),
            ("DELETE", f"/api/meetings/{id}", None),
            ("PATCH", workspace, {"name": title}),
            ("DELETE", f"{workspace}/members/{cast['charlie']}", None),
            ("PATCH", f"{workspace}/members/{cast['bob']}", {"role": "admin"}),
            ("POST", f"{workspace}/members", {"email": "charlie@example.com"}),
            ("PATCH", f"/api/webhooks/{cast['webhook']}", {"enabled": choice.random() < 0.5}),
            ("PATCH", "/api/me", {"name": title}),
            ("GET", "/api/events", None),
        ]
    )


def storm(port, seed, cast):
    """Send requests by chance; return the unexpected statuses and how often each status came."""
    choice = random.Random(seed)
    unexpected, counts = [], {}
    for _ in range(REQUESTS):
        method, path, body = write(choice, cast)
        sender = "alice" if "/members" in path else choice.choice(["alice", "bob", "dora"])
        status, answer = call(port, method, path, TOKENS.get(sender, "tmw_api_dora"), body)
        counts[status] = counts.get(status, 0) + 1
        # A feed may end while its first reader waits.
        if status not in EXPECTED and (path, status) != ("/api/events", 503):
            unexpected.append((method, path, status, answer))
    return unexpected, counts


def operate(url, cast, stormed):
    """Do what commands do until the storm has ended; return the unexpected errors."""
    choice, errors, rounds = random.Random(1), [], 0
    task = {"workspace_id": cast["acme"], "created_by": cast["alice"], "version": 1, "title": "x"}
    task |= {"status": "todo", "priority": "low"}
    with psycopg.connect(url, autocommit=True, row_factory=dict_row) as connection:
        while not all(each.done() for each in stormed):
            rounds += 1
            try:
                bob = {"email": "bob@example.com"}
                (row,) = run(connection, "users/deactivate", **bob)
                if row["since"]:
                    run(connection, "users/finish_deactivation", **row)
                run(connection, "users/reactivate", **bob)
                with suppress(psycopg.errors.UniqueViolation), connection.transaction():
                    run(connection, "load/begin")
                    rows = json.dumps([{**task, "id": choice.choice(IDS)}, task])
                    run(connection, "load/task", rows=rows)
                    suggestion = {"workspace_id": cast["acme"], "kind": "task", "title": "x"}
                    rows = json.dumps([{**suggestion, "body": "x", "status": "pending"}])
                    run(connection, "load/suggestion", rows=rows)
                # The next reader is the first one again.
                connection.execute("UPDATE feeds SET read_at = NULL, ready = false")
                other = insert(connection, "workspaces", name="Old", slug=f"old-{rounds}")
                insert_member(connection, other, cast["alice"], "owner")
                insert_member(connection, other, cast["bob"])
                run(connection, "workspaces/end_memberships", id=other)
                while run(connection, "workspaces/delete_rows", id=other)[0]["deleted"]:
                    pass
                run(connection, "workspaces/delete", id=other)
            except psycopg.Error as error:
                errors.append(f"{type(error).__name__}: {error}")
    return errors


def test_a_storm_of_all_writes_and_commands_on_the_same_rows_makes_no_deadlock(
    database_url, connection, cast, unlimited
):
    """Dora's workspace is deleted while she writes in it."""
    insert_member(connection, cast["acme"], cast["charlie"])
    dora = insert(connection, "users", name="Dora", email="dora@example.com")
    doomed = insert(connection, "workspaces", name="Doomed", slug="doomed", plan="Unlimited")
    for user in (dora, cast["bob"]):
        insert_member(connection, doomed, user, "owner")
    activate(connection, doomed, dora)
    connection.execute(
        "INSERT INTO tokens (user_id, kind, hash) VALUES (%s, 'api', sha256('tmw_api_dora'))",
        (dora,),
    )
    cast = {**cast, "webhook": subscribe(connection, cast["acme"], "https://hooks.example.com/")}
    subscribe(connection, doomed, "https://hooks.example.com/")

    def deadlocks():
        connection.execute("SELECT pg_stat_clear_snapshot()")
        query = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        return connection.execute(query).fetchone()["deadlocks"]

    before = deadlocks()
    # On a busy machine, a request may wait for many others.
    with (
        serving(database_url, STATEMENT_TIMEOUT="60") as server,
        ThreadPoolExecutor(CLIENTS + 2) as threads,
    ):
        ran = [threads.submit(storm, server.port, seed, cast) for seed in range(CLIENTS)]
        operated = threads.submit(operate, database_url, cast, ran)
        ran[0].result()
        run(connection, "workspaces/end_memberships", id=doomed)
        run(connection, "workspaces/delete", id=doomed)
        results = [each.result() for each in ran]
        assert operated.result() == []
    assert [problem for unexpected, _ in results for problem in unexpected][:5] == []
    assert deadlocks() == before
    subtasks = "SELECT workspace_id, id FROM tasks WHERE parent_id IS NOT NULL"
    below = f"SELECT FROM tasks WHERE (workspace_id, parent_id) IN ({subtasks})"
    assert connection.execute(below).fetchall() == []
    # The storm has done something.
    assert {200, 201, 204} <= {status for _, counts in results for status in counts}
