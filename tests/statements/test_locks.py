"""Statements while the transaction of another connection is in the way."""

import uuid

import pytest
from client import insert, insert_member
from receivers import subscribe
from statement import URL, claim_due, claim_new, managed, run


def is_locked(connection, table, condition, *values):
    """Return whether another transaction holds a lock on a row."""
    found = connection.execute(
        f"SELECT FROM {table} WHERE {condition} FOR UPDATE SKIP LOCKED", values
    ).fetchall()
    return not found


def test_a_deletion_that_waits_for_a_change_compares_the_new_version(
    connection, connect, meanwhile, cast, insert_into
):
    task = insert_into("tasks")
    other = connect()
    other.execute("UPDATE tasks SET title = 'New' WHERE id = %s", (task,))
    values = {"workspace_id": cast["acme"], "id": task, "versions": [1]}
    with meanwhile(other, "tasks/delete", **values) as rows:
        pass
    assert (rows[0]["matched"], rows[0]["version"]) == (False, 2)
    assert connection.execute("SELECT title FROM tasks").fetchall() == [{"title": "New"}]


@pytest.fixture
def owners(connection, cast):
    """Two owners of Acme; the row of the one with the lower id is the later one in its table."""
    low = str(uuid.UUID(int=1))
    connection.execute("DELETE FROM members WHERE user_id <> %s", (cast["alice"],))
    insert(connection, "users", id=low, name="Dora", email="dora@example.com")
    insert_member(connection, cast["acme"], low, "owner")
    # Without an order, PostgreSQL would read a table this small as it lies.
    return low, cast["alice"]


LEAVING = {
    "members/remove": {},
    "members/add": {"role": "member"},
    "users/delete": {},
}


@pytest.mark.parametrize("name", LEAVING)
def test_owners_who_leave_at_once_are_locked_in_the_order_of_their_ids(
    connection, connect, meanwhile, owners, name
):
    """Two statements that lock the owners in different orders would wait for each other."""
    low, high = owners
    other = connect()
    other.execute("SELECT FROM members WHERE user_id = %s FOR UPDATE", (low,))
    values = {"slug": "acme", "email": "alice@example.com", **LEAVING[name]}
    with meanwhile(other, name, **values):
        assert not is_locked(connection, "members", "user_id = %s", high)


@pytest.mark.parametrize("name", LEAVING)
def test_an_owner_who_leaves_after_the_only_other_one_has_left_stays(
    connection, connect, meanwhile, owners, name
):
    low, high = owners
    other = connect()
    other.execute("DELETE FROM members WHERE user_id = %s", (low,))
    values = {"slug": "acme", "email": "alice@example.com", **LEAVING[name]}
    with meanwhile(other, name, **values) as rows:
        pass
    (row,) = rows
    assert row.get("done") is False or row["last_owner_of"] == ["acme"]
    left = connection.execute("SELECT user_id::text AS id, role FROM members").fetchall()
    assert left == [{"id": high, "role": "owner"}]


def test_a_second_rotation_waits_for_the_first_and_makes_the_secret_after_it(
    connection, connect, meanwhile, cast
):
    webhook = subscribe(connection, cast["acme"], URL)
    other = connect()
    run(other, "webhooks/rotate", id=webhook, key_fingerprint="b", **managed(cast))
    values = {"id": webhook, "key_fingerprint": "c", **managed(cast)}
    with meanwhile(other, "webhooks/rotate", **values) as rows:
        pass
    assert rows[0]["secret_number"] == 3
    previous = connection.execute("SELECT * FROM previous_secrets ORDER BY number").fetchall()
    assert [(row["number"], row["key_fingerprint"]) for row in previous] == [(1, None), (2, "b")]


def test_a_request_does_not_wait_for_a_worker_that_claims_its_delivery(
    connection, connect, cast, delivery
):
    worker = connect()
    worker.execute("SELECT FROM deliveries FOR UPDATE")
    with connect() as request:
        request.execute("SET lock_timeout = '1ms'")
        assert claim_new(request, cast, delivery) == []


def test_a_worker_does_not_wait_for_a_request_that_claims_a_delivery(connect, delivery):
    request = connect()
    request.execute("SELECT FROM deliveries FOR UPDATE")
    with connect() as worker:
        worker.execute("SET lock_timeout = '1ms'")
        assert claim_due(worker) == []
