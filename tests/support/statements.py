"""Run single statements as requests and workers do, and read their plans."""

import re
import uuid
from contextlib import contextmanager
from hashlib import sha256

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from support.processes import wait_until
from support.receivers import FINGERPRINT
from support.rows import TOKENS

from service.commands.migrate import migrate
from service.database.pool import PROPERTIES
from service.database.statements import STATEMENTS
from service.settings import Settings


def numbered(name):
    """Return ``sql/<name>.sql`` as PREPARE accepts it, and the names of its parameters in order."""
    statement = STATEMENTS[name]
    return statement.text.decode(), statement.parameters


def preparable(name):
    """Return ``sql/<name>.sql`` as PREPARE accepts it, and a list of NULLs for EXECUTE."""
    text, names = numbered(name)
    return text, f"({', '.join(['NULL'] * len(names))})" if names else ""


def configure(connection):
    """Configure a connection as the pool does, so that it gets the same plans."""
    timeouts = {"statement_timeout": "0", "lock_timeout": "0", "idle_timeout": "0"}
    connection.execute(STATEMENTS["connection/defaults"].source)
    connection.execute(STATEMENTS["connection/configure"].source, timeouts)


def flattened(tree):
    nodes, stack = [], [tree["Plan"]]
    while stack:
        nodes.append(stack.pop())
        stack.extend(nodes[-1].get("Plans", ()))
    return nodes


def generic_plan(connection, name):
    """Return the nodes of the generic plan of ``sql/<name>.sql``, which serves all values."""
    text, nulls = preparable(name)
    connection.execute(f"PREPARE it AS {text}")
    explained = connection.execute(f"EXPLAIN (FORMAT json) EXECUTE it{nulls}").fetchone()
    connection.execute("DEALLOCATE it")
    return flattened(explained["QUERY PLAN"][0])


# What statements wait for, by pg_stat_activity, if another transaction makes them wait. A statement
# can also wait for a moment while another one extends a file.
WAITS = ["advisory", "relation", "transactionid", "tuple", "virtualxid"]


def waiting(connection, locks=WAITS):
    """Return how many statements wait for a lock."""
    # In a transaction, PostgreSQL shows the activity of the first look again and again.
    connection.execute("SELECT pg_stat_clear_snapshot()")
    return connection.execute(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        "   AND wait_event = ANY (%s)",
        (locks,),
    ).fetchone()["count"]


@contextmanager
def trigger(connection, event, body, *, at_commit=False):
    """Run ``body`` for each row at ``event``, like AFTER INSERT ON tasks.

    It runs with the statement, or at the commit if ``at_commit`` is true.
    """
    kind, deferred = ("CONSTRAINT", "DEFERRABLE INITIALLY DEFERRED") if at_commit else ("", "")
    connection.execute(
        f"CREATE FUNCTION triggered() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} END $$;"
        f"CREATE {kind} TRIGGER triggered {event} {deferred}"
        " FOR EACH ROW EXECUTE FUNCTION triggered()"
    )
    try:
        yield
    finally:
        connection.execute("DROP FUNCTION triggered CASCADE")


@contextmanager
def new_database(server, properties=PROPERTIES):
    """Yield the URL of a new database on this server; drop the database in the end.

    Without other ``properties``, it is empty. Copying the files of its template takes half as long
    as logging its pages.
    """
    name = f"test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} {properties} STRATEGY file_copy")
    try:
        yield make_conninfo(server, dbname=name)
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@contextmanager
def migrated_database(server):
    """Yield the URL of a new database with all migrations; drop the database in the end."""
    with new_database(server) as url:
        migrate(Settings.read({"DATABASE_URL": url}))
        yield url


@contextmanager
def copied_database(url):
    """Yield the URL of a copy of this database, to which nobody may be connected."""
    template = f"TEMPLATE {conninfo_to_dict(url)['dbname']}"
    with new_database(make_conninfo(url, dbname="postgres"), template) as copy:
        yield copy


URL = "https://example.com/hook"
# The largest id.
LAST = "ffffffff-ffff-ffff-ffff-ffffffffffff"
# The parameters of the gate's statement for a request of Alice.
CREDENTIAL = {
    "hash": sha256(TOKENS["alice"].encode()).digest(),
    "kind": "api",
    "address": "x",
    "requested_workspace_id": None,
}
NIL = "00000000-0000-0000-0000-000000000000"


def run(connection, name, /, **values):
    """Run a statement like a request whose token is not for one workspace only; return the rows."""
    values = {"token_workspace_id": None, "token_id": None, **values}
    cursor = connection.execute(STATEMENTS[name].source, values)
    return cursor.fetchall() if cursor.description else []


def until_waiting(connection, running, number=1, locks=WAITS):
    """Return once this many statements wait for a lock; fail if ``running`` has ended."""
    wait_until(lambda: waiting(connection, locks) >= number, running)


def managed(cast):
    """Return the parameters that Alice's requests give to a statement about a webhook of Acme."""
    return {"workspace_id": cast["acme"], "user_id": cast["alice"]}


def claim_new(connection, cast, *rows):
    values = {"user_id": cast["alice"], "event_ids": [row["event_id"] for row in rows]}
    return run(connection, "webhooks/claim_new", **values, keys=[FINGERPRINT], lease=60)


def claim_due(connection, after=(NIL, NIL), busy=()):
    values = {"after_workspace_id": after[0], "after_webhook_id": after[1], "busy": [*busy]}
    return run(connection, "webhooks/claim_due", **values, keys=[FINGERPRINT], lease=60)


def outcome_of(delivery, **changes):
    """Return the parameters that record a failed first attempt, with these changes."""
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

NAMES = [name for name in STATEMENTS if not name.startswith(("schema/", "functions/"))]


# The name of a statement in Python is a string of two words with a slash, except a media type.
NAME_IN_PYTHON = re.compile(r'"(?!application/)([a-z_]+/[a-z_{}]+)"')


# PostgreSQL can neither prepare nor explain these statements, because they define objects or
# deallocate.
DEFINITIONS = {
    "connection/deallocate",
    "double/create_clock",
    "double/create_now",
    "double/create_snapshots",
    "migrate/prepare",
    "unlimited/create",
    "unlimited/drop",
}
