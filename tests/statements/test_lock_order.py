"""Every statement locks users before members, and members before workspaces.

The comment at the beginning of sql/schema/0002-accounts.sql defines this order.
"""

import json
import re
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import product

import psycopg
import pytest
from support.processes import wait_until
from support.rows import insert, insert_member, insert_token
from support.statements import NAMES, numbered, run

HERE = "tests/statements/test_lock_order.py"

# A row of each table, in the order in which statements have to lock the tables.
ORDER = {
    "users": "id = %(bob)s",
    "members": "user_id = %(bob)s AND workspace_id = %(acme)s",
    "workspaces": "id = %(acme)s",
}

# Without these changes, the statement would change nothing. They lock no row of a later table.
NO_WORKSPACE = "UPDATE users SET active_workspace_id = NULL WHERE id = %(bob)s"
BEFORE = {"me/update": NO_WORKSPACE, "users/activate": NO_WORKSPACE}

# The tables on both sides of a foreign key of users or members.
NEAR = """
SELECT unnest(ARRAY[conrelid, confrelid])::regclass::text AS name
  FROM pg_constraint
 WHERE contype = 'f'
   AND (conrelid IN ('users'::regclass, 'members'::regclass)
        OR confrelid IN ('users'::regclass, 'members'::regclass))
"""
WRITTEN = re.compile(r"(?:INSERT INTO|UPDATE|DELETE FROM|lock_|revoke_)\s?([a-z]\w*)")


def writes(connection):
    """Return the names of statements that write one of these tables or call a locking function."""
    tables = {row["name"] for row in connection.execute(NEAR)} | {"member", "tokens"}
    return [
        name
        for name in NAMES
        if not name.startswith(("double/", "migrate/"))
        and not tables.isdisjoint(WRITTEN.findall(numbered(name)[0]))
    ]


@pytest.fixture
def values(connection, cast, insert_into):
    """Return a function for the parameters of a statement: they concern Bob, a member of Acme.

    Bob has a task, a session and a token.
    """
    acme, alice, bob = cast["acme"], cast["alice"], cast["bob"]
    assigned, free = insert_into("tasks", assignee_id=bob), insert_into("tasks")
    session = insert_token(connection, bob, "tmw_session_bob", kind="session")
    token = insert_token(connection, bob, "tmw_api_of_acme", workspace_id=acme)
    dora = insert(connection, "users", name="Dora", email="dora@example.com")
    insert_member(connection, acme, dora, "owner")

    def line(**row):
        return {"rows": json.dumps([row])}

    member = {"id": acme, "member_id": bob, "role": "admin", "created_id": None}
    task = {"id": free, "title": "x", "status": "todo", "priority": "low", "assignee_id": bob}
    loaded = {"workspace_id": acme, "created_by": alice, "version": 1, "title": "x"}
    own = {"user_id": bob, "session_id": session, "token_id": token, "id": token}
    # Parameters for all statements, for the statements of a folder, and for single statements.
    known = {
        "": {
            **{"workspace_id": acme, "user_id": alice, "slug": "acme", "name": "New", "days": 30},
            **{"email": "bob@example.com", "hash": b"x" * 32, "scope": "write"},
        },
        "members": member,
        "members/create_user": {"email": "new@example.com"},
        "me": {"user_id": bob, "token_id": session, "id": acme},
        "tasks": task,
        "tasks/create": {"id": None},
        "tasks/update": {"changes": json.dumps({"assignee_id": bob})},
        "tasks/delete": {"id": assigned},
        "tokens": own,
        "tokens/create": {"workspace": "acme"},
        "sessions": {"user_id": bob, "since": "2020-01-01T00:00:00Z"},
        "users/create": {"email": "new@example.com"},
        "workspaces": {"id": acme, "plan": "Team", "changes": json.dumps({"name": "New"})},
        "workspaces/create": {"slug": "new"},
        "load/user": line(id=str(uuid.uuid4()), email="new@example.com", name="New"),
        "load/member": line(workspace_id=cast["globex"], user_id=bob, role="member"),
        "load/task": line(**loaded, assignee_id=bob, status="todo", priority="low"),
        "load/workspace": line(name="New", slug="new", plan="Team", timezone="UTC"),
        "load/versions": line(slug="acme", version=7),
        "load/former_members": line(workspace_id=cast["globex"], user_id=bob),
        "users/rename": {"name": "Rob"},
    }

    def values(name):
        folder = name.partition("/")[0]
        given = {**known[""], **known.get(folder, {}), **known.get(name, {})}
        return {**dict.fromkeys(numbered(name)[1]), **given}

    return values


class Stage:
    """Runs statements that the transaction of another connection blocks, and undoes them."""

    def __init__(self, connection, connect, cast, values):
        self.connection, self.cast, self.values = connection, cast, values
        self.holder = connect()
        options = "-c deadlock_timeout=20ms -c statement_timeout=60s"
        self.runners = [connect(options=options), connect(options=options)]
        self.threads = ThreadPoolExecutor(2)

    @contextmanager
    def holding(self, table):
        """Block every statement that locks the row of this table."""
        self.holder.execute(f"SELECT FROM {table} WHERE {ORDER[table]} FOR UPDATE", self.cast)
        try:
            yield
        finally:
            self.holder.rollback()

    def start(self, name, number=0, *, keep=False):
        """Start a statement and return its future once it has ended or waits for a lock.

        Its transaction is rolled back when it ends, unless ``keep`` is true.
        """
        runner = self.runners[number]

        def task():
            try:
                runner.execute(BEFORE.get(name, "SELECT"), self.cast)
                run(runner, name, **self.values(name))
            finally:
                if not keep:
                    runner.rollback()

        future = self.threads.submit(task)
        blocked = "SELECT cardinality(pg_blocking_pids(%s)) > 0 AS blocked"
        pid = runner.info.backend_pid
        wait_until(
            lambda: future.done() or self.connection.execute(blocked, (pid,)).fetchone()["blocked"]
        )
        return future

    def locked(self, *tables):
        """Return the tables, among these, whose row is locked."""
        return [
            table
            for table in tables
            if not self.connection.execute(
                f"SELECT FROM {table} WHERE {ORDER[table]} FOR UPDATE SKIP LOCKED", self.cast
            ).fetchall()
        ]

    def locks(self, name):
        """Return the tables whose row the statement locks; fail the test if the statement fails."""
        error = self.start(name, keep=True).exception()
        if error:
            pytest.fail(f"{HERE}: {name} needs other values: {error}")
        locked = self.locked(*ORDER)
        self.runners[0].rollback()
        return locked


@pytest.fixture
def stage(connection, connect, cast, values):
    stage = Stage(connection, connect, cast, values)
    yield stage
    stage.holder.rollback()
    stage.threads.shutdown()


@pytest.mark.slow
def test_a_statement_that_waits_for_a_row_holds_no_row_of_a_later_table(connection, stage):
    names, wrong = writes(connection), []
    for name in names:
        for number, table in enumerate(ORDER):
            with stage.holding(table):
                running = stage.start(name)
                if not running.done():
                    later = stage.locked(*[*ORDER][number + 1 :])
                    wrong += [(name, "waits for", table, "and holds", held) for held in later]
            running.exception()
    assert wrong == []
    assert len(names) > 20


@pytest.mark.slow
def test_no_two_writes_of_users_and_members_deadlock(connection, stage):
    """Two statements wait for the same row, and then both go on at the same time."""
    names = [name for name in writes(connection) if len(stage.locks(name)) > 1]
    assert {"members/remove", "tasks/create", "users/delete", "me/update"} <= {*names}
    deadlocks = []
    for first, second, table in product(names, names, ("users", "members")):
        with stage.holding(table):
            started = [stage.start(first, 0), stage.start(second, 1)]
        for running in started:
            if isinstance(running.exception(), psycopg.errors.DeadlockDetected):
                deadlocks.append((first, second, table))
    assert deadlocks == []
