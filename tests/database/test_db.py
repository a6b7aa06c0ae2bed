"""The database: round trips per request, lost connections, and the cost of lists."""

import os
import re
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import psycopg
import pytest
from psycopg import sql
from psycopg_pool import PoolTimeout
from support.http import Client
from support.processes import RATE, wait_until
from support.proxy import Proxy
from support.rows import TOKENS, count
from support.statements import configure, flattened, numbered, until_waiting

from service.commands.plans import ListedPlan
from service.database.pool import Pool, Watchdog, WrongEncoding
from service.database.statements import STATEMENTS
from service.http.access_log import QUEUED

TASK = {"title": "Write the report"}


def alice_at(app):
    return Client(app, TOKENS["alice"])


def open_pool(app):
    """Return the pool of a service that has had no request yet."""
    app.extensions["pool"].open()
    return app.extensions["pool"]


def unavailable(response):
    assert response.status_code == 503
    assert response.content_type == "application/json"
    assert response.get_json()["status"] == 503
    assert "database" in response.get_json()["message"]
    assert int(response.headers["Retry-After"]) >= 1
    return True


# Round trips

READS = (
    "/tasks", "/tasks?limit=1&status=todo", "/tasks?assignee={alice}", "/tasks?assignee=me",
    "/tasks/{task}", "/tasks/unknown", "/me", "/meetings",
    "/meetings?upcoming=true&workspaceId={acme}",
    "/meetings/{meeting}", "/workspaces", "/workspaces/{acme}", "/workspaces/{acme}/members",
    "/dashboard/stats", "/mail", "/knowledge", "/knowledge?q=x", "/ai/suggestions",
)  # fmt: skip
TIMES = {"startTime": "2026-01-01T10:00Z", "endTime": "2026-01-01T11:00Z"}
WRITES = (
    ("POST", "/tasks", TASK),
    ("PATCH", "/tasks/{task}", {"title": "Another"}),
    ("PATCH", "/tasks/{task}", {}),
    ("DELETE", "/tasks/unknown", None),
    ("DELETE", "/tasks/{task}", None),
    ("POST", "/meetings", {"title": "Plan", **TIMES}),
    ("PATCH", "/meetings/{meeting}", {"status": "completed", "summary": "Done"}),
    ("PATCH", "/workspaces/{acme}", {"name": "Acme & Co"}),
)


def traced(app, method, path, body=None):
    """Return the messages that libpq sends and gets during a request on the only connection."""
    pool = app.extensions["pool"]
    with tempfile.TemporaryFile("r") as trace:
        with pool.connection() as connection:
            connection.pgconn.trace(trace.fileno())
        response = alice_at(app).send(method, path, json=body)
        with pool.connection() as connection:
            connection.pgconn.untrace()
        assert response.status_code < 500
        trace.seek(0)
        sent = re.findall(r"^[0-9 :.-]+\tF\t[0-9]+\t(\w+)", trace.read(), re.MULTILINE)
    return {
        "statements": sent.count("Execute") + sent.count("Query"),
        "round trips": sent.count("Sync") + sent.count("Query"),
    }


@pytest.mark.parametrize("prepare", [True, False])
def test_a_request_with_a_token_that_was_used_just_now_is_two_statements_in_two_round_trips(
    build, cast, prepare
):
    app = build(web_threads=1, database_prepare=prepare)
    alice = alice_at(app)
    names = {
        **cast,
        "task": alice.post("/tasks", TASK).get_json()["id"],
        "meeting": alice.post("/meetings", {"title": "Plan", **TIMES}).get_json()["id"],
    }
    reads = [("GET", path, None) for path in READS]
    for method, path, body in (*reads, *WRITES):
        # The first run prepares the statements, and notes the use of the token for a minute.
        for _ in range(2):
            alice.send(method, path.format(**{**names, "task": "unknown"}), json=body)
        path = path.format(**names)
        trips = traced(app, method, path, body)
        assert (method, path, trips) == (method, path, {"statements": 2, "round trips": 2})


def test_a_request_that_fails_at_once_is_the_statement_of_the_gate_alone(build):
    app = build(web_threads=1)
    for _ in range(2):
        alice_at(app).get("/nothing")
    assert traced(app, "GET", "/nothing") == {"statements": 1, "round trips": 1}
    assert traced(app, "POST", "/tasks", []) == {"statements": 1, "round trips": 1}


def test_the_app_opens_no_connection_before_its_first_request(build, connection):
    app = build()
    assert app.extensions["pool"].closed
    app.test_client().get("/openapi.json")
    assert app.extensions["pool"].closed


def test_a_connection_of_the_pool_has_its_timeouts_and_its_planner(build):
    app = build(statement_timeout=3.5, web_threads=1)
    assert alice_at(app).get("/tasks").status_code == 200
    with app.extensions["pool"].connection() as connection:
        for name, value in (
            # Only the counter of requests is written without waiting for the disk.
            ("synchronous_commit", "on"),
            ("statement_timeout", "3500ms"),
            ("lock_timeout", "3500ms"),
            ("idle_in_transaction_session_timeout", "10s"),
            ("plan_cache_mode", "force_generic_plan"),
            ("enable_seqscan", "off"),
            ("jit", "off"),
        ):
            assert connection.execute(f"SHOW {name}").fetchone()[0] == value


def test_a_dead_peer_is_detected_after_15_seconds_on_linux_and_after_25_elsewhere(build):
    pool = open_pool(build())
    with pool.connection() as connection:
        options = connection.info.get_parameters()
    assert options["connect_timeout"] == "2"
    idle, user_timeout = int(options["keepalives_idle"]), int(options["tcp_user_timeout"]) / 1000
    # With data in flight.
    assert user_timeout == 5
    assert idle + user_timeout == 15
    assert idle + int(options["keepalives_interval"]) * int(options["keepalives_count"]) == 25


def test_the_watchdog_comes_after_the_timeout_of_the_statement_and_within_a_second(build):
    pool = build(statement_timeout=3.5).extensions["pool"]
    assert 3.5 < pool.seconds < pool.seconds + Watchdog.INTERVAL < 4.5


def test_a_closed_pool_has_ended_its_connections(build):
    pool = open_pool(build())
    first, second = pool.getconn(), pool.getconn()
    pool.putconn(first)
    pool.close()
    assert pool.closed
    assert first.closed
    pool.putconn(second)
    assert second.closed


class Pooler(Proxy):
    """Like poolers that report only some parameters of the server."""

    def forwarded(self, content):
        return content.replace(b"server_encoding", b"hidden_encoding")


def test_a_database_behind_a_pooler_that_does_not_report_its_encoding_is_used(build, database_url):
    pooler = Pooler(database_url)
    app = build(database_url=pooler.url)
    with open_pool(app).connection(timeout=60) as connection:
        assert connection.info.parameter_status("server_encoding") is None
    assert alice_at(app).get("/tasks").status_code == 200
    app.extensions["pool"].close()
    pooler.close()


# Prepared statements


@pytest.fixture
def changed(connection):
    """Return a function that changes the type of a column; the old type comes back in the end."""
    old = []

    def change(table, column):
        connection.execute(f"ALTER TABLE {table} ALTER {column} TYPE bigint")
        old.append((table, column))

    yield change
    for table, column in old:
        connection.execute(f"ALTER TABLE {table} ALTER {column} TYPE integer")


def test_a_migration_that_changes_the_type_of_a_result_fails_no_request(build, changed):
    app = build(web_threads=1)
    alice = alice_at(app)
    assert alice.get("/tasks").status_code == 200
    changed("usage", "minute_count")
    assert [alice.get("/tasks").status_code for _ in range(2)] == [200] * 2
    # They are prepared again.
    assert traced(app, "GET", "/tasks") == {"statements": 2, "round trips": 2}


def test_within_a_transaction_a_changed_type_is_503_once_and_writes_nothing(
    build, changed, connection
):
    alice = alice_at(build(web_threads=1))
    assert alice.post("/tasks", TASK, headers={"Idempotency-Key": "1"}).status_code == 201
    changed("idempotency_keys", "status")
    assert unavailable(alice.post("/tasks", TASK, headers={"Idempotency-Key": "2"}))
    assert count(connection, "tasks") == 1
    assert alice.post("/tasks", TASK, headers={"Idempotency-Key": "2"}).status_code == 201
    assert count(connection, "tasks") == 2


def test_prepared_statements_that_the_server_has_forgotten_fail_no_request(build):
    app = build(web_threads=1)
    alice = alice_at(app)
    assert alice.get("/tasks").status_code == 200
    with app.extensions["pool"].connection() as connection:
        connection.execute("DEALLOCATE ALL")
    assert [alice.get("/tasks").status_code for _ in range(2)] == [200] * 2


def test_a_pooler_that_mixes_up_prepared_statements_is_logged_with_the_setting_that_ends_it(
    build, logged
):
    app = build(web_threads=1)
    with open_pool(app).connection() as connection:
        statement = STATEMENTS["gate/authenticate_and_count"]
        connection.pgconn.prepare(statement.name, statement.text)
    assert unavailable(alice_at(app).get("/tasks"))
    (record,) = logged()
    assert "already exists: set DATABASE_PREPARE=off: a connection pooler" in record.getMessage()


def test_a_statement_for_one_row_that_returns_more_is_an_error(build):
    with open_pool(build()).connection() as connection:
        assert len(connection.rows(ListedPlan, "plans/list", {})) > 1
        with pytest.raises(ValueError, match="too many values"):
            connection.row(ListedPlan, "plans/list", {})


def test_the_connection_that_was_used_last_is_used_next(build):
    pool = open_pool(build(web_threads=3))
    first, second, third = (pool.getconn() for _ in range(3))
    for connection in (first, third, second):
        pool.putconn(connection)
    for _ in range(3):
        with pool.connection() as connection:
            assert connection is second
    assert [pool.getconn() for _ in range(3)] == [second, third, first]
    for connection in (first, second, third):
        pool.putconn(connection)


def test_after_a_wait_in_vain_the_next_one_gets_the_connection_that_becomes_free(build):
    pool = open_pool(build(web_threads=1, pool_timeout=5))
    only = pool.getconn()
    with pytest.raises(PoolTimeout, match=r"within 0\.0 s"):
        pool.getconn(0)
    with ThreadPoolExecutor(1) as threads:
        following = threads.submit(pool.take, time.monotonic() + 5, 0)
        # Longer than a request waits that has waited for a thread.
        with pytest.raises(TimeoutError):
            following.result(2 * pool.SHORTEST_WAIT)
        pool.putconn(only)
        assert following.result() is only
    pool.give_back(only)


def test_a_wait_for_a_database_that_refuses_connections_costs_no_later_request_its_turn(
    build, proxy
):
    proxy.refuse()
    pool = open_pool(build(database_url=proxy.url, web_threads=1))
    for _ in range(2):
        with pytest.raises(PoolTimeout):
            pool.getconn(0.1)
    proxy.listen()
    pool.putconn(pool.getconn(10))
    pool.close()


def test_a_connection_whose_end_is_interrupted_costs_no_later_request_its_turn(build):
    def interrupted():
        raise KeyboardInterrupt

    pool = open_pool(build(web_threads=1))
    connection = pool.getconn()
    connection.execute("BEGIN")
    connection.rollback = interrupted
    with pytest.raises(KeyboardInterrupt):
        pool.putconn(connection)
    pool.putconn(pool.getconn())


def test_a_connection_to_a_database_of_another_encoding_is_closed(build):
    """The next one may lead to another database, so the encoding is that of the newest."""
    pool = open_pool(build(web_threads=1))
    pool.give_back(pool.take(time.monotonic() + 5, 0))
    pool.encoding = "SQL_ASCII"
    with pytest.raises(WrongEncoding):
        pool.take(time.monotonic() + 5, 0)
    pool.give_back(pool.take(time.monotonic() + 5, 0))


def test_a_request_with_half_a_second_left_gets_a_connection_and_one_with_none_does_not(build):
    pool = open_pool(build())
    pool.give_back(pool.take(time.monotonic() + 0.5, 0))
    with pytest.raises(PoolTimeout, match="no time is left"):
        pool.take(time.monotonic(), 0)


def test_a_connection_goes_back_to_psycopg_pool_when_it_was_kept_for_long_or_was_drained(build):
    pool = open_pool(build(web_threads=2))
    kept, idle = pool.getconn(), pool.getconn()
    for connection in (idle, kept):
        pool.putconn(connection)
    assert pool.get_stats()["pool_available"] == 0
    # It ends old connections, and those that nothing has used for ten minutes.
    idle.taken_at -= pool.MAX_WARM_SECONDS
    with pool.connection():
        pass
    assert pool.get_stats()["pool_available"] == 1
    with pool.connection() as used:
        pool.drain()
        # This one is free before it.
        with pool.connection() as new:
            assert new not in (kept, idle)
    assert used.closed
    assert not new.closed


def test_more_threads_than_connections_each_find_one_in_time_even_if_some_are_broken(build):
    pool = open_pool(build(web_threads=3, pool_timeout=20))

    def use(number):
        with pool.connection() as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
            if number % 7 == 0:
                connection.close()

    with ThreadPoolExecutor(8) as threads:
        assert len(list(threads.map(use, range(200)))) == 200


# Lost connections


def terminate_pool(connection):
    return len(
        connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name LIKE 'task-service %'"
        ).fetchall()
    )


def test_no_request_fails_after_all_connections_were_terminated(build, connection):
    app = build(web_threads=4)
    alice, pool = alice_at(app), open_pool(app)
    for concurrent in (False, True):
        # The pool opens all its connections.
        for used in [pool.getconn() for _ in range(4)]:
            pool.putconn(used)
        assert terminate_pool(connection) >= 4
        if concurrent:
            with ThreadPoolExecutor(4) as threads:
                responses = threads.map(lambda _: alice_at(app).post("/tasks", TASK), range(40))
            assert [response.status_code for response in responses] == [201] * 40
        else:
            assert app.test_client().get("/healthz").status_code == 200
            assert [alice.get("/tasks").status_code for _ in range(6)] == [200] * 6
    assert count(connection, "tasks") == 40


def test_an_idle_pool_replaces_all_connections_when_one_has_ended(build, connection):
    app = build(web_threads=3)
    pool = open_pool(app)
    for used in [pool.getconn() for _ in range(3)]:
        pool.putconn(used)
    assert terminate_pool(connection) >= 3
    pool.check_idle()
    new = [pool.getconn() for _ in range(3)]
    assert [each.execute("SELECT 1").fetchone() for each in new] == [(1,)] * 3
    for each in new:
        pool.putconn(each)


def test_an_idle_pool_connects_again_by_itself(build, proxy, monkeypatch):
    """First psycopg_pool gives up, as it does after five seconds."""
    monkeypatch.setattr(Pool, "CHECK_INTERVAL", 0.05)
    pool = build(database_url=proxy.url).extensions["pool"]
    pool.reconnect_timeout = 0.05
    failed = Event()
    pool._reconnect_failed = lambda _pool: failed.set()
    pool.stay_connected()
    for _ in range(2):
        wait_until(lambda: pool._warm)
        proxy.refuse()
        assert failed.wait(60)
        proxy.listen()
        failed.clear()
    wait_until(lambda: pool._warm)
    pool.close()


@pytest.mark.parametrize("end", ["termination", "timeout"])
def test_a_request_whose_connection_or_time_ends_is_503_and_writes_nothing(build, connection, end):
    app = build(web_threads=1, statement_timeout=0.2 if end == "timeout" else 10)
    task = alice_at(app).post("/tasks", TASK).get_json()
    with ThreadPoolExecutor(1) as threads, connection.transaction():
        connection.execute("SELECT FROM tasks FOR UPDATE")
        waiting = threads.submit(alice_at(app).patch, f"/tasks/{task['id']}", {"title": "Other"})
        if end == "termination":
            until_waiting(connection, waiting)
            terminate_pool(connection)
        response = waiting.result(timeout=60)
        assert unavailable(response)
        assert response.headers["X-RateLimit-Limit"] == "1000"
    assert alice_at(app).get(f"/tasks/{task['id']}").get_json() == task


def test_a_write_to_a_read_only_database_is_503(build, connection, database_url):
    read_only = {"conninfo": database_url, "options": "-c default_transaction_read_only=on"}
    app = build(database_url=psycopg.conninfo.make_conninfo(**read_only))
    assert unavailable(alice_at(app).post("/tasks", TASK))
    assert count(connection, "tasks") == 0


def test_when_all_connections_are_taken_the_response_is_503_after_the_pool_timeout(build):
    app = build(web_threads=1, pool_timeout=0.2)
    pool = open_pool(app)
    with pool.connection():
        assert pool.timeout == 0.2
        assert unavailable(alice_at(app).get("/tasks"))
    assert alice_at(app).get("/tasks").status_code == 200


def test_without_a_database_every_response_is_503_within_3_seconds(build, away):
    app = build(database_url=away)
    requests = "GET /api/tasks", "POST /api/tasks", "GET /nothing", "GET /healthz"

    def send(request):
        method, path = request.split()
        return app.test_client().open(path, method=method)

    with ThreadPoolExecutor(4) as threads:
        start = time.monotonic()
        for response in threads.map(send, requests):
            assert unavailable(response)
            if response.request.path != "/healthz":
                assert all(response.headers[name].isdigit() for name in RATE)
                # Nothing is left while nothing can be counted.
                assert response.headers["X-RateLimit-Remaining"] == "0"
        assert time.monotonic() - start < 3
    assert app.test_client().get("/openapi.json").status_code == 200


def test_without_a_database_a_request_that_has_waited_for_a_thread_does_not_wait_again(build, away):
    app = build(database_url=away, pool_timeout=4)
    start = time.monotonic()
    # 0.2 s each.
    for _ in range(5):
        assert unavailable(app.test_client().get("/api/tasks", environ_overrides={QUEUED: 4}))
    assert time.monotonic() - start < 4


def test_a_database_that_starts_later_is_used_without_a_restart(build, database_url):
    """The folder of its socket is empty at first, and leads to Postgres later."""
    parts = psycopg.conninfo.conninfo_to_dict(database_url)
    if not parts.get("host", "").startswith("/"):
        pytest.skip("needs Postgres on a Unix socket")
    with tempfile.TemporaryDirectory() as folder:
        url = psycopg.conninfo.make_conninfo(database_url, host=folder)
        app = build(database_url=url, pool_timeout=0.5)
        assert unavailable(alice_at(app).get("/tasks"))
        name = f".s.PGSQL.{parts.get('port', 5432)}"
        os.symlink(f"{parts['host']}/{name}", f"{folder}/{name}")
        end = time.monotonic() + 5
        while alice_at(app).get("/tasks").status_code != 200:
            assert time.monotonic() < end


# The cost of lists

MEMBER = "00000000-0000-7000-8000-00000000000a"
WORKSPACE = "00000000-0000-7000-8000-00000000000b"
OTHER = "00000000-0000-7000-8000-00000000000c"


MANY = """
INSERT INTO workspaces (id, name, slug)
VALUES ({workspace}, 'Big', 'big'), ({other}, 'Other', 'other');
INSERT INTO users (id, email, name)
VALUES ({member}, 'm@example.com', 'M'), ({other}, 'o@example.com', 'O');
INSERT INTO members (workspace_id, user_id)
VALUES ({workspace}, {member}), ({workspace}, {other}), ({other}, {member});
INSERT INTO tasks (workspace_id, id, title, assignee_id, project_id, created_by)
SELECT CASE WHEN n % 10 = 0 THEN {other} ELSE {workspace} END::uuid,
       new_id(now() - n * interval '1 second'),
       'Task',
       CASE WHEN n % 250 = 1 THEN {member}::uuid END,
       CASE WHEN n % 250 = 2 THEN 'p' END,
       {member}
  FROM generate_series(1, 12500) AS n;
INSERT INTO meetings (workspace_id, title, start_time, end_time, created_by)
SELECT CASE WHEN n % 10 = 0 THEN {other} ELSE {workspace} END::uuid,
       'Meeting', at, at + interval '1 hour', {member}
  FROM generate_series(1, 6000) AS n
 CROSS JOIN LATERAL (
       SELECT date_trunc('minute', now()) + (n - 3000) * interval '1 hour' AS at
       ) AS start;
INSERT INTO mail (workspace_id, user_id, sender, received_at)
SELECT {workspace}, CASE WHEN n % 10 = 0 THEN {other} ELSE {member} END::uuid, 'a@example.com',
       date_trunc('minute', now()) - n * interval '1 minute'
  FROM generate_series(1, 6000) AS n;
INSERT INTO knowledge (workspace_id, id, title)
SELECT {workspace}, new_id(now() - n * interval '1 second'), 'Entry'
  FROM generate_series(1, 3000) AS n;
INSERT INTO suggestions (workspace_id, id, kind, title, status)
SELECT {workspace}, new_id(now() - n * interval '1 second'), 'task', 'Do it',
       CASE WHEN n % 10 = 0 THEN 'pending' ELSE 'accepted' END
  FROM generate_series(1, 6000) AS n;
ANALYZE tasks, meetings, mail, knowledge, suggestions, members
"""


@pytest.fixture(scope="module")
def many(database_url):
    """A transaction in which every table is large; it is never committed, so no other sees it.

    Most rows are in one workspace: a statement that forgets the tenant is slow.
    """
    names = {"member": MEMBER, "workspace": WORKSPACE, "other": OTHER}
    literals = {name: sql.Literal(value) for name, value in names.items()}
    with psycopg.connect(database_url) as connection, connection.transaction(force_rollback=True):
        for statement in MANY.split(";\n"):
            connection.execute(sql.SQL(statement).format(**literals))
        yield connection


def plan(connection, name, mode, **values):
    """The nodes of the plan of a prepared ``sql/<name>.sql`` that runs with these values."""
    text, names = numbered(name)
    literals = sql.SQL(", ").join(sql.Literal(values.get(each)) for each in names)
    configure(connection)
    connection.execute(f"SET LOCAL plan_cache_mode = {mode}")
    connection.execute(f"PREPARE counted AS {text}")
    explain = "EXPLAIN (ANALYZE, TIMING off, FORMAT json) EXECUTE counted ({})"
    (tree,) = connection.execute(sql.SQL(explain).format(literals)).fetchone()[0]
    connection.execute("DEALLOCATE counted")
    return flattened(tree)


# The beginning of a page: at the top, in the middle, near the end.
DEPTHS = 0.0, 0.5, 0.98
PENDING = "workspace_id = {workspace} AND status = 'pending'"
LISTS = {
    "tasks/list": ("tasks", "workspace_id = {workspace}", "id DESC"),
    "knowledge/list": ("knowledge", "workspace_id = {workspace}", "id DESC"),
    "suggestions/list": ("suggestions", PENDING, "id DESC"),
    "mail/list": ("mail", "user_id = {member}", "received_at DESC, id DESC"),
    "meetings/list": ("meetings", "true", "start_time DESC, id DESC"),
    "meetings/upcoming": ("meetings", "start_time > now()", "start_time, id"),
}
KEYS = {"mail": "to_millis(received_at)", "meetings": "to_millis(start_time)"}


def cursor_at(connection, table, where, order, depth):
    """Return sort key and id of the row before a page at this depth."""
    if depth == 0:
        return {"after": None, "after_id": None}
    where = where.format(workspace=f"'{WORKSPACE}'", member=f"'{MEMBER}'")
    rows = f"FROM {table} WHERE {where}"
    key = KEYS.get(table, "NULL")
    after, after_id = connection.execute(
        f"SELECT {key}, id {rows} ORDER BY {order}"
        f" OFFSET (SELECT (count(*) * {depth})::integer {rows}) LIMIT 1"
    ).fetchone()
    return {"after": after, "after_id": str(after_id)}


def cheap(nodes, table, limit):
    """Check that the plan scans no whole table, sorts one page at most, and reads few rows."""
    page = limit + 1
    scans = [node for node in nodes if node.get("Relation Name") == table]
    assert scans
    for node in scans:
        assert "Index" in node["Node Type"] or "Bitmap" in node["Node Type"]
        rows = "Actual Rows", "Rows Removed by Filter", "Rows Removed by Index Recheck"
        assert sum(node.get(name, 0) for name in rows) <= 2 * page
    for node in nodes:
        if "Sort" in node["Node Type"]:
            # One page of each of the caller's two workspaces.
            assert node["Plans"][0]["Actual Rows"] * node["Plans"][0]["Actual Loops"] <= 2 * page
    return True


GENERIC, CUSTOM = "force_generic_plan", "force_custom_plan"
FILTERS = [
    {"assignee_id": MEMBER},
    {"project_id": "p"},
    {"status": ["todo"]},
    {"priority": ["medium"]},
    {"assignee_id": MEMBER, "status": ["todo"], "priority": ["medium"]},
]
PAGES = [
    *((name, {}, mode) for name in LISTS for mode in (CUSTOM, GENERIC)),
    *(("tasks/filter", filters, CUSTOM) for filters in FILTERS),
    *(
        (name, {"only_workspace_id": workspace}, GENERIC)
        for name in ("meetings/list", "meetings/upcoming")
        for workspace in (WORKSPACE, OTHER)
    ),
]


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize(("name", "filters", "mode"), PAGES)
def test_a_page_of_a_list_costs_a_page_at_any_depth(many, name, filters, mode, depth):
    listed = LISTS.get(name, LISTS["tasks/list"])
    values = {"user_id": MEMBER, "workspace_id": WORKSPACE, "limit": 50, **filters}
    nodes = plan(many, name, mode, **values, **cursor_at(many, *listed, depth))
    assert nodes[0]["Actual Rows"] == 1
    assert cheap(nodes, listed[0], 50)


@pytest.mark.parametrize("name", ["tasks/get", "meetings/get"])
def test_one_object_is_found_by_an_index(many, name):
    table = name.split("/")[0]
    (id,) = many.execute(
        f"SELECT id FROM {table} WHERE workspace_id = '{WORKSPACE}' LIMIT 1"
    ).fetchone()
    for mode in (CUSTOM, GENERIC):
        nodes = plan(many, name, mode, user_id=MEMBER, workspace_id=WORKSPACE, id=str(id))
        assert cheap(nodes, table, 1)
