"""GET /api/events: complete, in order, and honest about what may be missing."""

import json
import pwd
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import dict_row
from support import front
from support.commands import CommandRunner
from support.http import Client, error_message, invalid_field
from support.receivers import announce, subscribe
from support.resources import TABLES
from support.rows import TOKENS, activate, count, insert, insert_member, insert_token
from support.statements import run, until_waiting

from service.api.event_types import EVENT_TYPES
from service.database.statements import STATEMENTS
from service.webhooks.worker import Worker

WRITTEN = re.compile(r"(?:INSERT INTO|UPDATE|DELETE FROM) ([a-z]\w*)")


def begin(client):
    page = client.get("/events").get_json()
    assert (page["data"], page["hasMore"]) == ([], False)
    return page["nextCursor"]


def read(client, cursor, **query):
    """Return the events after a cursor, read page by page, and the last cursor."""
    events, more = [], True
    while more:
        page = client.get("/events", query_string={"after": cursor, **query}).get_json()
        events += page["data"]
        cursor, more = page["nextCursor"], page["hasMore"]
    return events, cursor


def types(events):
    return [event["type"] for event in events]


def gone(client, cursor):
    response = client.get("/events", query_string={"after": cursor})
    message = error_message(response, 410)
    assert message.startswith("after: events since this cursor may be missing")
    # In the other order, a reader would miss the changes in between.
    assert message.index("new cursor") < message.index("list everything")
    return True


@pytest.mark.parametrize("role", ["owner", "admin", "member"])
@pytest.mark.parametrize("kind", ["api", "session", "of the workspace", "with a header"])
def test_each_change_after_the_first_cursor_is_listed_once_in_order_with_the_user_who_made_it(
    any_app, cast, connection, role, kind
):
    alice = Client(any_app, TOKENS["alice"])
    dora = insert(connection, "users", name="Dora", email="dora@example.com")
    for workspace in cast["globex"], cast["acme"]:
        insert_member(connection, workspace, dora, role)
    activate(connection, cast["globex" if "header" in kind else "acme"], dora)
    only = cast["acme"] if kind == "of the workspace" else None
    stored = "session" if kind == "session" else "api"
    insert_token(connection, dora, "tmw_dora", kind=stored, workspace_id=only)
    credential = {"cookie" if kind == "session" else "token": "tmw_dora"}
    client = Client(any_app, **credential)
    if "header" in kind:
        client.headers["Workspace-Id"] = cast["acme"]
    parent = alice.post("/tasks", {"title": "Of Alice"}).get_json()["id"]
    alice.post("/tasks", {"title": "Of Alice", "parentId": parent})
    cursor = begin(alice)
    client.delete(f"/tasks/{parent}")
    client.post("/tasks", {"title": "New", "assigneeId": dora})
    times = {"startTime": "2027-01-01T09:00:00Z", "endTime": "2027-01-01T10:00:00Z"}
    meeting = client.post("/meetings", {"title": "New", **times}).get_json()
    path, shown = f"/meetings/{meeting['id']}", [meeting]
    for changes in (
        {"title": "Other"},
        {"status": "completed", "summary": "Done"},
        {"notes": "Late"},
    ):
        shown.append(client.patch(path, changes).get_json())
    client.delete(path)
    events, end = read(alice, cursor)
    assert read(alice, end) == ([], end)
    # A page of one is the same list.
    assert read(alice, cursor, limit=1)[0] == events
    assert {event["actorId"] for event in events} == {dora}
    assert [(event["type"], *event["changed"]) for event in events] == [
        ("task.deleted",), ("task.deleted",), ("task.created",),
        ("meeting.created",), ("meeting.updated", "title"),
        ("meeting.completed", "status", "summary"), ("meeting.updated", "notes"),
        ("meeting.deleted",),
    ]  # fmt: skip
    assert [event["previous"] for event in events if event["previous"]] == [
        {"title": "New"}, {"status": "scheduled", "summary": None}, {"notes": None},
    ]  # fmt: skip
    # An event has the whole resource. For a meeting, that is what its own path shows.
    assert [event["data"] for event in events[3:]] == [*shown, shown[-1]]


POOLER = """
[databases]
service = {parts}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = 6432
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 1
ignore_startup_parameters = extra_float_digits
"""


@pytest.fixture(params=["PostgreSQL", pytest.param("PgBouncer", marks=pytest.mark.proof)])
def any_app(request, app, build, database_url, readable):
    """A service on PostgreSQL itself, or on a pooler in transaction mode with one connection."""
    if request.param == "PostgreSQL":
        yield app
        return
    if not shutil.which("pgbouncer"):
        pytest.skip("pgbouncer is not installed: a pooler in transaction mode is not tried")
    known = conninfo_to_dict(database_url)
    names = [name for name in ("host", "port", "dbname", "user") if name in known]
    parts = " ".join(f"{name}={known[name]}" for name in names)
    # PgBouncer runs as the owner of the folder with PostgreSQL's socket, which may be private.
    account = pwd.getpwuid(Path(known["host"]).stat().st_uid)
    with front.pgbouncer(readable, POOLER.replace("{parts}", parts), account) as port:
        url = f"postgresql://{known['user']}@127.0.0.1:{port}/service?sslmode=disable"
        yield build(database_url=url, database_prepare=False, web_threads=1)


def test_the_events_of_cleared_assignments_name_who_removed_the_member_or_nobody_for_a_command(
    any_app, cast, connection
):
    alice, bob = (Client(any_app, TOKENS[name]) for name in ("alice", "bob"))
    member = f"/workspaces/{cast['acme']}/members/{cast['bob']}"
    path = f"/tasks/{alice.post('/tasks', {'title': 'Write'}).get_json()['id']}"
    command, email = CommandRunner(any_app).invoke, "bob@example.com"
    for remove, actor in (
        (lambda: command(["member", "remove", "acme", email, "--yes"]), None),
        (lambda: alice.delete(member, headers={"Idempotency-Key": "k"}), cast["alice"]),
        (lambda: bob.delete(member), cast["bob"]),
        (lambda: command(["user", "delete", email, "--yes"]), None),
    ):
        connection.execute("DELETE FROM members WHERE user_id = %s", (cast["bob"],))
        insert_member(connection, cast["acme"], cast["bob"])
        alice.patch(path, {"assigneeId": cast["bob"]})
        cursor = begin(alice)
        remove()
        ((event,), _) = read(alice, cursor)
        assert (event["type"], event["actorId"]) == ("task.updated", actor)
        assert event["changed"] == ["assigneeId"]
        assert event["previous"] == {"assigneeId": cast["bob"]}
        assert event["data"] == alice.get(path).get_json()
        # Nobody of the workspace has made the change of a command.
        assert event["data"]["updatedBy"] == actor


def test_later_statements_on_a_connection_do_not_inherit_the_actor_of_a_removal(
    alice, cast, connection, insert_into, join
):
    """A pooler in transaction mode gives the connection to other clients; commands reuse it."""
    cursor = begin(alice)
    join("dora", "member")
    for name in ("bob", "dora"):
        insert_into("tasks", assignee_id=cast[name])
    removed = {"user_id": cast["alice"], "id": cast["acme"], "member_id": cast["bob"]}
    run(connection, "members/remove", **removed)
    run(connection, "users/delete", email="dora@example.com")
    events, _ = read(alice, cursor)
    assert [event["actorId"] for event in events] == [cast["alice"], None]


def test_cursors_get_410_after_the_command_load_has_added_tasks_or_meetings_to_the_workspace(
    app, alice, charlie, bob, cast, connection, initech
):
    """The command load announces nothing, so readers of these workspaces must begin again.

    Readers of other workspaces continue.
    """
    insert_member(connection, initech, cast["bob"])
    bob.headers["Workspace-Id"] = initech
    readers = {client: begin(client) for client in (alice, charlie, bob)}
    times = {"startTime": "2027-01-01T09:00:00Z", "endTime": "2027-01-01T10:00:00Z"}
    lines = [
        {"type": "task", "workspace": "acme", "title": "Loaded"},
        {"type": "meeting", "workspace": "globex", "title": "Loaded", **times},
        {"type": "knowledge", "workspace": "initech", "title": "Loaded"},
    ]
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    assert CommandRunner(app).invoke(["load", "-"], input=text).exit_code == 0
    for client in (alice, charlie):
        assert gone(client, readers[client])
    assert read(bob, readers[bob])[0] == []


def test_the_feed_lists_the_same_bytes_that_webhooks_get(ada, cast, connection, receiver):
    subscribe(connection, cast["acme"], receiver.url)
    cursor = begin(ada)
    ada.post("/tasks", {"title": "Größe ≤ 1\u2028"})
    ada.post("/tasks", {"title": "Second"})
    bodies = [received.body for received in receiver.take_all()]
    listed = ada.get("/events", query_string={"after": cursor}).data
    assert listed.startswith(b'{"data":[' + b",".join(bodies) + b'],"nextCursor":"')


def test_events_are_written_only_for_a_workspace_with_a_reader_or_a_webhook(alice, connection):
    alice.post("/tasks", {"title": "Unheard"})
    assert count(connection, "events") == 0
    begin(alice)
    alice.post("/tasks", {"title": "Heard"})
    assert count(connection, "events") == 1
    assert count(connection, "deliveries") == 0


def test_a_filter_by_type_skips_other_events_and_its_cursor_moves_past_them(alice):
    cursor = begin(alice)
    for title in "abc":
        task = alice.post("/tasks", {"title": title}).get_json()
    alice.delete(f"/tasks/{task['id']}")
    events, end = read(alice, cursor, type="task.deleted")
    assert types(events) == ["task.deleted"]
    # All other events came before this one, so no event of any type follows.
    assert read(alice, end) == ([], end)
    assert read(alice, cursor, type="meeting.created") == ([], end)
    message = invalid_field(alice.get("/events", query_string={"type": "task.moved"}), "type")
    assert message == f"must be one or more of: {', '.join(EVENT_TYPES)}; not 'task.moved'"


def test_the_feed_can_be_read_for_several_types_one_object_or_one_user(alice, bob, cast):
    cursor = begin(alice)
    first, second = (bob.post("/tasks", {"title": title}).get_json()["id"] for title in "ab")
    # The text of this event contains both ids and Alice's, but is about another task.
    known = {"first": first, "actorId": cast["alice"]}
    other = bob.post("/tasks", {"title": first, "parentId": second, "metadata": known}).get_json()
    alice.patch(f"/tasks/{first}", {"title": "c"})
    alice.delete(f"/tasks/{first}")

    def found(**query):
        events, end = read(alice, cursor, **query)
        # The cursor has moved past all events, so no event follows under other filters.
        assert read(alice, end) == ([], end)
        return [(event["type"].removeprefix("task."), event["data"]["id"]) for event in events]

    history = [("created", first), ("updated", first), ("deleted", first)]
    assert found(about=first) == found(about=first.upper(), limit=1) == history
    assert found(actorId="me") == found(actorId=cast["alice"]) == history[1:]
    assert found(type="task.deleted,task.updated") == history[1:]
    assert found(actorId=cast["bob"]) == [
        ("created", first), ("created", second), ("created", other["id"]),
    ]  # fmt: skip
    assert found(about=first, actorId="me", type="task.deleted,meeting.created") == history[2:]
    assert found(about=cast["acme"]) == []
    assert read(bob, cursor, actorId="me")[0] == read(alice, cursor, actorId=cast["bob"])[0]
    message = invalid_field(alice.get("/events?about=me"), "about")
    assert message.startswith("must be an id, like")


@pytest.mark.parametrize(("number", "bytes"), [(9_999, 10), (1_000, 20_000)])
def test_a_filtered_page_of_the_feed_searches_a_bounded_number_of_events_and_goes_on(
    alice, connection, cast, number, bytes
):
    cursor = begin(alice)
    task = alice.post("/tasks", {"title": "x"}).get_json()["id"]
    connection.execute(
        "INSERT INTO events (workspace_id, id, type, body)"
        " SELECT %s, new_id(), 'task.updated', to_json(repeat('x', %s))"
        "   FROM generate_series(1, %s)",
        (cast["acme"], bytes, number),
    )
    alice.delete(f"/tasks/{task}")
    for found, more in (["task.created"], True), (["task.deleted"], False):
        page = alice.get(f"/events?after={cursor}&about={task}").get_json()
        assert (types(page["data"]), page["hasMore"]) == (found, more)
        cursor = page["nextCursor"]
    assert read(alice, cursor) == ([], cursor)


def test_the_code_and_the_database_know_the_same_types_of_events(connection):
    """A type that only the database knew would be announced, but no page would describe it."""
    check = "SELECT pg_get_constraintdef(oid) AS text FROM pg_constraint WHERE conname = %s"
    (row,) = connection.execute(check, ("event must be a type of event",)).fetchall()
    assert re.findall(r"'([a-z.]+)'", row["text"]) == [*EVENT_TYPES]


def test_a_page_of_the_feed_has_100_events_or_as_many_as_limit_up_to_500(alice, cast, connection):
    cursor = begin(alice)
    announce(connection, cast["acme"], 501, "note.created")
    for query, length in ({}, 100), ({"limit": 7}, 7), ({"limit": 1000}, 500):
        page = alice.get("/events", query_string={"after": cursor, **query}).get_json()
        assert [event["data"]["number"] for event in page["data"]] == list(range(1, length + 1))
        assert page["hasMore"]
    assert len(read(alice, cursor)[0]) == 501
    last = alice.get("/events", query_string={"after": page["nextCursor"], "limit": 1}).get_json()
    assert (len(last["data"]), last["hasMore"]) == (1, False)


def test_a_page_of_the_feed_has_at_most_a_mebibyte_of_bodies_but_always_one_event(
    alice, cast, connection
):
    cursor = begin(alice)
    connection.execute(
        "SELECT announce(%s, 'note.created', to_json(repeat('x', 600000)))"
        " FROM generate_series(1, 3)",
        (cast["acme"],),
    )
    for more in (True, True, False):
        page = alice.get("/events", query_string={"after": cursor}).get_json()
        assert (len(page["data"]), page["hasMore"]) == (1, more)
        cursor = page["nextCursor"]


@pytest.mark.usefixtures("unlimited")
def test_the_feed_waits_for_an_event_whose_transaction_commits_late(
    alice, cast, connection, database_url
):
    cursor = begin(alice)
    with psycopg.connect(database_url) as early:
        write = "SELECT announce(%s, 'note.created', row_to_json(n)) FROM (SELECT %s AS title) AS n"
        early.execute(write, (cast["acme"], "early"))
        alice.post("/tasks", {"title": "late"})
        # The earlier transaction may still commit.
        waiting, between = read(alice, cursor)
        assert waiting == []
        early.execute(write, (cast["acme"], "early too"))
        early.commit()
    events, end = read(alice, between)
    assert [event["data"]["title"] for event in events] == ["early", "late", "early too"]
    # A transaction that fails delays no event.
    with psycopg.connect(database_url) as failed:
        failed.execute(write, (cast["acme"], "never"))
        failed.rollback()
        alice.post("/tasks", {"title": "after"})
        assert [event["data"]["title"] for event in read(alice, end)[0]] == ["after"]


def test_a_transaction_takes_one_lock_per_workspace_however_many_events_it_writes(
    alice, charlie, cast, database_url
):
    begin(alice)
    begin(charlie)
    with psycopg.connect(database_url) as writer:
        for workspaces in [cast["acme"], cast["globex"]], [cast["globex"]]:
            writer.execute(
                "SELECT announce(workspace_id, 'task.created', '{}')"
                "  FROM unnest(%s::uuid[]) AS workspace_id",
                (workspaces * 25,),
            )
            (locks,) = writer.execute(
                "SELECT count(*) FROM pg_locks"
                " WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
            ).fetchone()
            assert locks == len(workspaces)
            writer.commit()


def test_a_transaction_in_another_database_delays_no_event(alice, cast, database_url):
    cursor = begin(alice)
    alice.post("/tasks", {"title": "New"})
    key = "SELECT position_key(%s) | 2 AS key"
    with (
        psycopg.connect(database_url) as here,
        psycopg.connect(make_conninfo(database_url, dbname="postgres")) as elsewhere,
    ):
        (key,) = here.execute(key, (cast["acme"],)).fetchone()
        elsewhere.execute("SELECT pg_advisory_xact_lock_shared(%s)", (key,))
        assert len(read(alice, cursor)[0]) == 1


def test_events_are_in_the_order_of_the_changes_even_if_a_transaction_with_a_key_began_earlier(
    alice, bob, cast, connection, database_url
):
    cursor = begin(alice)
    path = f"/tasks/{alice.post('/tasks', {'title': 'New'}).get_json()['id']}"
    key = {"workspace_id": cast["acme"], "user_id": cast["bob"], "key": "k"}
    with psycopg.connect(database_url) as other, ThreadPoolExecutor(1) as threads:
        run(other, "idempotency/begin", **key, fingerprint=b"")
        slow = threads.submit(bob.patch, path, {"title": "b"}, headers={"Idempotency-Key": "k"})
        until_waiting(connection, slow)
        assert alice.patch(path, {"title": "a"}).status_code == 200
        other.rollback()
        assert slow.result().status_code == 200
    assert [event["data"]["version"] for event in read(alice, cursor)[0]] == [1, 2, 3]


@pytest.mark.usefixtures("unlimited")
def test_the_first_cursor_waits_for_the_end_of_changes_that_wrote_no_event(
    alice, cast, connection, database_url
):
    tables = connection.execute("SELECT unnest(announcing_tables())::text AS name").fetchall()
    for table in [row["name"] for row in tables]:
        connection.execute("DELETE FROM feeds")
        with psycopg.connect(database_url, row_factory=dict_row) as writer:
            TABLES[table].insert(writer, cast["acme"], {"user": cast["alice"]})
            # A second reader gets no cursor either.
            for _ in range(2):
                began = monotonic()
                response = alice.get("/events")
                assert "try again" in error_message(response, 503)
                assert response.headers["Retry-After"] == "1"
                # The request does not occupy a thread until a long load ends.
                assert monotonic() - began < 0.5
            writer.commit()
        begin(alice)
        assert count(connection, table) == 1


def test_the_first_cursor_waits_for_every_table_whose_changes_are_announced(connection):
    announced = {
        table
        for name, statement in STATEMENTS.items()
        if b"announce(" in statement.text and not name.startswith(("schema/", "functions/"))
        for table in WRITTEN.findall(statement.text.decode())
    } | {
        row["name"]
        for row in connection.execute(
            "SELECT tgrelid::regclass::text AS name FROM pg_trigger"
            "  JOIN pg_proc ON pg_proc.oid = tgfoid WHERE prosrc ~ 'announce\\('"
        )
    }
    waited = connection.execute("SELECT announcing_tables()::text[] AS names").fetchone()["names"]
    assert {*waited} == announced, "sql/functions/older_releases.sql: announcing_tables()"


def test_a_cursor_of_another_workspace_gets_410(alice, bob, charlie, initech, cast, connection):
    cursor = begin(alice)
    begin(charlie)
    assert gone(charlie, cursor)
    # A colleague reads the same events.
    assert read(bob, cursor)[0] == []
    activate(connection, initech, cast["alice"])
    begin(alice)
    assert gone(alice, cursor)


def test_a_cursor_gets_410_after_its_row_was_deleted_and_inserted_again(alice, connection):
    """tests/proof/test_restores.py tries each way to restore a database."""
    first = begin(alice)
    number = first.partition(".")[0]
    assert gone(alice, f"{number}.{'0' * 32}")
    (_, cursor) = read(alice, first)
    assert read(alice, cursor) == ([], cursor)
    with connection.transaction():
        connection.execute("CREATE TEMP TABLE dump ON COMMIT DROP AS TABLE event_cursors")
        connection.execute("DELETE FROM event_cursors")
        connection.execute("INSERT INTO event_cursors TABLE dump")
    assert gone(alice, cursor)


def test_the_first_cursor_and_later_cursors_of_empty_polls_get_410_after_the_server_restarts(
    alice, bob, connection
):
    """After a restart, the server may have files from before the reader listed everything."""
    first = begin(bob)
    alice.post("/tasks", {"title": "New"})
    (_, other) = read(bob, first)
    # Another reader begins at the same position. An empty poll returns a first cursor, too.
    second = begin(alice)
    cursors = [first, second, read(alice, second)[1], read(alice, second, type="task.deleted")[1]]
    assert (read(bob, other), read(alice, cursors[-1])) == (([], other), ([], cursors[-1]))
    connection.execute(
        "UPDATE event_cursors SET server_started = server_started - interval '1 s'"
        " WHERE server_started IS NOT NULL"
    )
    # The UPDATE has written the rows again. Compute the cursors that the new rows would have.
    started = connection.execute(
        "SELECT keyed_cursor(position, cursor_proof(history, id, event_cursors.xmin)) AS cursor"
        "  FROM feeds JOIN event_cursors USING (workspace_id) WHERE server_started IS NOT NULL"
    ).fetchall()
    for cursor in [*cursors, *(row["cursor"] for row in started)]:
        assert gone(alice, cursor)
    assert len(started) == 2
    assert read(alice, other) == ([], other)
    alice.post("/tasks", {"title": "Newer"})
    assert len(read(bob, other)[0]) == 1


def test_events_older_than_webhook_keep_are_pruned_and_cursors_before_them_get_410(
    app, alice, connection
):
    keep = app.config["SETTINGS"].webhook_keep
    old = begin(alice)
    alice.post("/tasks", {"title": "Old"})
    (_, middle) = read(alice, old)
    alice.post("/tasks", {"title": "New"})
    connection.execute(
        "UPDATE events SET created_at = now() - make_interval(hours => %s, secs => 1)"
        " WHERE body::json #>> '{data, title}' = 'Old'",
        (keep,),
    )
    Worker(app.config["SETTINGS"]).run_once(deliver=False)
    assert gone(alice, old)
    assert [event["data"]["title"] for event in read(alice, middle)[0]] == ["New"]
    assert count(connection, "event_cursors", f"position < {middle.partition('.')[0]}") == 0


def test_a_client_that_polls_once_a_week_misses_no_event(app, alice, connection):
    cursor = begin(alice)
    alice.post("/tasks", {"title": "Old"})
    connection.execute("UPDATE events SET created_at = now() - interval '8 days'")
    connection.execute("UPDATE feeds SET read_at = now() - interval '8 days'")
    Worker(app.config["SETTINGS"]).run_once(deliver=False)
    assert [event["data"]["title"] for event in read(alice, cursor)[0]] == ["Old"]


def test_an_event_is_kept_while_an_earlier_event_may_still_be_committed(
    alice, charlie, cast, connection, database_url
):
    """Charlie's later event, in another workspace, is pruned."""
    for client in (alice, charlie):
        begin(client)
    with psycopg.connect(database_url) as early:
        early.execute("SELECT announce(%s, 'note.created', '{}')", (cast["acme"],))
        for client in (alice, charlie):
            client.post("/tasks", {"title": "late"})
        connection.execute("UPDATE events SET created_at = '2020-01-01'")
        assert run(connection, "worker/prune_events", keep=72, after="")[0]["deleted"] == 1
        # A reader who begins now still gets both events, of which one is not committed yet.
        cursor = begin(alice)
        early.commit()
    assert len(read(alice, cursor)[0]) == 2
    assert run(connection, "worker/prune_events", keep=72, after="")[0]["deleted"] == 1


def test_a_request_during_which_the_feed_ends_returns_no_cursor(alice, cast, connection):
    cursor = begin(alice)
    connection.execute("UPDATE feeds SET read_at = NULL, ready = false")
    assert gone(alice, cursor)
    caller = {"workspace_id": cast["acme"], "user_id": cast["alice"]}
    assert run(connection, "events/await_older_releases", **caller) == [{"ready": False}]
    filters = {"type": None, "about": None, "actor_id": None}
    page = {"after": None, "after_id": None, "limit": 1, "settled": 2**40, **filters}
    assert run(connection, "events/list", **caller, **page) == []


def test_a_feed_without_a_reader_ends_an_hour_after_webhook_keep(app, alice, connection):
    keep = app.config["SETTINGS"].webhook_keep
    cursor = begin(alice)
    age = "UPDATE feeds SET read_at = now() - make_interval(hours => %s, secs => %s)"
    for hours, seconds, noted in (0, 3590, False), (0, 3610, True), (keep, 3590, True):
        connection.execute(age, (hours, seconds))
        Worker(app.config["SETTINGS"]).run_once(deliver=False)
        assert read(alice, cursor)[0] == []
        (row,) = connection.execute("SELECT now() - read_at < '1 s' AS now FROM feeds")
        assert row["now"] is noted, "a poll notes once an hour that the workspace is read"
    connection.execute(age, (keep, 3610))
    Worker(app.config["SETTINGS"]).run_once(deliver=False)
    alice.post("/tasks", {"title": "Unheard"})
    assert count(connection, "events") == 0
    assert gone(alice, cursor)
    assert begin(alice) != cursor


def test_a_reader_who_has_left_the_workspace_gets_409_and_the_old_cursor_gets_410(
    app, bob, cast, connection
):
    cursor = begin(bob)
    connection.execute("DELETE FROM members WHERE user_id = %s", (cast["bob"],))
    assert "no active workspace" in error_message(bob.get("/events"), 409)
    assert gone(bob, cursor)


@pytest.mark.parametrize("cursor", ["", "1", "x", "1.2", "-1", f"1.{'0' * 31}", f"1.{'g' * 32}"])
def test_a_malformed_cursor_gets_400(alice, cursor):
    response = alice.get("/events", query_string={"after": cursor})
    assert invalid_field(response, "after") == "must be the nextCursor of an earlier response"
