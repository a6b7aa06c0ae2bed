"""Statements that meet the open transaction of another connection."""

import json
import uuid

import psycopg
import pytest
from support.receivers import FINGERPRINT, announce, deliveries, subscribe
from support.rows import insert, insert_member, insert_token
from support.statements import (
    CREDENTIAL,
    SUCCESS,
    URL,
    claim_due,
    claim_new,
    managed,
    numbered,
    outcome_of,
    record,
    run,
)

from service.web.safe_writes import ANY_VERSION

GATE = "gate/authenticate_and_count"


def is_locked(connection, table, condition, *values):
    found = connection.execute(
        f"SELECT FROM {table} WHERE {condition} FOR UPDATE SKIP LOCKED", values
    ).fetchall()
    return not found


@pytest.fixture
def impatient(connect):
    """Return a connection on which a statement fails instead of waiting for a lock."""
    impatient = connect()
    impatient.execute("SET lock_timeout = '1ms'")
    impatient.commit()
    return impatient


# A change of a row in each table, which makes version 2 of it. WRITES has the statements that wait
# for this change and then compare the version.
CHANGES = {
    "tasks": "title = 'New'",
    "meetings": "title = 'New'",
    "workspaces": "name = 'New'",
    "webhooks": "url = 'https://new.example/'",
}
WRITES = {
    "tasks/delete": "tasks",
    "tasks/update": "tasks",
    "meetings/update": "meetings",
    "meetings/delete": "meetings",
    "workspaces/update": "workspaces",
    "webhooks/update": "webhooks",
    "webhooks/delete": "webhooks",
}


@pytest.mark.parametrize("name", WRITES)
def test_a_write_that_waited_for_another_one_compares_the_version_that_the_other_one_made(
    connection, after, cast, insert_into, name
):
    table, workspace = WRITES[name], cast["acme"]
    connection.execute("DELETE FROM workspaces WHERE id <> %s", (workspace,))
    if table == "webhooks":
        id = subscribe(connection, workspace, URL)
    else:
        id = workspace if table == "workspaces" else insert_into(table)
    changes = {"changes": "{}", "enabled": False, "reason": None, **managed(cast)}
    (row,) = after(
        f"UPDATE {table} SET {CHANGES[table]}", name, id=id, versions="{[1,1]}", **changes
    )
    assert (row["matched"], row["version"]) == (False, 2)
    new = f"SELECT FROM {table} WHERE {CHANGES[table]} AND version = 2"
    assert len(connection.execute(new).fetchall()) == 1


@pytest.fixture
def owners(connection, cast):
    """Make two owners of Acme; return their ids, the lower id first.

    In the table, the row of the lower id comes after the other row.
    """
    low = str(uuid.UUID(int=1))
    connection.execute("DELETE FROM members WHERE user_id <> %s", (cast["alice"],))
    insert(connection, "users", id=low, name="Dora", email="dora@example.com")
    insert_member(connection, cast["acme"], low, "owner")
    # In a table this small, a statement without ORDER BY would lock the rows as they are stored.
    return low, cast["alice"]


TASK = {
    **dict.fromkeys(numbered("tasks/create")[1]),
    **{"title": "x", "status": "todo", "priority": "low"},
}
LEAVING = {"members/remove": {}, "members/update": {"role": "member"}, "users/delete": {}}


def leaving(cast, name, by=None):
    """Return the parameters of a statement by which Alice leaves Acme or is no longer an owner.

    ``by`` is the id of the member who changes this; None stands for a command.
    """
    member = {"user_id": by, "id": cast["acme"], "member_id": cast["alice"]}
    return {**member, "email": "alice@example.com", **LEAVING[name]}


@pytest.mark.parametrize("name", LEAVING)
def test_a_statement_that_makes_an_owner_leave_locks_all_owners_in_the_order_of_ids(
    connection, meanwhile, cast, owners, name
):
    """Two statements that lock the owners in different orders would deadlock."""
    low, high = owners
    held = f"SELECT FROM members WHERE user_id = '{low}' FOR UPDATE"
    with meanwhile(held, name, **leaving(cast, name)):
        assert not is_locked(connection, "members", "user_id = %s", high)


@pytest.mark.parametrize("name", LEAVING)
def test_an_owner_cannot_leave_after_the_only_other_owner_has_left_meanwhile(
    connection, after, cast, owners, name
):
    low, high = owners
    gone = f"DELETE FROM members WHERE user_id = '{low}'"
    (row,) = after(gone, name, **leaving(cast, name))
    assert row.get("has_owner") is False or row["last_owner_of"] == ["acme"]
    left = connection.execute("SELECT user_id::text AS id, role FROM members").fetchall()
    assert left == [{"id": high, "role": "owner"}]


@pytest.mark.parametrize("name", ["members/remove", "members/update"])
@pytest.mark.parametrize("change", ["DELETE FROM members", "UPDATE members SET role = 'member'"])
def test_an_owner_who_has_just_left_cannot_change_the_other_owner(
    connection, after, cast, owners, name, change
):
    low, high = owners
    rows = after(f"{change} WHERE user_id = '{low}'", name, **leaving(cast, name, by=low))
    assert not any(row["permitted"] for row in rows)
    owner = "SELECT user_id::text AS id FROM members WHERE role = 'owner'"
    assert connection.execute(owner).fetchall() == [{"id": high}]


def test_the_count_of_members_is_right_when_members_join_and_leave_at_the_same_time(
    connection, connect, after, cast
):
    def count():
        select = "SELECT member_count, version FROM workspaces WHERE slug = 'acme'"
        return connection.execute(select).fetchone()

    before = count()
    other = connect()
    insert_member(other, cast["acme"], cast["charlie"])
    acme = {"user_id": None, "id": cast["acme"]}
    after(other, "members/remove", **acme, member_id=cast["bob"])
    # Changing a role does not change the number of members.
    run(connection, "members/update", **acme, member_id=cast["charlie"], role="admin")
    assert count() == {**before, "version": before["version"] + 2}


def test_deleting_a_user_locks_the_workspaces_of_the_user_in_the_order_of_ids(
    connection, meanwhile, cast
):
    """Without this order, the deletions of two users could deadlock.

    In the table, the row of the lower id comes after the other row.
    """
    low = str(uuid.UUID(int=1))
    insert(connection, "workspaces", id=low, name="Low", slug="low")
    insert_member(connection, low, cast["bob"])
    held = f"SELECT FROM workspaces WHERE id = '{low}' FOR UPDATE"
    with meanwhile(held, "users/delete", email="bob@example.com"):
        assert not is_locked(connection, "workspaces", "id = %s", cast["acme"])


@pytest.mark.parametrize("name", ["members/remove", "users/delete"])
def test_a_member_who_leaves_locks_the_assigned_tasks_in_the_order_of_ids(
    connection, meanwhile, cast, owners, monkeypatch, name
):
    """In another order, this could wait in a circle with a batch.

    In the table, the row of the lower id comes after the other row. For many tasks, PostgreSQL
    chooses a plan that reads them in the order of the table.
    """
    monkeypatch.setenv("PGOPTIONS", "-c enable_indexscan=off")
    high, low = (str(uuid.UUID(int=number)) for number in (2, 1))
    for id in (high, low):
        task = {"id": id, "title": "x", "created_by": cast["bob"], "assignee_id": cast["alice"]}
        insert(connection, "tasks", workspace_id=cast["acme"], **task)
    held = f"SELECT FROM tasks WHERE id = '{low}' FOR UPDATE"
    with meanwhile(held, name, **leaving(cast, name)):
        assert not is_locked(connection, "tasks", "id = %s", high)


def test_creating_a_session_waits_for_a_running_deactivation_and_then_creates_none(
    connect, after, cast
):
    other = connect()
    run(other, "users/deactivate", email="alice@example.com")
    session = {"user_id": cast["alice"], "hash": b"x" * 32, "expires_at": None, "days": 30}
    session |= {"name": None}
    assert after(other, "sessions/create", **session) == []


def test_a_second_rotation_waits_for_the_first_and_gives_its_secret_the_next_number(
    connection, connect, after, cast
):
    webhook = subscribe(connection, cast["acme"], URL)
    other = connect()
    run(other, "webhooks/rotate", id=webhook, key_fingerprint="b", **managed(cast))
    values = {"id": webhook, "key_fingerprint": "c", **managed(cast)}
    (row,) = after(other, "webhooks/rotate", **values)
    assert row["secret_number"] == 3
    previous = connection.execute("SELECT * FROM previous_secrets ORDER BY number").fetchall()
    assert [(row["number"], row["key_fingerprint"]) for row in previous] == [
        (1, FINGERPRINT),
        (2, "b"),
    ]


def test_a_claim_skips_a_delivery_that_another_worker_is_claiming(
    connection, connect, impatient, cast, delivery
):
    announce(connection, cast["acme"])
    other = connect()
    other.execute("SELECT FROM deliveries WHERE id = %s FOR UPDATE", (delivery["id"],))
    assert claim_new(impatient, cast, delivery) == []
    (claimed,) = claim_due(impatient)
    assert claimed["id"] != delivery["id"]
    assert claim_due(impatient) == []


def test_a_change_makes_no_event_for_a_webhook_that_is_being_deleted(connection, after, cast):
    webhook = subscribe(connection, cast["acme"], URL)
    announce(connection, cast["acme"])
    before = connection.execute("SELECT id FROM events").fetchall()
    gone = f"DELETE FROM webhooks WHERE id = '{webhook}'"
    (row,) = after(gone, "tasks/create", **{**TASK, **managed(cast)})
    assert row["event_id"] is None
    assert connection.execute("SELECT id FROM events").fetchall() == before


def test_no_task_is_created_after_the_deactivation_of_its_assignee(
    connection, connect, meanwhile, after, cast
):
    """If there were such a task, ``load`` would reject it in an export."""
    leaving = "UPDATE users SET deactivated_at = now_ms() WHERE name = 'Bob'"
    task = {**TASK, **managed(cast), "assignee_id": cast["bob"]}
    with pytest.raises(psycopg.errors.CheckViolation):
        after(leaving, "tasks/create", **task)
    connection.execute("UPDATE users SET deactivated_at = NULL")
    # The reverse: the transaction that creates the task commits while the deactivation waits for
    # it, and the task has a later time than the deactivation began with.
    new = {"workspace_id": cast["acme"], "title": "x", "created_by": cast["alice"]}
    other = connect()
    insert(other, "tasks", **new, assignee_id=cast["bob"])
    with meanwhile(other, "users/deactivate", email="bob@example.com"):
        created = "date_trunc('milliseconds', clock_timestamp())"
        other.execute(f"UPDATE tasks SET created_at = {created} WHERE assignee_id IS NOT NULL")
    newer = "SELECT FROM tasks JOIN users ON users.id = assignee_id"
    assert connection.execute(newer).fetchall()
    newer += " WHERE tasks.created_at > deactivated_at OR deactivated_at IS NULL"
    assert connection.execute(newer).fetchall() == []


def test_recording_an_outcome_locks_the_webhook_before_the_delivery(
    connection, meanwhile, delivery
):
    """Deleting a webhook locks them in this order too. In another order, the two could deadlock."""
    connection.execute("UPDATE deliveries SET attempts = 1")
    held = "SELECT FROM webhooks FOR UPDATE"
    with meanwhile(held, "webhooks/record", **outcome_of(delivery)) as rows:
        assert not is_locked(connection, "deliveries", "true")
    assert len(rows) == 1


def test_a_success_is_recorded_without_waiting_for_another_delivery_that_is_locked(
    connection, connect, impatient, cast, delivery
):
    announce(connection, cast["acme"])
    first, second = deliveries(connection)
    record(connection, first)
    connection.execute("UPDATE deliveries SET attempts = 1, due_at = now() + interval '1 hour'")
    connection.execute(
        "INSERT INTO attempts (workspace_id, delivery_id, number, milliseconds, at)"
        " SELECT workspace_id, id, 1, 1, now() - interval '1 hour' FROM deliveries"
        " WHERE id = %s",
        (second["id"],),
    )
    connection.execute("UPDATE webhooks SET failing_since = now()")
    other = connect()
    other.execute("SELECT FROM deliveries WHERE id = %s FOR UPDATE", (second["id"],))
    (row,) = record(impatient, first, **SUCCESS)
    assert row["caught_up"] == 0
    impatient.rollback()
    other.rollback()
    (row,) = record(connection, first, **SUCCESS)
    assert row["caught_up"] == 1


def test_a_worker_prunes_without_waiting_for_another_worker(
    connection, connect, impatient, delivery
):
    connection.execute("DELETE FROM deliveries")
    connection.execute("UPDATE events SET created_at = now() - interval '30 days'")
    other = connect()
    other.execute("SELECT FROM events FOR UPDATE")
    (row,) = run(impatient, "worker/prune_events", keep=72, after="")
    assert row["deleted"] == 0
    impatient.rollback()
    other.rollback()
    assert run(connection, "worker/prune_events", keep=72, after="")[0]["deleted"] == 1


def test_a_worker_does_not_wait_for_a_request_that_is_revoking_a_token(
    connection, connect, impatient, cast
):
    old = insert_token(connection, cast["bob"], "old", expires="2020-01-01T00:00Z")
    other = connect()
    other.execute("UPDATE tokens SET revoked_at = now() WHERE id = %s", (old,))
    (row,) = run(impatient, "worker/prune_tokens", after="")
    assert row["deleted"] == 0
    impatient.rollback()
    other.rollback()
    assert run(connection, "worker/prune_tokens", after="")[0]["deleted"] == 1


# The ids of tasks in Acme, in ascending order, and what a batch does with each. The last one has
# the id of a task to create, as a task has that another request is deleting.
SUBTASK, CHANGED, PARENT, DELETED, NEW = (str(uuid.UUID(int=number)) for number in range(1, 6))


@pytest.fixture
def family(connection, cast):
    """Insert these tasks; the subtask has a lower id than its parent, which the batch deletes."""
    author = {"workspace_id": cast["acme"], "title": "x", "created_by": cast["alice"]}
    for id in (NEW, DELETED, PARENT, CHANGED):
        insert(connection, "tasks", id=id, **author)
    insert(connection, "tasks", id=SUBTASK, parent_id=DELETED, **author)


def rows_of_a_batch(cast):
    """Return the rows that a batch locks, in the order of locks: each table and its condition."""
    users, workspace = sorted([cast["alice"], cast["bob"]]), cast["acme"]
    return [
        *(("users", f"id = '{user}'") for user in users),
        *(("members", f"user_id = '{user}' AND workspace_id = '{workspace}'") for user in users),
        ("workspaces", f"id = '{workspace}'"),
        *(("tasks", f"id = '{id}'") for id in (SUBTASK, CHANGED, PARENT, DELETED, NEW)),
    ]


@pytest.mark.parametrize("number", range(10))
def test_a_batch_locks_each_row_that_it_needs_in_the_order_of_locks(
    connection, meanwhile, cast, family, number
):
    """While it waits for one row, it has locked all rows before it, and no row after it."""
    rows = rows_of_a_batch(cast)
    table, condition = rows[number]
    batch = {
        "ids": [DELETED, CHANGED],
        "deleted_ids": [DELETED],
        "new_ids": [NEW],
        "parent_ids": [PARENT],
        "assignee_ids": [cast["bob"], cast["alice"]],
    }
    held = f"SELECT FROM {table} WHERE {condition} FOR UPDATE"
    with meanwhile(held, "tasks/batch_lock", **batch, **managed(cast)) as found:
        assert [is_locked(connection, *row) for row in rows] == [
            place <= number for place in range(len(rows))
        ]
    assert found == [{"missing": [], "fits": True}]


def test_two_batches_lock_the_ids_of_new_tasks_in_the_same_order(
    connection, connect, meanwhile, cast
):
    ids = [str(uuid.uuid4()) for _ in range(5)]
    names = "ids", "deleted_ids", "parent_ids", "assignee_ids"
    lists = {name: [] for name in names}
    locked = """
        SELECT objid
          FROM pg_locks
          JOIN pg_database ON pg_database.oid = database AND datname = current_database()
         WHERE locktype = 'advisory' AND granted
         ORDER BY objid
    """
    for id in ids:
        found = []
        for order in (ids, ids[::-1]):
            first = connect()
            run(first, "tasks/batch_lock", **{**lists, **managed(cast), "new_ids": [id]})
            with meanwhile(first, "tasks/batch_lock", **lists, **managed(cast), new_ids=order):
                found.append(connection.execute(locked).fetchall())
        assert found[0] == found[1]


@pytest.mark.parametrize(
    ("name", "order", "values"),
    [
        ("tasks/delete", (SUBTASK, DELETED), {"id": DELETED}),
        ("tasks/update", (CHANGED, PARENT), {"id": CHANGED, "parent": PARENT}),
        ("tasks/update", (CHANGED, PARENT), {"id": PARENT, "parent": CHANGED}),
    ],
)
def test_a_write_of_a_task_locks_tasks_in_the_order_of_their_ids(
    connection, meanwhile, cast, family, name, order, values
):
    changes = json.dumps({"parent_id": values.get("parent")})
    values = {"id": values["id"], "versions": ANY_VERSION, "changes": changes, **managed(cast)}
    for number, held in enumerate(order):
        held = f"SELECT FROM tasks WHERE id = '{held}' FOR UPDATE"
        with meanwhile(held, name, **values):
            locked = [is_locked(connection, "tasks", f"id = '{id}'") for id in order]
            assert locked == [True, number == 1]
        # The statement has committed.
        restore = "UPDATE tasks SET parent_id = NULL WHERE id IN (%s, %s) AND title = 'x'"
        if name == "tasks/update":
            connection.execute(restore, (CHANGED, PARENT))
        else:
            author = {"workspace_id": cast["acme"], "title": "x", "created_by": cast["alice"]}
            insert(connection, "tasks", id=DELETED, **author)
            insert(connection, "tasks", id=SUBTASK, parent_id=DELETED, **author)


@pytest.mark.parametrize("change", ["DELETE FROM usage", "UPDATE usage SET minute_count = 7"])
def test_a_request_counts_on_from_what_another_transaction_has_made_of_its_count(
    connection, after, change
):
    run(connection, GATE, **CREDENTIAL)
    (hit,) = after(change, GATE, **CREDENTIAL)
    assert (hit["admitted"], hit["minute_count"]) == (True, 1 if "DELETE" in change else 8)


def test_the_first_two_requests_at_the_same_time_count_as_two(connect, after):
    first = connect()
    run(first, GATE, **CREDENTIAL)
    (hit,) = after(first, GATE, **CREDENTIAL)
    assert (hit["admitted"], hit["minute_count"]) == (True, 2)
