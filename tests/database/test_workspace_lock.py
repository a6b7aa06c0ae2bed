"""Every write in a workspace takes its lock first, and then reads what must be true.

sql/functions/workspaces.sql has the rule.
"""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial

import psycopg
import pytest
from click.testing import CliRunner
from support.derived import views
from support.http import Client, error_message
from support.processes import wait_until
from support.receivers import announce, deliveries, subscribe
from support.rows import TOKENS, activate, count, insert, insert_member, insert_token
from support.statements import NAMES, numbered, run, trigger, until_waiting, waiting

from service.__main__ import main

KEY = "k" * 48
LOW, NEW = (f"0000000{number}-0000-7000-8000-000000000000" for number in (1, 2))
MEETING = {
    "title": "x",
    "platform": "teams",
    "startTime": "2026-11-20T11:00:00Z",
    "endTime": "2026-11-20T12:00:00Z",
}
ACME = "/workspaces/{acme}"
MEMBER = f"{ACME}/members/{{bob}}"
WEBHOOK = "/webhooks/{webhook}"

# Each write: how it takes the lock of its workspace, and a request. None: it takes no lock.
SHARED, ALONE = True, False
WRITES = {
    "POST /api/tasks": (SHARED, "/tasks", {"title": "x"}),
    "PATCH /api/tasks/<id:id>": (SHARED, f"/tasks/{LOW}", {"title": "y"}),
    "PATCH /api/tasks/<id:id> with a parent": (ALONE, f"/tasks/{LOW}", {"parentId": None}),
    "DELETE /api/tasks/<id:id>": (ALONE, f"/tasks/{LOW}", None),
    "POST /api/tasks/batch": (
        SHARED,
        "/tasks/batch",
        {"create": [{"title": "x"}], "update": [{"id": LOW, "title": "y"}]},
    ),
    "POST /api/tasks/batch with a parent": (
        ALONE,
        "/tasks/batch",
        {"update": [{"id": LOW, "parentId": None}]},
    ),
    "POST /api/tasks/batch with a deletion": (ALONE, "/tasks/batch", {"delete": [{"id": LOW}]}),
    "POST /api/meetings": (SHARED, "/meetings", MEETING),
    "PATCH /api/meetings/<id:id>": (SHARED, f"/meetings/{LOW}", {"title": "y"}),
    "DELETE /api/meetings/<id:id>": (ALONE, f"/meetings/{LOW}", None),
    "PATCH /api/workspaces/<id:id>": (SHARED, ACME, {"name": "y"}),
    "POST /api/workspaces/<id:id>/members": (
        ALONE,
        f"{ACME}/members",
        {"email": "new@example.com"},
    ),
    "PATCH /api/workspaces/<id:id>/members/<id:member>": (ALONE, MEMBER, {"role": "admin"}),
    "DELETE /api/workspaces/<id:id>/members/<id:member>": (ALONE, MEMBER, None),
    "POST /api/webhooks": (ALONE, "/webhooks", {"url": "https://93.184.216.34/"}),
    "PATCH /api/webhooks/<id:id>": (ALONE, WEBHOOK, {"enabled": False}),
    "DELETE /api/webhooks/<id:id>": (ALONE, WEBHOOK, None),
    "POST /api/webhooks/<id:id>/rotate": (ALONE, f"{WEBHOOK}/rotate", None),
    "POST /api/webhooks/<id:id>/deliveries/<id:delivery>/redeliver": (
        ALONE,
        f"{WEBHOOK}/deliveries/{{delivery}}/redeliver",
        None,
    ),
    "GET /api/events": (ALONE, "/events", None),
}
# These change what belongs to a user, or nothing.
WITHOUT_LOCK = {
    "POST /api/webhooks/<id:id>/ping",
    "PATCH /api/me",
    "POST /api/tokens",
    "DELETE /api/tokens/<id:id>",
    "DELETE /api/session",
}
# The writes that check the role in their own statement, and so after each wait.
BY_ROLE = [name for name in WRITES if "/workspaces" in name or "/webhooks" in name]


def test_the_table_of_writes_has_every_operation_that_writes():
    known = {" ".join(name.split()[:2]) for name in WRITES} | WITHOUT_LOCK
    assert {view.name for view in views() if view.method != "GET"} == known - {"GET /api/events"}


@pytest.fixture
def client(build):
    """Return a client of Alice whose requests may wait for locks for a quarter of a minute."""
    return Client(build(statement_timeout=60, webhook_key=KEY), TOKENS["alice"])


@pytest.fixture
def threads():
    with ThreadPoolExecutor(4) as threads:
        yield threads


@pytest.fixture
def others(database_url, threads):
    """Yield a function that opens another connection, in a transaction.

    They are closed before the threads end, whose requests may wait for them.
    """
    with ExitStack() as stack:
        yield lambda: stack.enter_context(psycopg.connect(database_url))


@pytest.fixture
def ids(connection, cast):
    """Insert the objects that the table of writes names, and return the ids in its paths."""
    author = {"workspace_id": cast["acme"], "id": LOW, "title": "x", "created_by": cast["alice"]}
    insert(connection, "tasks", **author)
    times = {"start_time": MEETING["startTime"], "end_time": MEETING["endTime"]}
    insert(connection, "meetings", **author, **times, platform="teams")
    webhook = subscribe(connection, cast["acme"], "https://hooks.example.com/")
    announce(connection, cast["acme"])
    return {**cast, "webhook": webhook, "delivery": deliveries(connection)[0]["id"]}


@pytest.fixture
def send(client, ids):
    """Return a function that sends a request of the table of writes."""

    def send(name, sender=client, **options):
        _, path, body = WRITES[name]
        return sender.send(name.split()[0], path.format(**ids), json=body, **options)

    return send


@contextmanager
def held(other, workspace_id, shared=False):
    """Hold the lock of a workspace in the transaction of another connection."""
    function = "share_workspace" if shared else "lock_workspace"
    other.execute(f"SELECT {function}(%s)", (workspace_id,))
    try:
        yield
    finally:
        other.rollback()


@pytest.mark.parametrize("name", WRITES)
def test_a_write_waits_for_a_workspace_that_another_has_alone_and_a_sharer_for_no_sharer(
    connection, cast, others, threads, ids, send, name
):
    if name == "GET /api/events":
        connection.execute("UPDATE feeds SET read_at = NULL")
    shares = WRITES[name][0]
    with held(others(), cast["globex"]), held(others(), cast["acme"], shared=True):
        running = threads.submit(send, name)
        if shares:
            assert running.result(20).status_code < 300
        else:
            until_waiting(connection, running)
    assert running.result(20).status_code < 300
    if shares:
        with held(others(), cast["acme"]):
            running = threads.submit(send, name)
            until_waiting(connection, running)
        assert running.result(20).status_code < 300


@pytest.mark.parametrize("name", WRITES)
def test_a_request_waits_for_a_lock_for_a_quarter_of_the_time_of_a_statement_and_changes_nothing(
    build, connection, cast, others, ids, send, name
):
    if name == "GET /api/events":
        connection.execute("UPDATE feeds SET read_at = NULL")
    app = build(statement_timeout=2, webhook_key=KEY)
    client = Client(app, TOKENS["alice"])
    with held(others(), cast["acme"]):
        response = send(name, client)
    assert "took too long" in error_message(response, 503)
    assert response.headers["Retry-After"] == "1"
    assert count(connection, "tasks") == 1
    with app.extensions["pool"].connection() as pooled:
        assert pooled.execute("SHOW lock_timeout").fetchone() == ("500ms",)


PLACE = "https://acme.example.com/"
READ = "GET /api/events"


@pytest.mark.parametrize("waits", [False, True], ids=["at_once", "after_waiting"])
@pytest.mark.parametrize("name", WRITES)
def test_a_frozen_workspace_refuses_each_write_and_says_where_it_moves_until_it_is_thawed(
    connection, cast, others, threads, command, ids, send, name, waits
):
    if name == READ:
        connection.execute("UPDATE feeds SET read_at = NULL")

    def rows():
        tables = "tasks", "meetings", "members", "webhooks", "events"
        query = "SELECT to_jsonb(x) AS row FROM {0} AS x ORDER BY row"
        return [connection.execute(query.format(table)).fetchall() for table in tables]

    if waits:
        # The request waits behind the command.
        with held(others(), cast["acme"]):
            freezing = threads.submit(command, "workspace", "freeze", "acme", "--to", PLACE)
            until_waiting(connection, freezing)
            running = threads.submit(send, name)
            until_waiting(connection, running, 2)
            before = rows()
        response = running.result(20)
    else:
        command("workspace", "freeze", "acme", "--to", PLACE)
        before = rows()
        response = send(name)
    if name == READ:
        assert response.status_code == 200
        return
    assert f"is being moved to {PLACE}," in error_message(response, 503)
    assert response.headers["Retry-After"] == "5"
    assert rows() == before
    command("workspace", "unfreeze", "acme")
    assert send(name).status_code < 300


def test_a_freeze_waits_for_the_writes_that_run_and_leaves_other_workspaces_alone(
    connection, cast, others, threads, command, client, charlie
):
    with held(others(), cast["acme"], shared=True):
        freezing = threads.submit(command, "workspace", "freeze", "acme")
        until_waiting(connection, freezing)
    assert freezing.result(20) == f"{cast['acme']}\n"
    message = error_message(client.post("/tasks", {"title": "x"}), 503)
    assert message.startswith("The workspace is being moved, so")
    assert client.get("/tasks").status_code == 200
    assert charlie.post("/tasks", {"title": "x"}).status_code == 201


def test_a_frozen_workspace_repeats_the_responses_of_earlier_writes(client, cast, command):
    options = {"headers": {"Idempotency-Key": "k"}}
    first = client.post("/tasks", {"title": "x"}, **options)
    command("workspace", "freeze", "acme")
    again = client.post("/tasks", {"title": "x"}, **options)
    assert (again.status_code, again.get_json()) == (201, first.get_json())
    later = {"headers": {"Idempotency-Key": "later"}}
    error_message(client.post("/tasks", {"title": "y"}, **later), 503)
    command("workspace", "unfreeze", "acme")
    assert client.post("/tasks", {"title": "y"}, **later).status_code == 201


def test_every_request_in_a_workspace_that_has_moved_gets_404_with_the_place_except_the_ways_out(
    client, cast, command, ids
):
    command("workspace", "freeze", "acme", "--moved", "--to", PLACE)
    for view in views():
        path = re.sub("<id:[a-z]+>", LOW, view.rule).removeprefix("/api")
        response = client.send(view.method, path, json={})
        text = f"The workspace has moved to {PLACE}; its members need new tokens there"
        if view.operation.ignores_workspace_header or view.rule == "/api/session":
            assert text not in response.text
        else:
            assert error_message(response, 404) == text
    assert client.get("/me").status_code == 200


def test_commands_write_in_a_frozen_workspace_and_can_delete_it(cast, command, connection):
    command("workspace", "freeze", "acme", "--moved")
    command("member", "add", "acme", "charlie@example.com")
    line = json.dumps({"type": "task", "workspace": "acme", "title": "x"})
    assert CliRunner().invoke(main, ["load", "-"], input=line).exit_code == 0
    command("workspace", "delete", "acme", "--yes")
    assert count(connection, "workspaces", "slug = 'acme'") == 0


def test_writes_that_have_waited_for_a_workspace_share_it_afterwards(
    connection, cast, others, threads, client, ids, send
):
    other = others()
    other.execute("SELECT FROM tasks FOR UPDATE")
    with held(others(), cast["acme"]):
        change = threads.submit(send, "PATCH /api/tasks/<id:id>")
        until_waiting(connection, change)
        create = threads.submit(client.post, "/tasks", {"title": "x"})
        until_waiting(connection, create, 2)
    assert create.result(20).status_code == 201
    assert not change.done()
    other.rollback()
    assert change.result(20).status_code == 200


def test_a_write_that_wants_the_workspace_alone_is_not_passed_by_new_sharers(
    connection, cast, others, threads, ids, client, send
):
    """With the lock of a row, overlapping sharers could keep a member from ever being removed."""
    with held(others(), cast["acme"], shared=True):
        removal = threads.submit(send, "DELETE /api/workspaces/<id:id>/members/<id:member>")
        until_waiting(connection, removal)
        create = threads.submit(client.post, "/tasks", {"title": "x", "assigneeId": cast["bob"]})
        until_waiting(connection, create, 2)
        assert not removal.done()
    assert removal.result(20).status_code == 204
    assert error_message(create.result(20), 400).startswith("assigneeId")


def ended(connection, ids, how):
    """End what entitles Alice to write in Acme."""
    statements = {
        "membership": "DELETE FROM members WHERE user_id = %(alice)s",
        "token": "UPDATE tokens SET revoked_at = now() WHERE user_id = %(alice)s",
        "user": "UPDATE users SET deactivated_at = now_ms() WHERE id = %(alice)s",
        "role": "UPDATE members SET role = 'member' WHERE user_id = %(alice)s",
    }
    connection.execute(statements[how], ids)


def rows(connection):
    """Return what the writes of the table can change."""
    tables = "tasks", "meetings", "workspaces", "webhooks", "deliveries", "idempotency_keys"
    return {
        table: connection.execute(f"SELECT {table}::text AS row FROM {table} ORDER BY 1").fetchall()
        for table in tables
    }


@pytest.mark.parametrize(
    ("name", "how"),
    [
        (name, how)
        for name in WRITES
        for how in ("membership", "token", "user", *(["role"] if name in BY_ROLE else []))
    ],
)
def test_what_ended_while_a_write_waited_for_its_workspace_has_ended_when_it_writes(
    connection, cast, others, threads, ids, send, name, how
):
    insert_member(connection, cast["acme"], cast["charlie"], "owner")
    if name == "GET /api/events":
        connection.execute("UPDATE feeds SET read_at = NULL")
    with held(others(), cast["acme"]):
        running = threads.submit(send, name, headers={"Idempotency-Key": "k"})
        # The first statement of the process can wait for a table that the test before has emptied.
        until_waiting(connection, running, locks=["advisory"])
        ended(connection, ids, how)
        before = rows(connection)
    assert running.result(20).status_code == (403 if how == "role" else 404)
    assert rows(connection) == before
    assert connection.execute("SELECT FROM users WHERE email = 'new@example.com'").fetchall() == []


@pytest.mark.parametrize(
    "name", [name for name in BY_ROLE if "members" not in name and name != "POST /api/webhooks"]
)
def test_a_role_that_ended_while_a_write_waited_for_the_row_has_ended_when_it_writes(
    connection, cast, others, threads, ids, send, name
):
    """An older release, or a worker that records an outcome, locks only the row."""
    other, table = others(), "webhooks" if "webhooks" in name else "workspaces"
    other.execute(f"SELECT FROM {table} FOR UPDATE")
    running = threads.submit(send, name)
    until_waiting(connection, running)
    ended(connection, ids, "role")
    before = rows(connection)
    other.rollback()
    error_message(running.result(20), 403)
    assert rows(connection) == before


def test_a_request_that_waited_for_its_key_stores_nothing_for_somebody_who_has_left(
    connection, cast, others, threads, client
):
    other, key = others(), {"Idempotency-Key": "k"}
    caller = {"workspace_id": cast["acme"], "user_id": cast["alice"], "key": "k"}
    run(other, "idempotency/begin", **caller, fingerprint=b"")
    running = threads.submit(client.post, "/tasks", {"title": "x"}, headers=key)
    until_waiting(connection, running)
    connection.execute("DELETE FROM members WHERE user_id = %s", (cast["alice"],))
    other.rollback()
    assert error_message(running.result(20), 404) == "Workspace not found"
    assert (count(connection, "tasks"), count(connection, "idempotency_keys")) == (0, 0)


def test_a_request_by_which_its_sender_leaves_succeeds_with_a_key_which_is_not_kept(
    build, connection, cast
):
    bob = Client(build(), TOKENS["bob"])
    path = MEMBER.format(**cast)
    assert bob.delete(path, headers={"Idempotency-Key": "k"}).status_code == 204
    assert count(connection, "idempotency_keys") == 0


def test_the_deletion_of_a_user_does_not_wait_for_a_request_that_renews_an_expired_key(
    build, connection, others, threads, plain_url, monkeypatch, deadlocks
):
    """The request holds the row of its key, and waits for the user."""
    monkeypatch.setenv("DATABASE_URL", plain_url)
    bob = Client(build(statement_timeout=60), TOKENS["bob"])
    rename = partial(bob.patch, "/me", {"name": "Rob"}, headers={"Idempotency-Key": "k"})
    assert rename().status_code == 200
    connection.execute("UPDATE idempotency_keys SET created_at = now() - interval '25 hours'")
    lock = "SELECT pg_advisory_xact_lock(1)"
    other = others()
    other.execute(lock)
    with trigger(connection, "BEFORE DELETE ON users", f"PERFORM ({lock}); RETURN OLD;"):
        command = ["user", "delete", "bob@example.com", "--yes"]
        deletion = threads.submit(lambda: CliRunner().invoke(main, command))
        until_waiting(connection, deletion)
        renaming = threads.submit(rename)
        until_waiting(connection, renaming, 2)
        other.rollback()
        assert deletion.result(20).exit_code == 0
        # The user is gone; 409 would be a deadlock.
        assert renaming.result(20).status_code in (400, 404)
    assert deadlocks() == 0


# Each way to create an object with a chosen id, as a function of the client.
def loaded(kind):
    def load(_):
        line = {"type": kind, "workspace": "acme", "id": NEW, "title": "first"}
        if kind == "meeting":
            line |= {name: MEETING[name] for name in ("platform", "startTime", "endTime")}
        result = CliRunner().invoke(main, ["load", "-"], input=json.dumps(line))
        return 201 if result.exit_code == 0 else 409

    return load


def posted(path, body):
    return lambda client: client.post(path, body).status_code


WAYS = {
    "POST /tasks": ("tasks", posted("/tasks", {"id": NEW, "title": "first"})),
    "POST /meetings": ("meetings", posted("/meetings", {**MEETING, "id": NEW, "title": "first"})),
    "batch": ("tasks", posted("/tasks/batch", {"create": [{"id": NEW, "title": "first"}]})),
    "load task": ("tasks", loaded("task")),
    "load meeting": ("meetings", loaded("meeting")),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("event", ["BEFORE INSERT", "AFTER INSERT"])
def test_no_id_and_version_name_two_states_however_long_a_new_object_waits(
    connection, plain_url, monkeypatch, others, threads, client, way, event
):
    """While the creation waits, others make, change and delete an object with its id."""
    monkeypatch.setenv("DATABASE_URL", plain_url)
    table, create = WAYS[way]
    lock = "SELECT pg_advisory_xact_lock(1)"
    other, states = others(), set()
    other.execute(lock)
    first = {"title": "second"} if table == "tasks" else {**MEETING, "title": "second"}

    def others_write():
        for method, path, body in (
            ("POST", f"/{table}", {**first, "id": NEW}),
            ("PATCH", f"/{table}/{NEW}", {"title": "third"}),
            ("DELETE", f"/{table}/{NEW}", None),
        ):
            response = client.send(method, path, json=body)
            if response.status_code in (200, 201):
                task = response.get_json()
                states.add((task["version"], task["title"]))
        return True

    wait = f"IF NEW.title = 'first' THEN PERFORM ({lock}); END IF; RETURN NEW;"
    with trigger(connection, f"{event} ON {table}", wait):
        running = threads.submit(create, client)
        until_waiting(connection, running)
        meanwhile = threads.submit(others_write)
        # They have ended, or wait for the creation.
        wait_until(lambda: meanwhile.done() or waiting(connection) > 1)
        other.rollback()
        assert running.result(20) in (200, 201, 409)
        assert meanwhile.result(20)
    left = client.get(f"/{table}/{NEW}")
    if left.status_code == 200:
        states.add((left.get_json()["version"], left.get_json()["title"]))
    versions = [version for version, _ in states]
    assert states
    assert len(versions) == len(set(versions)), states


def test_a_post_that_holds_a_parent_and_waits_for_its_id_meets_no_batch_that_waits_for_the_parent(
    connection, cast, others, threads, client, ids, deadlocks
):
    """The batch creates the id before it changes the parent, but has locked the parent before."""
    lock = "SELECT pg_advisory_xact_lock(1)"
    other = others()
    other.execute(lock)
    batch = {"create": [{"id": NEW, "title": "slow"}], "update": [{"id": LOW, "title": "y"}]}
    wait = f"IF NEW.title = 'slow' THEN PERFORM ({lock}); END IF; RETURN NEW;"
    with trigger(connection, "AFTER INSERT ON tasks", wait):
        slow = threads.submit(client.post, "/tasks/batch", batch)
        until_waiting(connection, slow)
        body = {"id": NEW, "title": "x", "parentId": LOW}
        single = threads.submit(client.post, "/tasks", body)
        until_waiting(connection, single, 2)
        other.rollback()
        assert slow.result(20).status_code == 200
        assert error_message(single.result(20), 409).startswith("id: is taken")
    assert deadlocks() == 0


def test_at_most_one_batch_shares_the_workspace_so_a_removal_waits_for_one_only(
    connection, cast, others, threads, client, ids, send
):
    other = others()
    other.execute("SELECT FROM tasks FOR UPDATE")
    batch = {"update": [{"id": LOW, "title": "y"}]}
    batches = [threads.submit(client.post, "/tasks/batch", batch) for _ in range(2)]
    until_waiting(connection, batches[0], 2)
    removal = threads.submit(send, "DELETE /api/workspaces/<id:id>/members/<id:member>")
    until_waiting(connection, removal, 3)
    query = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 7 AND granted"
    assert connection.execute(query).fetchone()["count"] == 1
    other.rollback()
    assert [running.result(20).status_code for running in (*batches, removal)] == [200, 200, 204]


@pytest.mark.parametrize("name", [name for name in WRITES if "batch with" in name])
def test_a_batch_that_has_the_workspace_alone_locks_no_task_before_it_does(
    connection, cast, others, threads, ids, send, name
):
    """A single write that shares the workspace may need this task, and would wait for the batch."""
    with held(others(), cast["acme"], shared=True):
        running = threads.submit(send, name)
        until_waiting(connection, running)
        free = connection.execute("SELECT FROM tasks FOR UPDATE SKIP LOCKED").fetchall()
        assert len(free) == 1
    assert running.result(20).status_code == 200


def test_single_writes_run_while_a_batch_runs(connection, cast, others, threads, client, ids):
    other = others()
    other.execute("SELECT FROM tasks FOR UPDATE")
    batch = {"create": [{"title": "x"}], "update": [{"id": LOW, "title": "y"}]}
    running = threads.submit(client.post, "/tasks/batch", batch)
    until_waiting(connection, running)
    created = client.post("/tasks", {"title": "x"}).get_json()["id"]
    assert client.patch(f"/tasks/{created}", {"title": "y"}).status_code == 200
    assert not running.done()
    other.rollback()
    assert running.result(20).status_code == 200


@pytest.fixture
def command(monkeypatch, plain_url):
    """Return a function that runs a command of the service in this process."""
    monkeypatch.setenv("DATABASE_URL", plain_url)

    def command(*arguments):
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 0, result.output
        return result.output

    return command


def test_a_deactivation_ends_the_access_at_once_and_then_waits_for_running_writes(
    build, connection, cast, others, threads, command
):
    bob = Client(build(), TOKENS["bob"])
    with held(others(), cast["acme"], shared=True):
        running = threads.submit(command, "user", "deactivate", "bob@example.com")
        until_waiting(connection, running)
        error_message(bob.get("/tasks"), 401)
        since = "SELECT deactivated_at FROM users WHERE deactivated_at IS NOT NULL"
        early = connection.execute(since).fetchone()["deactivated_at"]
    assert running.result(20).strip() == cast["bob"]
    late = connection.execute(since).fetchone()["deactivated_at"]
    assert early < late
    # A user who was deactivated earlier keeps that time.
    command("user", "deactivate", "bob@example.com")
    assert connection.execute(since).fetchone()["deactivated_at"] == late


def test_tokens_are_revoked_at_once_even_if_the_user_is_locked(
    build, connection, cast, others, threads, command
):
    bob, other = Client(build(), TOKENS["bob"]), others()
    other.execute("SELECT FROM users WHERE id = %s FOR UPDATE", (cast["bob"],))
    running = threads.submit(command, "token", "revoke", "--all", "--yes", "bob@example.com")
    until_waiting(connection, running)
    error_message(bob.get("/tasks"), 401)
    other.rollback()
    running.result(20)


@pytest.mark.parametrize("path", ["/tasks", "/tasks/batch"])
def test_an_assignment_that_is_not_committed_keeps_nobody_from_signing_in_and_changing_the_name(
    build, connection, cast, others, path
):
    app = build(login_key=KEY)
    other = others()
    other.execute(
        "INSERT INTO tasks (workspace_id, title, created_by, assignee_id)"
        " VALUES (%(acme)s, 'x', %(alice)s, %(bob)s)",
        cast,
    )
    body = {"email": "bob@example.com", "name": "Rob"}
    signed_in = Client(app, KEY).post("/session", body)
    assert signed_in.status_code == 201
    assert Client(app, TOKENS["bob"]).patch("/me", {"name": "Bob"}).status_code == 200


def test_the_first_reader_of_a_feed_waits_for_writers_of_its_own_workspace_alone(
    connection, cast, others, threads, client
):
    with held(others(), cast["globex"], shared=True):
        with held(others(), cast["acme"], shared=True):
            running = threads.submit(client.get, "/events")
            until_waiting(connection, running)
        assert running.result(20).status_code == 200


def writer_of_an_older_release(other, cast):
    """Change a task as a release does that does not lock the workspace."""
    other.execute("UPDATE tasks SET title = title WHERE workspace_id = %(globex)s", cast)


def test_the_first_reader_of_a_feed_waits_for_writers_of_older_releases_that_began_before_it_only(
    client, cast, others
):
    first, later = others(), others()
    writer_of_an_older_release(first, cast)
    response = client.get("/events")
    assert "try again" in error_message(response, 503)
    assert response.headers["Retry-After"] == "1"
    # Under load another one always runs. So the reader must not wait for those that began later.
    writer_of_an_older_release(later, cast)
    error_message(client.get("/events"), 503)
    first.rollback()
    assert client.get("/events").status_code == 200


def test_the_next_first_reader_of_a_feed_that_was_pruned_waits_for_writers_that_run_then(
    connection, client, cast, others
):
    first = others()
    writer_of_an_older_release(first, cast)
    error_message(client.get("/events"), 503)
    first.rollback()
    assert client.get("/events").status_code == 200
    connection.execute("UPDATE feeds SET read_at = now() - interval '9 days'")
    run(connection, "worker/prune_feeds", keep=72)
    writer_of_an_older_release(others(), cast)
    error_message(client.get("/events"), 503)


def test_the_first_reader_of_a_feed_does_not_wait_for_load(
    build, connection, cast, client, others, threads, command
):
    """A load of tasks may take hours, and announces none of them."""
    lock = "SELECT pg_advisory_xact_lock(1)"
    other = others()
    other.execute(lock)
    wait = f"PERFORM ({lock}); RETURN NEW;"
    with trigger(connection, "BEFORE INSERT ON tasks", wait):
        line = json.dumps({"type": "task", "workspace": "acme", "title": "x"})
        running = threads.submit(lambda: CliRunner().invoke(main, ["load", "-"], input=line))
        until_waiting(connection, running)
        assert client.get("/events").status_code == 200
        other.rollback()
        assert running.result(20).exit_code == 0


def test_a_load_waits_for_no_removal_that_waits_for_a_member_whom_the_load_assigns_tasks(
    connection, cast, others, threads, command, client, deadlocks
):
    """The removal has the workspace alone. The load must not fail in the end, after hours."""
    lines = (
        {"type": "task", "workspace": "acme", "title": "x", "assigneeId": "bob@example.com"},
        {"type": "suggestion", "workspace": "acme", "kind": "k", "title": "x"},
    )
    text = "\n".join(json.dumps(line) for line in lines)
    subscribe(connection, cast["acme"], "https://hooks.example.com/")
    lock = "SELECT pg_advisory_xact_lock(1)"
    other = others()
    other.execute(lock)
    wait = f"PERFORM ({lock}); RETURN NEW;"
    with trigger(connection, "BEFORE INSERT ON suggestions", wait):
        load = threads.submit(lambda: CliRunner().invoke(main, ["load", "-"], input=text))
        until_waiting(connection, load)
        removal = threads.submit(client.delete, MEMBER.format(**cast))
        until_waiting(connection, removal, 2)
        other.rollback()
        assert load.result(20).exit_code == 0
        assert removal.result(20).status_code == 204
    assert deadlocks() == 0
    assert count(connection, "events", "type = 'ai.suggestion.created'") == 1


def test_a_task_to_which_a_load_adds_a_subtask_does_not_become_a_subtask(
    connection, cast, others, threads, client, ids
):
    top, load = client.post("/tasks", {"title": "x"}).get_json()["id"], others()
    load.execute(
        "INSERT INTO tasks (workspace_id, title, created_by, parent_id)"
        " VALUES (%(acme)s, 'x', %(alice)s, %(parent)s)",
        {**cast, "parent": LOW},
    )
    change = threads.submit(client.patch, f"/tasks/{LOW}", {"parentId": top})
    until_waiting(connection, change)
    load.commit()
    assert error_message(change.result(20), 400).startswith("parentId")


def test_the_first_reader_of_a_feed_waits_for_a_load_that_has_announced_suggestions_there(
    connection, client, charlie, others, threads, command
):
    """The load may have announced them to nobody."""
    lock = "SELECT pg_advisory_xact_lock(1)"
    other = others()
    other.execute(lock)
    lines = (
        {"type": "suggestion", "workspace": "acme", "kind": "k", "title": "x"},
        {"type": "task", "workspace": "acme", "title": "x"},
    )
    text = "\n".join(json.dumps(line) for line in lines)
    wait = f"PERFORM ({lock}); RETURN NEW;"
    with trigger(connection, "BEFORE INSERT ON tasks", wait):
        load = threads.submit(lambda: CliRunner().invoke(main, ["load", "-"], input=text))
        until_waiting(connection, load)
        response = client.get("/events")
        elsewhere = charlie.get("/events")
        other.rollback()
        assert load.result(20).exit_code == 0
    assert "try again" in error_message(response, 503)
    assert elsewhere.status_code == 200, "the load announced nothing there"
    assert client.get("/events").status_code == 200


def test_a_deleted_workspace_is_gone_from_the_first_commit_on_and_another_run_goes_on(
    connection, cast, client, database_url, command
):
    dora = insert(connection, "workspaces", name="Other", slug="other")
    insert_member(connection, dora, cast["alice"])
    parent = client.post("/tasks", {"title": "x", "assigneeId": cast["bob"]}).get_json()["id"]
    client.post("/tasks", {"title": "x", "parentId": parent})
    client.delete(f"/tasks/{client.post('/tasks', {'title': 'x'}).get_json()['id']}")
    versions = "SELECT DISTINCT version FROM tasks"
    with psycopg.connect(database_url, autocommit=True) as interrupted:
        run(interrupted, "workspaces/end_memberships", id=cast["acme"])
    assert connection.execute(versions).fetchall() == [{"version": 1}]
    assert error_message(client.get(f"/workspaces/{cast['acme']}"), 404) == "Workspace not found"
    assert "no active workspace" in error_message(client.post("/tasks", {"title": "x"}), 409)
    activate(connection, dora, cast["alice"])
    assert client.get("/tasks").get_json()["data"] == []
    command("workspace", "delete", "acme", "--yes")
    assert count(connection, "workspaces", "slug = 'acme'") == 0
    assert (count(connection, "tasks"), count(connection, "deleted_versions")) == (0, 0)


def test_the_rows_of_a_workspace_are_deleted_in_parts_of_any_size(connection, cast, ids):
    parts = "SELECT delete_rows(%s, 1) AS deleted"
    row = "INSERT INTO tasks (workspace_id, title, created_by, parent_id) VALUES (%s, 'x', %s, %s)"
    connection.execute(row, (cast["acme"], cast["alice"], LOW))
    while connection.execute(parts, (cast["acme"],)).fetchone()["deleted"]:
        pass
    assert (count(connection, "tasks"), count(connection, "meetings")) == (0, 0)


def test_the_users_of_a_workspace_that_is_being_deleted_are_locked_only_at_the_end(
    connection, cast, others, threads, ids, command
):
    """They can sign in and work in their other workspaces while the tasks lose their assignees."""
    connection.execute("UPDATE tasks SET assignee_id = %s", (cast["bob"],))
    other = others()
    other.execute("SELECT FROM tasks FOR UPDATE")
    running = threads.submit(command, "workspace", "delete", "acme", "--yes")
    until_waiting(connection, running)
    free = "SELECT FROM users WHERE id IN (%(alice)s, %(bob)s) FOR UPDATE SKIP LOCKED"
    assert len(connection.execute(free, cast).fetchall()) == 2
    other.rollback()
    running.result(20)


def test_a_user_who_joins_another_workspace_while_being_deleted_is_not_deleted(
    connection, cast, others, threads, monkeypatch, plain_url
):
    monkeypatch.setenv("DATABASE_URL", plain_url)
    command = ["user", "delete", "bob@example.com", "--yes"]
    with held(others(), cast["acme"]):
        running = threads.submit(lambda: CliRunner().invoke(main, command))
        until_waiting(connection, running)
        insert_member(connection, cast["globex"], cast["bob"])
    result = running.result(20)
    assert (result.exit_code, "try again" in result.output) == (1, True)
    assert count(connection, "members", f"user_id = '{cast['bob']}'") == 2


def test_only_members_can_lock_a_workspace(connection, cast, others, build, ids, send):
    """A stranger must neither stop the writes of a workspace nor notice them."""
    charlie = Client(build(), TOKENS["charlie"])
    with held(others(), cast["acme"]):
        for name in WRITES:
            if "{acme}" in WRITES[name][1]:
                assert send(name, charlie).status_code == 404


@pytest.mark.parametrize(
    ("webhooks", "subtasks", "status"),
    [(2, 9_999, 204), (2, 10_000, 409), (3, 9_999, 409), (3, 6_665, 204)],
)
@pytest.mark.slow
def test_a_deletion_is_refused_before_its_deliveries_would_take_too_long(
    client, connection, cast, webhooks, subtasks, status
):
    """The limits are 10 000 subtasks and 20 000 deliveries."""
    for number in range(webhooks):
        subscribe(connection, cast["acme"], f"https://hooks.example.com/{number}")
    author = {"workspace_id": cast["acme"], "title": "x", "created_by": cast["alice"]}
    parent = insert(connection, "tasks", **author)
    connection.execute(
        "INSERT INTO tasks (workspace_id, title, created_by, parent_id)"
        " SELECT %s, 's', %s, %s FROM generate_series(1, %s)",
        (cast["acme"], cast["alice"], parent, subtasks),
    )
    batch = {"delete": [{"id": parent}]}
    if status == 409:
        assert "20 000 deliveries" in error_message(client.post("/tasks/batch", batch), 409)
    response = client.delete(f"/tasks/{parent}")
    assert response.status_code == status
    deleted = 0 if status == 409 else subtasks + 1
    assert count(connection, "deliveries") == deleted * webhooks


def test_the_deliveries_of_all_tasks_that_a_batch_deletes_count_together(client, connection, cast):
    for number in range(20):
        subscribe(connection, cast["acme"], f"https://hooks.example.com/{number}")
    author = {"workspace_id": cast["acme"], "title": "x", "created_by": cast["alice"]}
    parents = [insert(connection, "tasks", **author) for _ in range(2)]
    connection.execute(
        "INSERT INTO tasks (workspace_id, title, created_by, parent_id)"
        " SELECT %s, 's', %s, unnest(%s::uuid[]) FROM generate_series(1, 500)",
        (cast["acme"], cast["alice"], parents),
    )
    batch = {"delete": [{"id": parent} for parent in parents]}
    assert "20 000 deliveries" in error_message(client.post("/tasks/batch", batch), 409)
    assert count(connection, "tasks") == 1002


def test_every_statement_that_locks_a_workspace_is_in_the_table_of_writes_or_is_a_command():
    """The functions of the schema take the lock; this finds a statement that calls none of them."""
    locking = {
        name
        for name in NAMES
        if "share_workspace(" in numbered(name)[0] or "lock_workspace(" in numbered(name)[0]
    }
    assert locking == {
        "tasks/create",
        "meetings/create",
        "load/begin",
        "workspaces/delete",
        "workspaces/freeze",
    }


def test_a_token_of_one_workspace_gets_no_response_that_is_stored_for_another_credential(
    build, connection, cast
):
    app, key = build(), {"Idempotency-Key": "k"}
    insert_token(connection, cast["alice"], "tmw_api_acme", workspace_id=cast["acme"])
    for credential, status in ((TOKENS["alice"], 201), ("tmw_api_acme", 422)):
        response = Client(app, credential).post("/tasks", {"title": "x"}, headers=key)
        assert response.status_code == status


@pytest.fixture
def deadlocks(connection):
    """Return a function that counts the deadlocks since the test began."""

    def counted():
        connection.execute("SELECT pg_stat_clear_snapshot()")
        query = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        return connection.execute(query).fetchone()["deadlocks"]

    before = counted()
    return lambda: counted() - before
