"""Single statements at the moments that a request or a worker rarely meets.

Another transaction is in the way, two come at once, an order decides, or the clock stands at an
edge. Each test runs the statement itself, because only the statement can be held at that moment.
"""

import json
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from zoneinfo import ZoneInfo

import psycopg
import pytest
from client import TOKENS, insert, insert_member, waiting
from psycopg.rows import dict_row
from receivers import announce, attempts, deliveries, subscribe, webhook_row

import task_service_double  # noqa: F401  The clock: statements of the double.
from service.statements import STATEMENTS

URL = "https://example.com/hook"
# No id is larger.
LAST = "ffffffff-ffff-ffff-ffff-ffffffffffff"
# What the gate takes of a request of Alice.
CREDENTIAL = {"hash": sha256(TOKENS["alice"].encode()).digest(), "kind": "api", "address": "x"}
NIL = "00000000-0000-0000-0000-000000000000"


def run(connection, name, /, **values):
    """Run a statement and return its rows."""
    cursor = connection.execute(STATEMENTS[name].source, values)
    return cursor.fetchall() if cursor.description else []


@pytest.fixture
def connect(database_url):
    """Return a function that opens one more connection."""
    opened = []

    def connect():
        opened.append(psycopg.connect(database_url, row_factory=dict_row))
        return opened[-1]

    yield connect
    for connection in opened:
        connection.close()


@pytest.fixture
def meanwhile(connection, connect):
    """Run a statement while the transaction of ``other`` holds it up; then commit that one."""

    @contextmanager
    def meanwhile(other, name, **values):
        rows = []
        with connect() as late, ThreadPoolExecutor(1) as threads:
            running = threads.submit(run, late, name, **values)
            try:
                while not waiting(connection):
                    assert not running.done(), f"it did not wait: {running.result()}"
                yield rows
            finally:
                other.commit()
                rows += running.result(20)
            late.commit()

    return meanwhile


def is_locked(connection, table, condition, *values):
    """Return whether another transaction holds a lock on a row."""
    found = connection.execute(
        f"SELECT FROM {table} WHERE {condition} FOR UPDATE SKIP LOCKED", values
    ).fetchall()
    return not found


def managed(cast):
    """The parameters of a statement about a webhook that Alice manages."""
    return {"workspace_id": cast["acme"], "user_id": cast["alice"]}


def disable(connection, cast, webhook, reason):
    """Disable a webhook of Acme, as the command and the view do."""
    changes = {"changes": "{}", "versions": None, "enabled": False, "reason": reason}
    run(connection, "webhooks/update", id=webhook, **managed(cast), **changes)


# Locks


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


@pytest.fixture
def delivery(connection, cast):
    """A due delivery of Acme, with its event and its webhook."""
    subscribe(connection, cast["acme"], URL)
    announce(connection, cast["acme"])
    (row,) = deliveries(connection)
    return row


def claim_new(connection, cast, *rows):
    values = {"user_id": cast["alice"], "event_ids": [row["event_id"] for row in rows]}
    return run(connection, "webhooks/claim_new", **values, keys=[], lease=60)


def claim_due(connection, after=(NIL, NIL), busy=()):
    values = {"after_workspace_id": after[0], "after_webhook_id": after[1], "busy": [*busy]}
    return run(connection, "webhooks/claim_due", **values, keys=[], lease=60)


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


# Guards of claims and outcomes


def test_a_request_claims_only_what_nobody_has_attempted(connection, cast, delivery):
    connection.execute("UPDATE deliveries SET attempts = 1")
    assert claim_new(connection, cast, delivery) == []
    connection.execute("UPDATE deliveries SET attempts = 0, state = 'failed'")
    assert claim_new(connection, cast, delivery) == []
    connection.execute("UPDATE deliveries SET state = 'due'")
    assert [row["number"] for row in claim_new(connection, cast, delivery)] == [1]


def test_a_request_claims_its_own_events_in_workspaces_of_its_caller(connection, cast, delivery):
    announce(connection, cast["acme"])
    assert claim_new(connection, {"alice": cast["charlie"]}, delivery) == []
    claimed = claim_new(connection, cast, delivery)
    assert [row["id"] for row in claimed] == [delivery["id"]]
    assert claim_new(connection, cast, delivery) == []


def test_a_request_claims_its_oldest_delivery_first_and_none_of_a_failing_webhook(connection, cast):
    failing = subscribe(connection, cast["acme"], URL, failing_since="2026-01-01")
    disabled = subscribe(connection, cast["acme"], URL)
    subscribe(connection, cast["acme"], URL)
    announce(connection, cast["acme"], 2)
    connection.execute("UPDATE webhooks SET disabled_at = now() WHERE id = %s", (disabled,))
    rows = deliveries(connection)
    mine = [row["id"] for row in rows if str(row["webhook_id"]) not in (failing, disabled)]
    # The update moves the oldest row behind the others.
    connection.execute("UPDATE deliveries SET due_at = now() WHERE id = %s", (mine[0],))
    claimed = [claim_new(connection, cast, *rows) for _ in range(3)]
    assert [[row["id"] for row in some] for some in claimed] == [[mine[0]], [mine[1]], []]


def record(connection, delivery, **changes):
    outcome = {
        "in_workspace_id": delivery["workspace_id"],
        "webhook_id": delivery["webhook_id"],
        "delivery_id": delivery["id"],
        "number": 1,
        "success": False,
        "status": 500,
        "milliseconds": 1,
        "error": None,
        "answer": "",
        "retry_delay": 60.0,
        "backoff": 5.0,
        "disable_after": 120,
    }
    return run(connection, "webhooks/record", **{**outcome, **changes})


SUCCESS = {"success": True, "status": 200, "retry_delay": None}


@pytest.mark.parametrize("changes", [SUCCESS, {}, {"retry_delay": None}], ids=str)
@pytest.mark.parametrize(
    ("state", "number"), [("due", 2), ("delivered", 1), ("failed", 1)], ids=str
)
def test_an_outcome_changes_only_the_due_delivery_whose_last_attempt_it_is(
    connection, delivery, state, number, changes
):
    connection.execute("UPDATE deliveries SET state = %s, attempts = %s", (state, number))
    (before,) = deliveries(connection)
    assert record(connection, delivery, **changes) == []
    assert deliveries(connection) == [before]
    assert [row["number"] for row in attempts(connection)] == [1]
    assert webhook_row(connection, str(delivery["webhook_id"]))["failing_since"] is None


def test_an_outcome_that_is_recorded_twice_is_listed_once(connection, delivery):
    connection.execute("UPDATE deliveries SET attempts = 1")
    record(connection, delivery)
    record(connection, delivery, status=503)
    assert [row["status"] for row in attempts(connection)] == [500]


def test_an_outcome_is_not_listed_for_another_webhook_or_workspace(connection, cast, delivery):
    other = subscribe(connection, cast["acme"], URL)
    connection.execute("UPDATE deliveries SET attempts = 1")
    before = deliveries(connection)
    for changes in ({"webhook_id": other}, {"in_workspace_id": cast["globex"]}):
        assert record(connection, delivery, **changes) == []
    assert attempts(connection) == []
    assert deliveries(connection) == before


def test_the_first_failure_since_a_success_is_kept(connection, delivery):
    webhook = str(delivery["webhook_id"])
    times = []
    for success in (False, False, True, False):
        connection.execute("UPDATE deliveries SET attempts = 1, state = 'due'")
        record(connection, delivery, **(SUCCESS if success else {}))
        times.append(webhook_row(connection, webhook)["failing_since"])
    first, second, recovered, again = times
    assert first == second
    assert recovered is None
    assert again > first


def test_a_failure_backs_off_and_a_success_does_not(connection, delivery):
    webhook = str(delivery["webhook_id"])
    connection.execute("UPDATE deliveries SET attempts = 1")
    now = connection.execute("SELECT now() AS now").fetchone()["now"]
    record(connection, delivery)
    row = webhook_row(connection, webhook)
    assert timedelta(seconds=5) <= row["backoff_until"] - now < timedelta(seconds=15)
    (due,) = deliveries(connection)
    assert timedelta(seconds=60) <= due["due_at"] - now < timedelta(seconds=70)
    assert due["finished_at"] is None
    record(connection, delivery, **SUCCESS)
    row = webhook_row(connection, webhook)
    assert (row["backoff_until"], row["failing_since"], row["disabled_at"]) == (None, None, None)


@pytest.mark.parametrize(("age", "disabled"), [(119.9, False), (120.1, True)])
def test_a_webhook_is_disabled_after_only_failures_for_so_many_hours(
    connection, delivery, age, disabled
):
    connection.execute("UPDATE deliveries SET attempts = 1")
    connection.execute("UPDATE webhooks SET failing_since = now() - %s", (timedelta(hours=age),))
    reason = "only failures for 120 hours" if disabled else None
    assert [row["disabled_reason"] for row in record(connection, delivery)] == [reason]


def test_a_reason_and_a_time_of_disabling_are_kept(connection, cast, delivery):
    connection.execute("UPDATE deliveries SET attempts = 1")
    webhook = str(delivery["webhook_id"])
    disable(connection, cast, webhook, "by an operator")
    before = webhook_row(connection, webhook)
    record(connection, delivery, status=410)
    disable(connection, cast, webhook, "by an owner")
    after = webhook_row(connection, webhook)
    for name in ("disabled_at", "disabled_reason"):
        assert after[name] == before[name]
    assert after["disabled_reason"] == "by an operator"


# Ids that two workspaces share


def test_the_parent_of_a_task_is_that_of_its_own_workspace(connection, insert_into):
    """``load`` may give tasks of two workspaces one id: there one is a subtask, here it is none."""
    above = insert_into("tasks", "globex", "charlie")
    shared = insert_into("tasks", "globex", "charlie", parent_id=above)
    insert_into("tasks", id=shared)
    assert insert_into("tasks", parent_id=shared)
    below = insert_into("tasks", "globex", "charlie")
    insert_into("tasks", "globex", "charlie", parent_id=below)
    other = insert_into("tasks")
    insert_into("tasks", id=below, parent_id=other)
    with pytest.raises(psycopg.errors.CheckViolation) as caught:
        insert_into("tasks", parent_id=below)
    assert caught.value.diag.constraint_name == "parentId must not be the id of a subtask"


# Joins


@pytest.fixture
def crossed(connection, cast):
    """Two events for two webhooks; the second one is disabled. One delivery has two attempts."""
    hooks = [subscribe(connection, cast["acme"], URL) for _ in range(2)]
    announce(connection, cast["acme"], 2)
    connection.execute("UPDATE webhooks SET disabled_at = now() WHERE id = %s", (hooks[1],))
    connection.execute(
        "UPDATE webhooks SET backoff_until = '2099-01-01T00:00Z' WHERE id = %s", (hooks[0],)
    )
    rows = {hook: [] for hook in hooks}
    for row in reversed(deliveries(connection)):
        rows[str(row["webhook_id"])].append(row)
    for number, status, at in ((2, 503, "2026-01-02"), (1, 500, "2026-01-01")):
        connection.execute(
            "INSERT INTO attempts (workspace_id, delivery_id, number, milliseconds, status, at)"
            " VALUES (%s, %s, %s, 1, %s, %s)",
            (cast["acme"], rows[hooks[0]][1]["id"], number, status, at),
        )
    return rows


NEXT = "2099-01-01T00:00:00.000Z"


def test_a_delivery_is_shown_with_its_own_event_webhook_and_attempts(connection, cast, crossed):
    everything = []
    for (hook, rows), next_at in zip(crossed.items(), (NEXT, None), strict=True):
        ours = {"webhook_id": hook, "workspace_id": cast["acme"], "user_id": None}
        page = {"after_id": None, "state": None, "limit": 9}
        (shown,) = run(connection, "deliveries/list", **ours, **page)
        assert [delivery["id"] for delivery in shown["data"]] == [str(row["id"]) for row in rows]
        for delivery, row in zip(shown["data"], rows, strict=True):
            assert delivery["eventId"] == f"evt_{row['event_id'].hex}"
            assert delivery["nextAttemptAt"] == next_at
            tried = [500, 503] if next_at and row is rows[1] else []
            assert [attempt["status"] for attempt in delivery["attempts"]] == tried
            (one,) = run(connection, "deliveries/get", **ours, id=row["id"])
            assert one["body"] == {**delivery, "body": row["body"]}
            everything.append((row["id"], row["webhook_id"], next_at, tried))
    everything.sort(reverse=True)
    found = run(connection, "deliveries/attempts", id=None, about=None, limit=9)
    assert [
        (row["id"], row["webhook_id"], row["next_attempt_at"], row["status"]) for row in found
    ] == [
        (id, hook, next_at, status)
        for id, hook, next_at, tried in everything
        for status in tried or [None]
    ]
    latest = run(connection, "deliveries/attempts", id=None, about=None, limit=1)
    assert [row["id"] for row in latest] == [everything[0][0]]
    hook = [*crossed][1]
    found = run(connection, "deliveries/attempts", id=hook, about=None, limit=9)
    assert [row["id"] for row in found] == [row["id"] for row in crossed[hook]]
    found = run(connection, "deliveries/attempts", id=hook, about="none", limit=9)
    assert found == []


def test_a_webhook_is_listed_with_its_own_deliveries_and_its_last_attempt(
    connection, cast, crossed
):
    hooks = [*crossed]
    connection.execute(
        "UPDATE deliveries SET due_at = '2098-01-01T00:00Z' WHERE id = %s",
        (crossed[hooks[0]][0]["id"],),
    )
    connection.execute(
        "UPDATE deliveries SET state = 'failed' WHERE id = %s", (crossed[hooks[1]][0]["id"],)
    )
    rows = run(connection, "webhooks/list", workspace_id=cast["acme"], user_id=None)
    assert [row["body"]["waiting"] for row in rows] == [2, 1]
    assert [row["body"]["nextAttemptAt"] for row in rows] == [NEXT, None]
    assert [row["backoff_until"] for row in rows] == [NEXT, None]
    assert [row["last_status"] for row in rows] == ["503", None]
    assert [row["last_attempt_at"] for row in rows] == ["2026-01-02T00:00:00.000Z", None]


def test_failed_deliveries_of_one_webhook_are_sent_again(connection, crossed):
    first, second = crossed
    connection.execute("UPDATE deliveries SET state = 'failed', finished_at = '2026-01-02T00:00Z'")
    done, late = crossed[first]
    connection.execute("UPDATE deliveries SET state = 'delivered' WHERE id = %s", (done["id"],))
    for since, expected in (
        ("2026-01-02T00:00:00.000001Z", []), ("2026-01-02T00:00Z", [late["id"]]),
    ):  # fmt: skip
        rows = run(connection, "deliveries/redeliver_failed", id=first, since=since)
        assert [row["id"] for row in rows] == expected
    rows = run(connection, "deliveries/redeliver_failed", id=second, since=None)
    assert {row["id"] for row in rows} == {row["id"] for row in crossed[second]}


# Orders


def test_the_oldest_due_delivery_of_a_webhook_is_claimed_first(connection, cast):
    subscribe(connection, cast["acme"], URL)
    announce(connection, cast["acme"], 3)
    ids = [row["id"] for row in deliveries(connection)]
    for id, hours in zip(ids, (1, 3, 2), strict=True):
        connection.execute(
            "UPDATE deliveries SET due_at = now() - %s WHERE id = %s", (timedelta(hours=hours), id)
        )
    claimed = [claim_due(connection)[0]["id"] for _ in ids]
    assert claimed == [ids[1], ids[2], ids[0]]
    assert claim_due(connection) == []


def test_webhooks_are_claimed_in_the_order_of_their_ids_and_busy_workspaces_not(connection, cast):
    for slug in ("acme", "globex", "acme"):
        subscribe(connection, cast[slug], URL)
    # An update moves a row to the end of its table.
    first = connection.execute("SELECT id FROM webhooks ORDER BY id LIMIT 1").fetchone()["id"]
    connection.execute("UPDATE webhooks SET created_at = now_ms() WHERE id = %s", (first,))
    for slug in ("globex", "acme"):
        announce(connection, cast[slug])
    expected = sorted(
        (str(row["workspace_id"]), str(row["webhook_id"])) for row in deliveries(connection)
    )
    position, seen = (NIL, NIL), []
    with connection.transaction(force_rollback=True):
        while rows := claim_due(connection, position):
            position = str(rows[0]["workspace_id"]), str(rows[0]["webhook_id"])
            seen.append(position)
    assert seen == expected
    (other,) = claim_due(connection, busy=[cast["acme"]])
    assert str(other["workspace_id"]) == cast["globex"]
    assert claim_due(connection, after=(LAST, LAST)) == []


def test_a_deletion_announces_the_newest_subtask_first_and_the_parent_last(
    connection, cast, insert_into
):
    subscribe(connection, cast["acme"], URL)
    parent = insert_into("tasks")
    family = [parent, *(insert_into("tasks", parent_id=parent) for _ in range(3))]
    # An update moves a row to the end of its table.
    for id in (family[1], parent):
        connection.execute("UPDATE tasks SET title = 'Moved' WHERE id = %s", (id,))
    values = {"workspace_id": cast["acme"], "id": parent, "versions": None}
    (deleted,) = run(connection, "tasks/delete", **values)
    sent = connection.execute(
        "SELECT id, body::json #>> '{data,id}' AS task FROM events ORDER BY id"
    ).fetchall()
    assert [event["task"] for event in sent] == family[::-1]
    assert deleted["event_ids"] == [event["id"] for event in sent]


@pytest.fixture
def reversed_rows(connection, cast):
    """Three rows in each table, those with higher ids first in the table."""
    ids = {}

    def add(kind, table, number, /, **values):
        id = str(uuid.UUID(int=number))
        insert(connection, table, id=id, **values)
        ids.setdefault(kind, []).insert(0, id)
        return id

    acme, year = {"workspace_id": cast["acme"]}, "2026-01-01T00:00Z"
    connection.execute("DELETE FROM users WHERE name <> 'Charlie'")
    for number in (9, 8, 7):
        user = add("user", "users", number, name="Dora", email=f"{number}@example.com")
        insert_member(connection, cast["acme"], user)
        mine = {**acme, "user_id": user, "sender": "a@example.com", "received_at": year}
        add("mail", "mail", number, **mine)
        made = {**acme, "title": "x", "created_by": user}
        times = {"start_time": year, "end_time": "2026-01-02T00:00Z"}
        add("meeting", "meetings", number, **made, **times)
        add("knowledge", "knowledge", number, **acme, title="x")
        add("suggestion", "suggestions", number, **acme, title="x", kind="k")
        gone = add("deleted_user", "deleted_users", 40 + number)
        add("task", "tasks", 40 + number, **{**made, "created_by": gone})
        add("workspace", "workspaces", 10 + number, name="x", slug=f"w{30 - number}", plan="Pro")
        insert_member(connection, ids["workspace"][0], ids["user"][-1])
        token = {"user_id": ids["user"][-1], "kind": "api", "hash": uuid.uuid4().bytes * 2}
        add("token", "tokens", number, **token)
        add("webhook", "webhooks", number, **acme, url=URL, key_fingerprint=f"f{number}")
    for number, parent in ((12, 49), (11, 48), (10, 47)):
        parent_id = str(uuid.UUID(int=parent))
        values = {**acme, "title": "x", "created_by": ids["deleted_user"][0]}
        add("subtask", "tasks", number, **values, parent_id=parent_id)
    connection.execute("UPDATE members SET joined_at = '2026-01-01'")
    return ids


EXPORTED = ["user", "deleted_user", "task", "meeting", "mail", "knowledge", "suggestion"]


@pytest.mark.parametrize("kind", EXPORTED)
def test_an_export_is_in_the_order_of_ids_and_has_parents_before_subtasks(
    connection, cast, reversed_rows, kind
):
    rows = run(connection, f"export/{kind}", id=cast["acme"])
    expected = reversed_rows[kind] + (reversed_rows["subtask"] if kind == "task" else [])
    assert [json.loads(row["body"])["id"] for row in rows] == expected


def test_members_are_exported_in_the_order_of_joining_and_of_ids(connection, cast, reversed_rows):
    first, *others = reversed_rows["user"]
    connection.execute("UPDATE members SET joined_at = '2026-01-02' WHERE user_id = %s", (first,))
    rows = run(connection, "export/member", id=cast["acme"])
    assert [json.loads(row["body"])["user"] for row in rows] == [*others, first]


def test_what_operators_list_has_an_order(connection, cast, reversed_rows):
    def ids(name, **values):
        return [str(row["id"]) for row in run(connection, name, **values)]

    last = f"{uuid.UUID(reversed_rows['user'][-1]).int}@example.com"
    assert ids("tokens/list", email=last) == reversed_rows["token"]
    assert ids("users/list", email=None, id=None)[:3] == reversed_rows["user"]
    (user,) = run(connection, "users/list", email=last, id=None)
    assert user["workspaces"] == sorted(user["workspaces"])
    assert len(user["workspaces"]) == 4
    slugs = [row["slug"] for row in run(connection, "workspaces/list_all")]
    assert slugs[:3] == ["w23", "w22", "w21"]
    (mine,) = run(connection, "workspaces/list", user_id=reversed_rows["user"][-1])
    assert [workspace["slug"] for workspace in mine["body"]][:3] == slugs[:3]
    shown = run(connection, "webhooks/list", workspace_id=cast["acme"], user_id=None)
    assert [row["body"]["id"] for row in shown] == reversed_rows["webhook"]
    keys = ["f7", "f8", "f9"]
    for name in ("webhooks/missing_keys", "status/missing_keys"):
        missing = run(connection, name, keys=[], oldest_key=None)
        assert [row["key_fingerprint"] for row in missing] == keys, name
    assert ids("status/webhooks") == reversed_rows["webhook"]
    first, second, third = reversed_rows["webhook"]
    for id, column, day in (
        (third, "disabled_at", 1), (second, "failing_since", 1), (third, "failing_since", 2)
    ):  # fmt: skip
        connection.execute(
            f"UPDATE webhooks SET {column} = %s WHERE id = %s", (f"2026-01-0{day}", id)
        )
    assert ids("status/webhooks") == [third, second, first]
    names = [row["name"] for row in run(connection, "plans/list")]
    assert names == ["Starter", "Pro", "Team"]


@pytest.mark.parametrize("name", ["members/list", "workspaces/members"])
def test_members_are_in_the_order_of_joining_and_of_ids(connection, cast, name):
    connection.execute("UPDATE members SET joined_at = '2026-01-02'")
    ids = [str(uuid.UUID(int=number)) for number in (9, 5, 7)]
    for id in ids:
        insert(connection, "users", id=id, name="Dora", email=f"{id}@example.com")
        insert_member(connection, cast["acme"], id)
        joined = "2026-01-01" if id == ids[2] else "2026-01-02"
        connection.execute("UPDATE members SET joined_at = %s WHERE user_id = %s", (joined, id))
    values = {"slug": "acme"}
    if name == "workspaces/members":
        values = {"user_id": cast["alice"], "id": cast["acme"]}
    rows = run(connection, name, **values)
    if name == "workspaces/members":
        rows = [{"id": member["userId"]} for member in rows[0]["body"]]
    expected = [ids[2], ids[1], ids[0], *sorted([cast["alice"], cast["bob"]])]
    assert [str(row["id"]) for row in rows] == expected


def test_the_default_author_is_the_owner_who_joined_first(connection, cast):
    low = str(uuid.UUID(int=1))
    insert(connection, "users", id=low, name="Dora", email="dora@example.com")
    insert_member(connection, cast["acme"], low, "owner")
    connection.execute("UPDATE members SET role = 'owner', joined_at = '2026-01-02'")
    (found,) = run(connection, "workspaces/find", slugs=["acme"])
    assert found["owner_id"] == low
    connection.execute(
        "UPDATE members SET joined_at = '2026-01-01' WHERE user_id = %s", (cast["bob"],)
    )
    (found,) = run(connection, "workspaces/find", slugs=["acme"])
    assert found["owner_id"] == cast["bob"]


# Time


@pytest.fixture
def at(connect):
    """Return a connection on which now() is the time that a test sets; its changes do not last."""
    connection = connect()
    for name in ("double/create_clock", "double/create_now"):
        connection.execute(STATEMENTS[name].source)
    connection.execute("SET search_path = clock, pg_catalog, public")

    def set_clock(time):
        run(connection, "double/set_clock", at=time, by=None)
        return connection

    yield set_clock
    connection.rollback()


@pytest.mark.parametrize(
    ("day", "hours"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-06-01", 24)]
)
def test_today_has_23_or_25_hours_when_the_clocks_change(at, cast, insert_into, day, hours):
    zone = ZoneInfo("Europe/Berlin")
    begin = datetime.fromisoformat(day).replace(tzinfo=zone).astimezone(UTC)
    end = begin + timedelta(hours=hours)
    just = timedelta(milliseconds=1)
    for due in (begin - just, begin, end - just, end):
        insert_into("tasks", due_date=due)
    values = {"user_id": cast["alice"], "workspace_id": cast["acme"], "only_workspace_id": None}
    for now in (begin, begin + timedelta(hours=12), end - just):
        connection = at(now)
        connection.execute("UPDATE workspaces SET timezone = 'Europe/Berlin'")
        (row,) = run(connection, "dashboard/stats", **values)
        assert row["body"]["tasks"]["dueToday"] == 2, now


@pytest.mark.parametrize(
    ("name", "table", "column", "limit"),
    [
        ("worker/prune_keys", "idempotency_keys", "created_at", timedelta(hours=24)),
        ("worker/prune_usage", "usage", "day_started_at", timedelta(days=2)),
        ("worker/prune_events", "events", "created_at", timedelta(hours=72)),
    ],
)
def test_a_row_is_pruned_when_it_is_older_than_its_limit_and_not_before(
    connection, cast, name, table, column, limit
):
    subscribe(connection, cast["acme"], URL)
    announce(connection, cast["acme"])
    connection.execute("DELETE FROM deliveries")
    connection.execute(
        "INSERT INTO idempotency_keys (workspace_id, user_id, key, fingerprint)"
        " VALUES (%s, %s, 'k', '')",
        (cast["acme"], cast["alice"]),
    )
    connection.execute(
        "INSERT INTO usage VALUES (%s, 'x', now(), 1, now(), 1, true)", (cast["acme"],)
    )
    for age, deleted in ((limit - timedelta(seconds=20), 0), (limit + timedelta(seconds=1), 1)):
        connection.execute(f"UPDATE {table} SET {column} = now() - %s", (age,))
        (row,) = run(connection, name, keep=72, after="")
        assert (row["deleted"], row["next"]) == (deleted, None)


def test_a_rotation_deletes_the_secrets_that_have_expired_and_no_other(connection, cast):
    webhook, other = (subscribe(connection, cast["acme"], URL, secret_number=9) for _ in "12")
    for id in (webhook, other):
        for number, hours in enumerate((-1, 1), 1):
            connection.execute(
                "INSERT INTO previous_secrets (workspace_id, webhook_id, number, expires_at)"
                " VALUES (%s, %s, %s, now() + %s)",
                (cast["acme"], id, number, timedelta(hours=hours)),
            )
    run(connection, "webhooks/rotate", id=webhook, key_fingerprint=None, **managed(cast))
    left = connection.execute(
        "SELECT webhook_id::text AS id, number, expires_at - now() AS left FROM previous_secrets"
        " ORDER BY webhook_id, number"
    ).fetchall()
    assert [(row["id"], row["number"]) for row in left] == [
        (webhook, 2), (webhook, 9), (other, 1), (other, 2),
    ]  # fmt: skip
    assert timedelta(hours=23.9) < left[1]["left"] <= timedelta(hours=24)


# Now: the moment itself, because the clock of a transaction stands still


@pytest.fixture
def still(connect):
    """Return a connection whose now() stands still; its changes do not last."""
    connection = connect()
    yield connection
    connection.rollback()


def test_what_expires_now_has_expired(still, cast):
    alice = {"user_id": cast["alice"]}
    for change, live in (("+ interval '1 microsecond'", True), ("", False)):
        still.execute(f"UPDATE tokens SET expires_at = now() {change}")
        (caller,) = run(still, "gate/authenticate_and_count", **CREDENTIAL)
        assert (caller["user_id"] is not None) is live
        assert bool(run(still, "tokens/list_own", **alice)[0]["body"]) is live
        (moment,) = still.execute(f"SELECT now() {change} AS now").fetchone().values()
        token = {"name": "x", "scope": "read", "hash": uuid.uuid4().bytes * 2}
        (asked,) = run(still, "tokens/create_own", **alice, **token, expires_at=moment)
        assert (asked["in_future"], asked["id"] is not None) == (live, live)


def test_a_secret_that_expires_now_signs_no_more(still, cast):
    webhook = subscribe(still, cast["acme"], URL, key_fingerprint="a")
    for number, change in ((8, "+ interval '1 microsecond'"), (9, "")):
        still.execute(
            "INSERT INTO previous_secrets (workspace_id, webhook_id, number, key_fingerprint,"
            f" expires_at) VALUES (%s, %s, %s, %s, now() {change})",
            (cast["acme"], webhook, number, str(number)),
        )
    (target,) = run(still, "webhooks/target", id=webhook, **managed(cast))
    assert target["secret_numbers"] == [8, 1]
    missing = run(still, "webhooks/missing_keys", oldest_key=None, keys=[])
    assert [row["key_fingerprint"] for row in missing] == ["8", "a"]
    run(still, "webhooks/rotate", id=webhook, key_fingerprint="a", **managed(cast))
    left = still.execute("SELECT number FROM previous_secrets ORDER BY number").fetchall()
    assert [row["number"] for row in left] == [1, 8]


def test_what_is_due_now_is_attempted_now(still, cast):
    subscribe(still, cast["acme"], URL, backoff_until="now()")
    announce(still, cast["acme"])
    for table, column in (("deliveries", "due_at"), ("webhooks", "backoff_until")):
        still.execute(f"UPDATE {table} SET {column} = now() + interval '1 microsecond'")
        assert claim_due(still) == []
        still.execute(f"UPDATE {table} SET {column} = now()")
    (row,) = run(still, "webhooks/list", workspace_id=cast["acme"], user_id=None)
    assert row["backoff_until"] is None
    assert claim_due(still)


@pytest.mark.parametrize(("window", "other"), [("minute", "day"), ("day", "minute")])
def test_a_window_ends_at_its_last_moment(still, cast, window, other):
    run(still, "gate/authenticate_and_count", **CREDENTIAL)
    for microseconds, count in ((1, 8), (0, 1)):
        still.execute(
            f"UPDATE usage SET {window}_count = 7, {other}_count = 7, {other}_started_at = now(),"
            f" {window}_started_at = now() - interval '1 {window}' + %s",
            (timedelta(microseconds=microseconds),),
        )
        (row,) = run(still, "gate/authenticate_and_count", **CREDENTIAL)
        assert (row[f"{window}_count"], row[f"{other}_count"]) == (count, 8)


def test_a_token_is_touched_again_after_more_than_a_minute(still):
    for microseconds, touched in ((0, False), (1, True)):
        age = timedelta(minutes=1, microseconds=microseconds)
        still.execute("UPDATE tokens SET last_used_at = now() - %s", (age,))
        (row,) = run(still, "gate/authenticate_and_count", **CREDENTIAL)
        assert row["touch"] is touched
        assert bool(run(still, "tokens/touch", token_id=row["token_id"])) is touched


def test_what_begins_or_is_due_now_is_neither_upcoming_nor_late(still, cast):
    alice = {"user_id": cast["alice"], "only_workspace_id": None}
    insert(still, "tasks", workspace_id=cast["acme"], title="x", created_by=cast["alice"])
    insert(
        still, "meetings", workspace_id=cast["acme"], title="x", created_by=cast["alice"],
        start_time="2026-01-01T00:00Z", end_time="2099-01-01T00:00Z",
    )  # fmt: skip
    for before, now in (("-", (1, 0)), ("+", (0, 1))):
        for microseconds, expected in ((0, (0, 0)), (1, now)):
            moment = f"now() {before} interval '{microseconds} microsecond'"
            still.execute(f"UPDATE tasks SET due_date = {moment}")
            still.execute(f"UPDATE meetings SET start_time = {moment}")
            (row,) = run(still, "dashboard/stats", workspace_id=cast["acme"], **alice)
            body = row["body"]
            assert (body["tasks"]["overdue"], body["meetings"]["upcoming"]) == expected
            (page,) = run(still, "meetings/upcoming", after=None, after_id=None, limit=9, **alice)
            assert len(page["data"]) == expected[1]


def test_what_is_kept_for_a_time_is_kept_at_its_last_moment(still, cast):
    subscribe(still, cast["acme"], URL)
    announce(still, cast["acme"])
    still.execute("UPDATE deliveries SET state = 'failed'")
    key = {"workspace_id": cast["acme"], "user_id": cast["alice"], "key": "k"}
    run(still, "idempotency/begin", **key, fingerprint=b"a")
    still.execute("INSERT INTO usage VALUES (%s, 'x', now(), 1, now(), 1, true)", (cast["acme"],))
    for microseconds, gone in ((0, 0), (1, 1)):
        more = timedelta(microseconds=microseconds)
        for table, column, age in (
            ("idempotency_keys", "created_at", timedelta(hours=24)),
            ("usage", "day_started_at", timedelta(days=2)),
            ("events", "created_at", timedelta(hours=73)),
            ("deliveries", "finished_at", timedelta(hours=72)),
        ):
            still.execute(f"UPDATE {table} SET {column} = now() - %s", (age + more,))
        oldest = {row["kind"]: row["seconds"] for row in run(still, "status/oldest", keep=72)}
        assert bool(oldest["event"]) is bool(gone)
        with still.transaction(force_rollback=True):
            (stored,) = run(still, "idempotency/begin", **key, fingerprint=b"b")
            assert stored["same"] is bool(gone)
        for name in ("worker/prune_keys", "worker/prune_usage", "worker/prune_events"):
            (row,) = run(still, name, keep=72, after="")
            assert row["deleted"] == gone, name


def test_an_event_is_pruned_after_its_last_moment(still, cast):
    subscribe(still, cast["acme"], URL)
    announce(still, cast["acme"])
    still.execute("DELETE FROM deliveries")
    for microseconds, gone in ((0, 0), (1, 1)):
        age = timedelta(hours=72, microseconds=microseconds)
        still.execute("UPDATE events SET created_at = now() - %s", (age,))
        (row,) = run(still, "worker/prune_events", keep=72, after="")
        assert row["deleted"] == gone


def test_a_webhook_that_has_failed_for_exactly_its_time_is_not_disabled(still, cast):
    subscribe(still, cast["acme"], URL)
    announce(still, cast["acme"])
    (row,) = deliveries(still)
    for microseconds, reason in ((0, None), (1, "only failures for 120 hours")):
        since = timedelta(hours=120, microseconds=microseconds)
        still.execute("UPDATE deliveries SET attempts = 1, state = 'due'")
        still.execute("UPDATE webhooks SET failing_since = now() - %s", (since,))
        assert record(still, row)[0]["disabled_reason"] == reason


def test_a_delivery_is_overdue_after_more_than_a_minute(still, cast):
    subscribe(still, cast["acme"], URL)
    announce(still, cast["acme"])
    for microseconds, overdue in ((0, 0), (1, 1)):
        age = timedelta(minutes=1, microseconds=microseconds)
        still.execute("UPDATE deliveries SET due_at = now() - %s", (age,))
        (row,) = run(still, "status/deliveries")
        assert (row["overdue"], row["oldest_overdue_seconds"] > 0) == (overdue, bool(overdue))
    still.execute("UPDATE webhooks SET backoff_until = now() - interval '1 minute'")
    (row,) = run(still, "status/deliveries")
    assert (row["overdue"], row["oldest_overdue_seconds"]) == (0, 0)


# Load


def test_lines_are_inserted_in_their_order_whatever_the_order_of_the_rows(connection, cast):
    lines = [
        {"line": line, "workspace_id": cast["acme"], "title": f"Line {line}", "kind": "k",
         "status": "pending", "tags": [], "content": "", "priority": "low",
         "start_time": "2026-01-01T00:00Z", "end_time": "2026-01-01T01:00Z", "attendees": [],
         "created_by": cast["alice"], "user_id": cast["alice"], "sender": "a@example.com",
         "recipients": [], "subject": f"Line {line}", "snippet": "", "read": False,
         "received_at": "2026-01-01T00:00Z", "name": f"Line {line}", "slug": f"line-{line}",
         "plan": "Team", "timezone": "UTC", "email": f"line{line}@example.com"}
        for line in (3, 1, 2)
    ]  # fmt: skip
    tables = {"task": "tasks", "meeting": "meetings", "suggestion": "suggestions"}
    for kind, shown in {
        "task": "title", "meeting": "title", "suggestion": "title", "knowledge": "title",
        "mail": "subject", "user": "name", "workspace": "name",
    }.items():  # fmt: skip
        table = tables.get(kind, {"user": "users", "workspace": "workspaces"}.get(kind, kind))
        values = lines
        if kind == "meeting":
            values = [{**line, "status": "scheduled"} for line in lines]
        if kind == "task":
            values = [{**line, "status": "todo"} for line in lines]
        run(connection, f"load/{kind}", rows=psycopg.types.json.Jsonb(values))
        rows = connection.execute(
            f"SELECT {shown} AS name FROM {table} WHERE {shown} LIKE 'Line%%' ORDER BY id"
        ).fetchall()
        assert [row["name"] for row in rows] == ["Line 1", "Line 2", "Line 3"], kind


def test_pending_suggestions_are_announced_in_order_and_others_not(connection, cast):
    subscribe(connection, cast["acme"], URL)
    lines = [
        {"line": line, "workspace_id": cast["acme"], "kind": "k", "title": f"{line}",
         "status": status, "id": str(uuid.UUID(int=9 - line))}
        for line, status in enumerate(("pending", "accepted", "dismissed", "pending"), 1)
    ]  # fmt: skip
    run(connection, "load/suggestion", rows=psycopg.types.json.Jsonb(lines))
    sent = connection.execute(
        "SELECT type, body::json #>> '{data,title}' AS title FROM events ORDER BY id"
    ).fetchall()
    assert [event["title"] for event in sent] == ["4", "1"]
    assert {event["type"] for event in sent} == {"ai.suggestion.created"}


def test_a_member_of_several_lines_works_in_the_workspace_of_the_first_one(connection, cast):
    id = insert(connection, "users", name="Dora", email="dora@example.com")
    lines = [
        {"line": line, "workspace_id": cast[slug], "user_id": id, "role": "member"}
        for line, slug in ((2, "acme"), (1, "globex"))
    ]
    run(connection, "load/member", rows=psycopg.types.json.Jsonb(lines))
    user = connection.execute("SELECT * FROM users WHERE id = %s", (id,)).fetchone()
    assert str(user["active_workspace_id"]) == cast["globex"]


def test_a_load_counts_its_tasks_in_a_slot_of_its_own(connect, cast):
    connection = connect()
    run(connection, "load/begin")
    insert(connection, "tasks", workspace_id=cast["acme"], title="x", created_by=cast["alice"])
    assert connection.execute("SELECT slot FROM task_counts").fetchall() == [{"slot": -1}]
    # The setting ends with the transaction, because a pooler may reuse the connection.
    connection.rollback()
    insert(connection, "tasks", workspace_id=cast["acme"], title="x", created_by=cast["alice"])
    (row,) = connection.execute("SELECT slot FROM task_counts").fetchall()
    assert 0 <= row["slot"] < 16
    connection.rollback()
