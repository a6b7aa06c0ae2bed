"""Statements that meet the open transaction of another connection."""

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

GATE = "gate/authenticate_and_count"
LOCK = "SELECT lock_workspace('{}')"


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
    changes = {"changes": "{}", "enabled": False, "reason": None, "in_workspace_id": None}
    changes |= managed(cast)
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
def test_an_owner_cannot_leave_after_the_only_other_owner_has_left_meanwhile(
    connection, after, cast, owners, name
):
    low, high = owners
    gone = f"{LOCK.format(cast['acme'])}; DELETE FROM members WHERE user_id = '{low}'"
    (row,) = after(gone, name, **leaving(cast, name))
    assert row.get("has_owner") is False or row.get("last_owner_of") == ["acme"]
    left = connection.execute("SELECT user_id::text AS id, role FROM members").fetchall()
    assert left == [{"id": high, "role": "owner"}]


@pytest.mark.parametrize("name", ["members/remove", "members/update"])
@pytest.mark.parametrize("change", ["DELETE FROM members", "UPDATE members SET role = 'member'"])
def test_an_owner_who_has_just_left_cannot_change_the_other_owner(
    connection, after, cast, owners, name, change
):
    low, high = owners
    token = insert_token(connection, low, "tmw_api_dora")
    change = f"{LOCK.format(cast['acme'])}; {change} WHERE user_id = '{low}'"
    try:
        rows = after(change, name, token_id=token, **leaving(cast, name, by=low))
    except psycopg.errors.NoDataFound:
        # Dora is no longer a member.
        rows = []
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


# What commands do with a workspace, and the parameters.
COMMANDS = {
    "workspaces/end_memberships": {},
    "workspaces/delete_rows": {},
    "workspaces/delete": {},
    "members/add": {"email": "charlie@example.com", "name": None, "role": "member"},
    "members/update": {"role": "admin"},
    "members/remove": {"user_id": None},
    "users/delete": {"email": "bob@example.com"},
    "users/finish_deactivation": {"since": "2026-01-01"},
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_waits_for_the_writes_that_share_its_workspace(connection, meanwhile, cast, name):
    id = cast["bob"] if name == "users/finish_deactivation" else cast["acme"]
    shared = f"SELECT share_workspace('{cast['acme']}')"
    with meanwhile(shared, name, id=id, member_id=cast["bob"], **COMMANDS[name]):
        assert connection.execute(
            "SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = 7 AND NOT granted"
        ).fetchall()


def test_whoever_locks_all_workspaces_of_a_user_takes_them_in_the_order_of_their_hashes(
    connection, meanwhile, cast
):
    """Without this order, the deletions of two users could deadlock."""
    # The order of their hashes is not that of their ids, nor that of the rows.
    chosen = connection.execute(
        "WITH known AS (SELECT new_id() AS id FROM generate_series(1, 20))"
        " SELECT low.id::text AS low, high.id::text AS high"
        "  FROM known AS low JOIN known AS high"
        "    ON low.id < high.id AND uuid_hash(low.id) > uuid_hash(high.id) LIMIT 1"
    ).fetchone()
    connection.execute("DELETE FROM members WHERE user_id = %s", (cast["bob"],))
    for name, id in chosen.items():
        insert(connection, "workspaces", id=id, name=name, slug=name)
        insert_member(connection, id, cast["bob"])
    free = "SELECT pg_try_advisory_xact_lock(7, uuid_hash(%s)) AS free"
    with meanwhile(LOCK.format(chosen["high"]), "users/delete", email="bob@example.com"):
        assert connection.execute(free, (chosen["low"],)).fetchone()["free"]


def test_a_user_who_is_just_joining_another_workspace_is_not_deleted(connect, after, cast):
    """The deletion has not locked that workspace, which could lose its last owner."""
    other = connect()
    insert_member(other, cast["globex"], cast["bob"])
    with pytest.raises(psycopg.errors.SerializationFailure):
        after(other, "users/delete", email="bob@example.com")


@pytest.mark.parametrize("name", ["members/remove", "workspaces/end_memberships"])
def test_the_end_of_a_membership_locks_the_user_before_the_member(
    connection, meanwhile, cast, name
):
    """PATCH /me locks them in this order too. In another order, the two could deadlock."""
    held = f"SELECT FROM users WHERE id = '{cast['bob']}' FOR UPDATE"
    member = {"id": cast["acme"], "member_id": cast["bob"], "user_id": None}
    with meanwhile(held, name, **member):
        assert not is_locked(connection, "members", "user_id = %s", cast["bob"])


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
    leaving = f"{LOCK.format(cast['acme'])}; UPDATE users SET deactivated_at = now_ms()"
    leaving += " WHERE name = 'Bob'"
    task = {**TASK, **managed(cast), "assignee_id": cast["bob"]}
    with pytest.raises(psycopg.errors.CheckViolation):
        after(leaving, "tasks/create", **task)
    connection.execute("UPDATE users SET deactivated_at = NULL")
    # The reverse: the transaction that creates the task has seen no deactivation, and commits after
    # it. The deactivation gets a later time than the task has.
    other = connect()
    run(other, "tasks/create", **task)
    (row,) = run(connection, "users/deactivate", email="bob@example.com")
    with meanwhile(other, "users/finish_deactivation", **row):
        created = "date_trunc('milliseconds', clock_timestamp())"
        other.execute(f"UPDATE tasks SET created_at = {created} WHERE assignee_id IS NOT NULL")
    newer = "SELECT FROM tasks JOIN users ON users.id = assignee_id"
    assert connection.execute(newer).fetchall()
    newer += " WHERE tasks.created_at > deactivated_at OR deactivated_at IS NULL"
    assert connection.execute(newer).fetchall() == []


def test_a_user_whose_deactivation_is_running_does_not_join(connection, connect, after, cast):
    token, other = insert_token(connection, cast["alice"], "tmw_api_new"), connect()
    run(other, "users/deactivate", email="charlie@example.com")
    member = {"email": "charlie@example.com", "name": None, "role": "member"}
    (row,) = after(other, "members/add", id=cast["acme"], token_id=token, **member)
    assert (row["permitted"], row["can_join"], row["body"]) == (True, False, None)


def test_a_user_who_is_reactivated_while_a_deactivation_waits_stays_active(connection, after, cast):
    (row,) = run(connection, "users/deactivate", email="bob@example.com")
    reactivation = (
        f"SELECT share_workspace('{cast['acme']}'); UPDATE users SET deactivated_at = NULL"
    )
    after(reactivation, "users/finish_deactivation", **row)
    assert connection.execute("SELECT FROM users WHERE deactivated_at IS NOT NULL").fetchall() == []


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
