"""Runs single statements, as a request or a worker does."""

from hashlib import sha256

from client import TOKENS, waiting
from receivers import FINGERPRINT
from server import wait_until

from service.database.statements import STATEMENTS

URL = "https://example.com/hook"
# No id is larger.
LAST = "ffffffff-ffff-ffff-ffff-ffffffffffff"
# What the gate takes of a request of Alice.
CREDENTIAL = {
    "hash": sha256(TOKENS["alice"].encode()).digest(),
    "kind": "api",
    "address": "x",
    "requested_workspace_id": None,
}
NIL = "00000000-0000-0000-0000-000000000000"


def run(connection, name, /, **values):
    """Run a statement, as for a credential without a workspace of its own; return its rows."""
    values = {"token_workspace_id": None, **values}
    cursor = connection.execute(STATEMENTS[name].source, values)
    return cursor.fetchall() if cursor.description else []


def until_waiting(connection, running, number=1):
    """Return once so many statements wait for a lock; fail if the last one has ended."""
    wait_until(lambda: waiting(connection) >= number, running)


def managed(cast):
    """The parameters of a statement about a webhook that Alice manages."""
    return {"workspace_id": cast["acme"], "user_id": cast["alice"]}


def claim_new(connection, cast, *rows):
    values = {"user_id": cast["alice"], "event_ids": [row["event_id"] for row in rows]}
    return run(connection, "webhooks/claim_new", **values, keys=[FINGERPRINT], lease=60)


def claim_due(connection, after=(NIL, NIL), busy=()):
    values = {"after_workspace_id": after[0], "after_webhook_id": after[1], "busy": [*busy]}
    return run(connection, "webhooks/claim_due", **values, keys=[FINGERPRINT], lease=60)


def outcome_of(delivery, **changes):
    """The parameters that record a first attempt, which has failed unless ``changes`` say more."""
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
    return {**outcome, **changes}


def record(connection, delivery, **changes):
    return run(connection, "webhooks/record", **outcome_of(delivery, **changes))


SUCCESS = {"success": True, "status": 200, "retry_delay": None}
