"""Two cells behind one address, and a workspace that moves from one to the other."""

import json
import operator
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack, closing, contextmanager

import front
import psycopg
import pytest
from client import (
    TOKENS,
    UNKNOWN,
    activate,
    insert,
    insert_member,
    insert_token,
    new_database,
)
from faults.documents import addressed, configuration, nginx_site
from faults.load import Load, read
from psycopg.rows import dict_row
from receivers import (
    WEBHOOK_SETTINGS,
    Receiver,
    announce,
    secret_of,
    subscribe,
)
from server import PROJECT, call, environment, free_port, send, serving, wait_until, working

from service.devkit.signatures import is_genuine

pytestmark = pytest.mark.faults

SETTINGS = {
    **WEBHOOK_SETTINGS,
    "WEB_CONCURRENCY": "1",
    "WEB_THREADS": "4",
    "TRUSTED_PROXIES": "1",
    "WEBHOOK_LEASE": "600",
}


@pytest.fixture
def other_url(postgres):
    """The database of the cell eu1."""
    yield from new_database(postgres.get_uri())


@pytest.fixture
def other(other_url):
    with psycopg.connect(other_url, autocommit=True, row_factory=dict_row) as connection:
        connection.execute("INSERT INTO plans (name, per_minute) VALUES ('Faults', 10000000)")
        yield connection


@pytest.fixture
def erin(other, other_url):
    """Erin owns Initech in eu1; her token as the command makes it, and the workspace."""
    workspace = insert(other, "workspaces", name="Initech", slug="initech", plan="Faults")
    user = insert(other, "users", email="erin@example.com", name="Erin")
    insert_member(other, workspace, user, "owner")
    activate(other, workspace, user)
    return command(other_url, "token", "create", "erin@example.com"), workspace


def command(url, *words, cell="eu1"):
    """Run a command of the cell; returns the text that it prints."""
    ran = subprocess.run(
        [sys.executable, "-m", "service", *words],
        cwd=PROJECT,
        env=environment(DATABASE_URL=url, CELL=cell),
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout.strip()


@contextmanager
def behind_nginx(folder, ports):
    port = free_port()
    upstreams = addressed(configuration("cells.nginx.conf"), ports)
    with front.nginx(folder, nginx_site(port, upstreams, "http://$cell"), port):
        yield port


@contextmanager
def behind_haproxy(folder, ports):
    (folder / "cells.map").write_text(configuration("cells.map"))
    before, _, _ = configuration("haproxy.cfg").partition("    default_backend service")
    cells = addressed(configuration("cells.haproxy.cfg"), ports)
    text = before + cells.replace("/etc/haproxy/cells.map", f"{folder}/cells.map")
    with front.haproxy(folder, text) as port:
        yield port


PROXIES = [
    pytest.param(behind_nginx, id="nginx", marks=pytest.mark.needs("nginx")),
    pytest.param(behind_haproxy, id="HAProxy", marks=pytest.mark.needs("haproxy")),
]


def with_cookie(port, session):
    head = (
        f"GET /api/me HTTP/1.1\r\nHost: x\r\nCookie: session={session}\r\nConnection: close\r\n\r\n"
    )
    return send(port, head.encode())


@pytest.mark.parametrize("proxy", PROXIES)
def test_each_request_reaches_the_cell_that_its_credential_names(
    connection,
    database_url,
    cast,
    other,
    other_url,
    erin,
    receiver,
    tmp_path,
    measure,
    request,
    proxy,
):
    tmp_path.chmod(0o755)
    (token, initech), acme = erin, cast["acme"]
    session = command(other_url, "session", "create", "erin@example.com")
    alice = TOKENS["alice"]
    with closing(Receiver()) as elsewhere, ExitStack() as stack:
        subscribe(connection, cast["acme"], receiver.url, "task.created")
        subscribe(other, initech, elsewhere.url, "task.created")
        main = stack.enter_context(serving(database_url, **SETTINGS))
        cell = stack.enter_context(serving(other_url, CELL="eu1", **SETTINGS))
        port = stack.enter_context(proxy(tmp_path, [main.port, cell.port]))
        wait_until(lambda: call(port, "GET", "/api/me", token)[0] == 200)
        measure(f"cells behind {request.node.callspec.id}", 2)

        def names(*tokens):
            """The user for each of these tokens, or the status."""
            replies = [call(port, "GET", "/api/me", one) for one in tokens]
            return [body["user"]["name"] if status == 200 else status for status, body in replies]

        found = [
            *names(alice, token),
            json.loads(with_cookie(port, session).body)["user"]["name"],
            json.loads(with_cookie(port, session + "; a=b").body)["user"]["name"],
        ]
        reached = sum(map(operator.eq, found, ["Alice", "Erin", "Erin", "Erin"]))
        measure("of 4 tokens and sessions, those that reached their cell", reached, exactly=4)
        unknown = ["tmw_api_us1_" + "0" * 40, "tmw_api_" + "0" * 40, token[:-1] + "g", "x"]
        rejected = names(*unknown).count(401)
        measure("of 4 unknown tokens, those that are 401", rejected, exactly=4)

        with (
            Load(port, clients=2, limit=100) as ours,
            Load(port, clients=2, token=token, limit=100) as theirs,
        ):
            for load in (ours, theirs):
                load.wait_for(lambda load: len(load.replies) >= 100)
        titles = [
            {row["title"] for row in database.execute("SELECT title FROM tasks")}
            for database in (connection, other)
        ]
        strayed = (set(theirs.acknowledged.values()) & titles[0]) | (
            set(ours.acknowledged.values()) & titles[1]
        )
        missing = (set(ours.acknowledged.values()) - titles[0]) | (
            set(theirs.acknowledged.values()) - titles[1]
        )
        measure(
            "acknowledged tasks in both cells", len(ours.acknowledged) + len(theirs.acknowledged)
        )
        measure("tasks in the other cell, or in none", len(strayed | missing), exactly=0)
        events = [
            Counter(json.loads(one.body)["workspaceId"] for one in place.take_all())
            for place in (receiver, elsewhere)
        ]
        strays = events[0].total() + events[1].total() - events[0][acme] - events[1][initech]
        measure("events that reached the receiver of the other cell", strays, exactly=0)
        received = min(events[0][acme], events[1][initech])
        measure("events that reached each receiver", received, at_least=1)

        for database in (connection, other):
            database.execute("UPDATE workspaces SET plan = 'Starter'")
            database.execute("DELETE FROM usage")
        with (
            Load(port, clients=4, request=read, limit=160) as ours,
            Load(port, clients=4, request=read, token=token, limit=160) as theirs,
        ):
            for load in (ours, theirs):
                load.wait_for(lambda load: len(load.replies) >= 160)
        for database in (connection, other):
            database.execute("UPDATE workspaces SET plan = 'Faults'")
        for cell_name, load in (("one", ours), ("the other", theirs)):
            admitted = len(load.good())
            measure(f"requests admitted in {cell_name} cell at a limit of 60", admitted, exactly=60)

        cell.terminate()
        cell.wait(20)
        with Load(port, clients=4, request=read, limit=200) as ours:
            gone = Counter(call(port, "GET", "/api/me", token)[0] for _ in range(20))
            ours.wait_for(lambda load: len(load.replies) >= 200)
        measure(
            "responses of a cell that is down, other than 502 and 503",
            20 - gone[502] - gone[503],
            exactly=0,
        )
        measure(
            "responses of the other cell meanwhile, other than 200", ours.other_than(200), exactly=0
        )


def contents(connection, workspace_id):
    """The number of rows and a digest of each table of a workspace.

    Triggers make task_counts anew, words are generated, and usage goes on changing.
    """
    tables = connection.execute(
        "SELECT table_name FROM information_schema.columns WHERE table_schema = 'public'"
        " AND column_name = 'workspace_id' AND table_name NOT IN ('task_counts', 'usage')"
    )
    found = {}
    for (table,) in [row.values() for row in tables]:
        found[table] = tuple(
            connection.execute(
                "SELECT count(*) AS number, md5(string_agg(line, '' ORDER BY line)) AS digest"
                f" FROM (SELECT (to_jsonb({table}) - 'words')::text AS line"
                f" FROM {table} WHERE workspace_id = %s) AS lines",
                (workspace_id,),
            )
            .fetchone()
            .values()
        )
    return found


def test_a_workspace_moves_to_another_cell_with_its_ids_and_events(
    postgres, connection, database_url, cast, other, other_url, receiver, tmp_path, measure
):
    acme = cast["acme"]
    connection.execute(
        "INSERT INTO tasks (workspace_id, title, created_by, assignee_id)"
        " SELECT %s, 'task ' || number, %s, %s FROM generate_series(1, 10000) AS number",
        (acme, cast["alice"], cast["bob"]),
    )
    connection.execute(
        "INSERT INTO tasks (workspace_id, title, created_by, parent_id)"
        " SELECT workspace_id, title, created_by, id FROM tasks ORDER BY id LIMIT 500"
    )
    for kind, columns in (
        ("meetings", "start_time, end_time, created_by"),
        ("knowledge", "tags"),
        ("suggestions", "kind"),
    ):
        values = {
            "meetings": "now(), now() + interval '1 hour', '" + cast["alice"] + "'",
            "knowledge": "'{tea}'",
            "suggestions": "'task'",
        }[kind]
        connection.execute(
            f"INSERT INTO {kind} (workspace_id, title, {columns})"
            f" SELECT %s, 'x', {values} FROM generate_series(1, 100)",
            (acme,),
        )
    # Without WEBHOOK_KEY the old cell delivers nothing, so all its events are due.
    webhook = subscribe(connection, acme, receiver.url, "task.created")
    announce(connection, acme, 200)
    psql = [postgres.binaries / "psql", "-X", "-v", "slug=acme", "-v", f"file={tmp_path}/acme.sql"]
    psql += ["-v", f"to={other_url}", "-f", PROJECT / "docs/move-workspace.sql", database_url]
    path = {"PATH": f"{postgres.binaries}:/usr/bin:/bin"}
    with (
        serving(database_url, **{**SETTINGS, "WEBHOOK_KEY": ""}) as server,
        Load(server.port, clients=4) as load,
        Load(server.port, clients=1, request=read, token=TOKENS["charlie"]) as neighbour,
    ):
        load.wait_for_replies(50)
        # A workspace that the new cell rejects stays where it is.
        other.execute("DELETE FROM plans WHERE name = 'Faults'")
        failed = subprocess.run(psql, env=path, capture_output=True, text=True)
        other.execute("INSERT INTO plans (name, per_minute) VALUES ('Faults', 10000000)")
        load.wait_for_replies(20)
        moved = subprocess.run(psql, env=path, capture_output=True, text=True)
        load.wait_for(lambda load: load.replies[-1].status not in (200, 201, 503))
    measure(
        "moves that the new cell rejected and that changed something",
        int(failed.returncode == 0 or bool(failed.stdout.strip())),
        exactly=0,
    )
    assert moved.returncode == 0, moved.stderr
    rows = other.execute(
        "SELECT id::text, title FROM tasks WHERE workspace_id = %s", (acme,)
    ).fetchall()
    measure("tasks moved", len(rows), at_least=10_500)
    lost = load.acknowledged.keys() - {row["id"] for row in rows}
    measure("tasks acknowledged by the old cell until then", len(load.acknowledged))
    measure("acknowledged tasks that are lost", len(lost), exactly=0)
    left = sum(number for number, _ in contents(connection, acme).values())
    measure("rows left in the old cell", left, exactly=0)
    measure(
        "responses to another workspace of the old cell other than 200",
        neighbour.other_than(200),
        exactly=0,
    )

    # The new cell gives the same tasks to a new token, and delivers what was due.
    token = command(other_url, "token", "create", "alice@example.com")
    due = other.execute("SELECT count(*) FROM deliveries WHERE state = 'due'").fetchone()["count"]
    settings = {**SETTINGS, "CELL": "eu1"}
    with serving(other_url, **settings) as server, working(other_url, **settings):
        received = [receiver.take() for _ in range(due)]
        status, stats = call(server.port, "GET", "/api/dashboard/stats", token)
    measure("events due in the new cell", due, at_least=200)
    genuine = sum(is_genuine(one.headers, one.body, secret_of(webhook)) for one in received)
    measure("events that did not arrive with a valid signature", due - genuine, exactly=0)
    measure(
        "tasks that the new dashboard does not count",
        abs(len(rows) - stats["tasks"]["total"]) + (status != 200),
        exactly=0,
    )


def test_a_moved_workspace_has_the_same_rows(
    postgres,
    connection,
    database_url,
    cast,
    other,
    other_url,
    tmp_path,
    receiver,
    insert_into,
    measure,
):
    acme = cast["acme"]
    webhook = subscribe(connection, acme, receiver.url)
    connection.execute(
        "INSERT INTO previous_secrets (workspace_id, webhook_id, number, expires_at)"
        " VALUES (%s, %s, 0, now() + interval '1 hour')",
        (acme, webhook),
    )
    connection.execute(
        "INSERT INTO idempotency_keys (workspace_id, user_id, key, fingerprint)"
        " VALUES (%s, %s, 'x', '')",
        (acme, cast["bob"]),
    )
    for table in ("meetings", "knowledge", "suggestions"):
        insert_into(table)
    insert_token(connection, cast["bob"], "tmw_api_another")
    connection.execute(
        "INSERT INTO mail (workspace_id, user_id, sender, received_at)"
        " SELECT %s, %s, 'ada@example.com', now() FROM generate_series(1, 10)",
        (acme, cast["bob"]),
    )
    with serving(database_url, **SETTINGS) as server:
        for number in range(20):
            document = {"title": f"A task with a tab\t and \\ {number}", "assigneeId": cast["bob"]}
            id = call(server.port, "POST", "/api/tasks", TOKENS["alice"], document)[1]["id"]
            call(server.port, "PATCH", f"/api/tasks/{id}", TOKENS["alice"], {"status": "done"})
    # One author was deleted; another one is no member any more.
    insert_into("tasks", created_by=UNKNOWN)
    connection.execute("INSERT INTO deleted_users VALUES (%s, now())", (UNKNOWN,))
    insert_into("tasks", created_by=cast["charlie"])
    before = contents(connection, acme)
    moved = subprocess.run(
        [
            postgres.binaries / "psql",
            "-X",
            "-v",
            "slug=acme",
            "-v",
            f"file={tmp_path}/acme.sql",
            "-v",
            f"to={other_url}",
            "-f",
            PROJECT / "docs/move-workspace.sql",
            database_url,
        ],
        env={"PATH": f"{postgres.binaries}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert moved.returncode == 0, moved.stderr
    after = contents(other, acme)
    measure("tables with a workspace", len(before), at_least=12)
    empty = [table for table, (number, _) in before.items() if not number]
    measure("tables without a row, which prove nothing", len(empty), exactly=0)
    measure("their rows", sum(number for number, _ in before.values()), at_least=100)
    measure("tables that differ", sum(before[name] != after[name] for name in before), exactly=0)
    users = other.execute(
        "SELECT name FROM users WHERE active_workspace_id = %s", (acme,)
    ).fetchall()
    measure("users whose active workspace it is there", len(users), at_least=2)
    authors = other.execute(
        "SELECT DISTINCT created_by FROM tasks WHERE NOT EXISTS"
        " (SELECT FROM users WHERE id = created_by UNION ALL"
        " SELECT FROM deleted_users WHERE id = created_by AND deleted_at IS NOT NULL)"
    ).fetchall()
    measure("authors of tasks that the new cell does not know", len(authors), exactly=0)
