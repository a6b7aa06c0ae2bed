"""An id alone never decides: another workspace may have a row with the same id.

A workspace that is loaded or moved keeps its ids, and a key of most tables is one with the
workspace. Here Globex has a copy of each row of Acme, with the same ids.
"""

from itertools import product

import psycopg
import pytest
from psycopg.rows import dict_row
from support.derived import Values, body_of, outcome, references, views_of
from support.http import Client
from support.receivers import FINGERPRINT
from support.resources import EVERYWHERE, RESOURCES, WORD
from support.world import COUNTED, World

from service.database.statements import STATEMENTS

# Rows that are no copies: an id that is looked for everywhere is unique.
NOT_COPIED = {"feeds", "event_cursors", "members", "tokens", *COUNTED} | {
    resource.table for resource in RESOURCES if resource.visible_to == EVERYWHERE
}
NIL = "00000000-0000-0000-0000-000000000000"


@pytest.fixture
def globex(connection, cast, acme):
    """Charlie's workspace with copies of the rows of Acme, under their ids."""
    tables = connection.execute(
        "SELECT class.oid, relname AS name, string_agg(quote_ident(attname), ', ') AS columns"
        "  FROM pg_class AS class JOIN pg_attribute ON attrelid = class.oid"
        " WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND attnum > 0"
        "   AND NOT attisdropped AND attgenerated = ''"
        " GROUP BY class.oid HAVING bool_or(attname = 'workspace_id') ORDER BY class.oid"
    )
    for row in tables.fetchall():
        if row["name"] in NOT_COPIED:
            continue
        copied = ", ".join(f"copy.{column}" for column in row["columns"].split(", "))
        connection.execute(
            f"INSERT INTO {row['name']} ({row['columns']}) SELECT {copied}"
            f"  FROM {row['name']} AS original CROSS JOIN LATERAL jsonb_populate_record("
            f"           NULL::{row['name']},"
            "            replace(replace(to_jsonb(original)::text, %s, %s), %s, %s)::jsonb"
            "        ) AS copy WHERE original.workspace_id = %s",
            (cast["acme"], cast["globex"], cast["alice"], cast["charlie"], cast["acme"]),
        )
    return World(connection, cast["globex"], cast["charlie"])


@pytest.fixture
def owner(silent_app, acme, unlimited):
    client = Client(silent_app, cookie=f"tmw_session_alice_{WORD}")
    client.headers["Content-Type"] = "application/json"
    return client


def paths(view, world):
    """The paths of a view with the first and the last id of each table."""
    ids = []
    for rows in world.everything().values():
        found = sorted(str(row["id"]) for row in rows if "id" in row)
        ids += {*found[:1], *found[-1:]}
    return [view.path(*chosen) for chosen in product(sorted({*ids}), repeat=len(view.variables))]


def test_a_view_shows_nothing_of_rows_with_the_same_ids(owner, acme, globex):
    requests = [path for view in views_of("GET") for path in paths(view, acme)]
    before = [outcome(owner.get(path)) for path in requests]
    assert sum(status == 200 for status, *_ in before) > 15
    globex.delete()
    for path, old in zip(requests, before, strict=True):
        assert outcome(owner.get(path)) == old, path


def test_a_write_changes_nothing_of_rows_with_the_same_ids(
    owner, acme, globex, connection, cast, insert_into
):
    before, done = globex.everything(), set()
    values = Values(references(connection, cast, insert_into))
    # Deletions last.
    for view in [*views_of("PATCH"), *views_of("POST"), *views_of("DELETE")]:
        if not view.variables:
            continue
        for path in paths(view, acme):
            status = owner.send(view.method, path, json=body_of(view, values)).status_code
            # Two rows of one id are an error.
            assert status != 500, path
            if status < 300:
                done.add(view.name)
        assert globex.everything() == before, view.name
    assert len(done) > 8, done


def test_a_worker_reads_and_changes_nothing_of_rows_with_the_same_ids(
    acme, globex, database_url, connection, cast
):
    """The worker passes over Globex."""
    due, _ = (
        row
        for row in acme.rows("deliveries", "workspace_id", acme.workspace_id)
        if row["state"] == "waiting"
    )
    attempt = {
        "in_workspace_id": cast["acme"], "webhook_id": due["webhook_id"], "delivery_id": due["id"],
        "number": 0, "milliseconds": 1, "error": None, "answer": "", "backoff": 5.0,
        "disable_after": 120,
    }  # fmt: skip
    failure = {"success": False, "status": 500, "retry_delay": 60.0}
    calls = [
        ("webhooks/record", {**attempt, **failure}),
        ("webhooks/record", {**attempt, "success": True, "status": 200, "retry_delay": None}),
        ("webhooks/claim_due", {"after_workspace_id": NIL, "after_webhook_id": NIL, "lease": 9,
                                "keys": [FINGERPRINT], "busy": [cast["globex"]]}),
        ("webhooks/claim_new", {"user_id": cast["alice"], "event_ids": [due["event_id"]],
                                "keys": [FINGERPRINT], "lease": 9}),
    ]  # fmt: skip
    # One delivery is due now, and another one when the webhook has recovered.
    connection.execute("UPDATE webhooks SET failing_since = now(), backoff_until = now()")
    connection.execute("UPDATE deliveries SET attempts = 0 WHERE state = 'waiting'")
    connection.execute(
        "UPDATE deliveries SET state = 'waiting', due_at = now() + interval '1 hour'"
        " WHERE state = 'delivered'"
    )
    found = []
    with (
        psycopg.connect(database_url, row_factory=dict_row) as still,
        still.transaction(force_rollback=True),
    ):
        world = World(still, *[str(id) for id in (globex.workspace_id, globex.user_id)])
        for _ in range(2):
            rows = []
            for name, values in calls:
                with still.transaction(force_rollback=True):
                    if name == "webhooks/claim_new":
                        still.execute("UPDATE webhooks SET failing_since = NULL")
                    before = world.everything()
                    cursor = still.execute(STATEMENTS[name].source, values)
                    rows.append((name, cursor.fetchall()))
                    assert world.everything() == before, name
            found.append(rows)
            still.execute("DELETE FROM workspaces WHERE id = %s", (globex.workspace_id,))
    assert found[0] == found[1]
    assert [name for name, rows in found[0] if not rows] == []
