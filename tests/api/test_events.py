"""GET /api/events: complete, in order, and honest about what may be missing."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest
from client import activate, count, error_message, invalid_field, new_database
from psycopg.rows import dict_row
from receivers import announce, subscribe
from statement import run, until_waiting

from service.webhooks import EVENT_TYPES
from service.webhooks.worker import Worker


def begin(client):
    page = client.get("/events").get_json()
    assert page["data"] == []
    return page["nextCursor"]


def read(client, cursor, **query):
    """Return the events after a cursor, page by page, and where to go on."""
    events = []
    while True:
        page = client.get("/events", query_string={"after": cursor, **query}).get_json()
        if not page["data"]:
            return events, page["nextCursor"]
        events += page["data"]
        cursor = page["nextCursor"]


def types(events):
    return [event["type"] for event in events]


def gone(client, cursor):
    response = client.get("/events", query_string={"after": cursor})
    assert error_message(response, 410).startswith(
        "after: events behind this cursor may be missing"
    )
    return True


def test_each_change_after_the_first_cursor_is_listed_once_in_order_deletions_too(alice):
    alice.post("/tasks", {"title": "Before"})
    cursor = begin(alice)
    task = alice.post("/tasks", {"title": "New"}).get_json()
    changed = alice.patch(f"/tasks/{task['id']}", {"status": "done"}).get_json()
    alice.delete(f"/tasks/{task['id']}")
    events, end = read(alice, cursor)
    assert types(events) == ["task.created", "task.updated", "task.deleted"]
    assert [event["data"] for event in events] == [task, changed, changed]
    assert read(alice, end) == ([], end)
    # A page of one is the same list.
    assert read(alice, cursor, limit=1)[0] == events


def test_the_bodies_are_those_of_webhooks_byte_for_byte(ada, cast, connection, receiver):
    subscribe(connection, cast["acme"], receiver.url)
    cursor = begin(ada)
    ada.post("/tasks", {"title": "Größe ≤ 1\u2028"})
    ada.post("/tasks", {"title": "Second"})
    bodies = [received.body for received in receiver.take_all()]
    listed = ada.get("/events", query_string={"after": cursor}).data
    assert listed.startswith(b'{"data": [' + b", ".join(bodies) + b'], "nextCursor": "')


def test_without_a_reader_and_a_webhook_no_event_is_written(alice, connection):
    alice.post("/tasks", {"title": "Unheard"})
    assert count(connection, "events") == 0
    begin(alice)
    alice.post("/tasks", {"title": "Heard"})
    assert count(connection, "events") == 1
    assert count(connection, "deliveries") == 0


def test_a_filter_by_type_passes_over_the_others_and_its_cursor_moves_on(alice):
    cursor = begin(alice)
    for title in "abc":
        task = alice.post("/tasks", {"title": title}).get_json()
    alice.delete(f"/tasks/{task['id']}")
    events, end = read(alice, cursor, type="task.deleted")
    assert types(events) == ["task.deleted"]
    # All others were before it: there is nothing more, of any type.
    assert read(alice, end) == ([], end)
    assert read(alice, cursor, type="meeting.created") == ([], end)
    message = invalid_field(alice.get("/events", query_string={"type": "task.moved"}), "type")
    assert message == f"must be one of: {', '.join(EVENT_TYPES)}"


def test_a_page_has_a_hundred_events_or_limit_at_most_500(alice, cast, connection):
    cursor = begin(alice)
    announce(connection, cast["acme"], 501)
    for query, length in ({}, 100), ({"limit": 7}, 7), ({"limit": 1000}, 500):
        page = alice.get("/events", query_string={"after": cursor, **query}).get_json()
        assert [event["data"]["number"] for event in page["data"]] == list(range(1, length + 1))
    assert len(read(alice, cursor)[0]) == 501


def test_a_page_has_at_most_a_mebibyte_of_bodies_or_one(alice, cast, connection):
    cursor = begin(alice)
    connection.execute(
        "SELECT announce(%s, 'task.created', json_build_object('text', repeat('x', 600000)))"
        " FROM generate_series(1, 3)",
        (cast["acme"],),
    )
    for _ in range(3):
        page = alice.get("/events", query_string={"after": cursor}).get_json()
        assert len(page["data"]) == 1
        cursor = page["nextCursor"]


@pytest.mark.usefixtures("unlimited")
def test_an_event_that_commits_after_a_later_one_is_not_passed_over(
    alice, cast, connection, database_url
):
    cursor = begin(alice)
    with psycopg.connect(database_url) as early:
        write = "SELECT announce(%s, 'task.created', json_build_object('title', %s::text))"
        early.execute(write, (cast["acme"], "early"))
        alice.post("/tasks", {"title": "late"})
        # The transaction before it may still commit.
        waiting, between = read(alice, cursor)
        assert waiting == []
        early.execute(write, (cast["acme"], "early too"))
        early.commit()
    events, end = read(alice, between)
    assert [event["data"]["title"] for event in events] == ["early", "late", "early too"]
    # Another workspace waits for no transaction of this one, and one that fails holds up none.
    with psycopg.connect(database_url) as failed:
        failed.execute(write, (cast["acme"], "never"))
        failed.rollback()
        alice.post("/tasks", {"title": "after"})
        assert [event["data"]["title"] for event in read(alice, end)[0]] == ["after"]


def test_one_transaction_with_many_events_takes_one_lock(alice, cast, database_url):
    begin(alice)
    with psycopg.connect(database_url) as writer:
        writer.execute(
            "SELECT announce(%s, 'task.created', '{}') FROM generate_series(1, 50)",
            (cast["acme"],),
        )
        (locks,) = writer.execute(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
        ).fetchone()
        assert locks == 1
        writer.rollback()


def test_the_order_is_that_of_the_changes_also_if_a_transaction_with_a_key_began_earlier(
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
def test_the_first_cursor_waits_for_changes_that_have_announced_nothing(
    alice, cast, connection, database_url
):
    with psycopg.connect(database_url) as writer:
        writer.execute(
            "INSERT INTO tasks (workspace_id, title, created_by) VALUES (%s, 'Slow', %s)",
            (cast["acme"], cast["alice"]),
        )
        response = alice.get("/events")
        assert "try again" in error_message(response, 503)
        assert response.headers["Retry-After"] == "1"
        # Nor does it give one to a second reader.
        assert alice.get("/events").status_code == 503
        writer.commit()
    begin(alice)
    assert [task["title"] for task in alice.get("/tasks").get_json()["data"]] == ["Slow"]


def test_a_cursor_of_another_workspace_is_gone(alice, bob, charlie, initech, cast, connection):
    cursor = begin(alice)
    begin(charlie)
    assert gone(charlie, cursor)
    # A colleague reads the same events.
    assert read(bob, cursor)[0] == []
    activate(connection, initech, cast["alice"])
    begin(alice)
    assert gone(alice, cursor)


def test_a_cursor_is_gone_in_a_copy_of_the_database(alice, connection, database_url):
    cursor = begin(alice)
    number, _, history = cursor.partition(".")
    assert gone(alice, f"{number}.{'0' * 32}")
    own = "SELECT cursor_history(ROW(%s, %s, 1, true, now())::feeds) AS history"
    (feed,) = connection.execute("SELECT workspace_id, history FROM feeds").fetchall()
    with (
        contextmanager(new_database)(database_url) as restored,
        psycopg.connect(restored, row_factory=dict_row) as copy,
    ):
        histories = [
            db.execute(own, (feed["workspace_id"], feed["history"])).fetchone()["history"].hex
            for db in (connection, copy)
        ]
    assert histories[0] == history != histories[1]


def test_events_older_than_webhook_keep_are_pruned_and_older_cursors_gone(app, alice, connection):
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


def test_a_feed_without_a_reader_ends_an_hour_after_webhook_keep(app, alice, connection):
    keep = app.config["SETTINGS"].webhook_keep
    cursor = begin(alice)
    for seconds, feeds in (3590, 1), (3610, 0):
        connection.execute(
            "UPDATE feeds SET read_at = now() - make_interval(hours => %s, secs => %s)",
            (keep, seconds),
        )
        if feeds:
            Worker(app.config["SETTINGS"]).run_once(deliver=False)
            assert read(alice, cursor) == ([], cursor)
            (row,) = connection.execute("SELECT now() - read_at < '1 s' AS now FROM feeds")
            assert row["now"], "a poll notes that the workspace is read"
    Worker(app.config["SETTINGS"]).run_once(deliver=False)
    alice.post("/tasks", {"title": "Unheard"})
    assert count(connection, "events") == 0
    assert gone(alice, cursor)
    assert begin(alice) != cursor


def test_a_reader_without_a_workspace_is_told_so_and_a_reader_who_left_has_none(
    app, bob, cast, connection
):
    cursor = begin(bob)
    connection.execute("DELETE FROM members WHERE user_id = %s", (cast["bob"],))
    assert "no active workspace" in error_message(bob.get("/events"), 409)
    assert gone(bob, cursor)


@pytest.mark.parametrize("cursor", ["", "1", "x", "1.2", "-1", f"1.{'0' * 31}", f"1.{'g' * 32}"])
def test_a_malformed_cursor_is_400(alice, cursor):
    response = alice.get("/events", query_string={"after": cursor})
    assert invalid_field(response, "after") == "must be the nextCursor of an earlier response"
