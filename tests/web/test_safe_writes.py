"""Safe writes: a repeated request runs once, and no client overwrites a version it has not read."""

from itertools import product

import pytest
from support.http import Client, error_message, invalid_field, location
from support.receivers import deliveries, subscribe
from support.rows import TOKENS, UNKNOWN, activate, count, insert_member, row_of
from support.statements import trigger

from service.webhooks.worker import Worker

TIMES = {"startTime": "2027-01-01T10:00:00Z", "endTime": "2027-01-01T11:00:00Z"}
NOWHERE = "https://example.com/hook"

# Each write: the path, a body, and another body.
WRITES = {
    "POST task": ("/tasks", {"title": "New"}, {"title": "Other"}),
    "POST meeting": ("/meetings", {"title": "New", **TIMES}, {"title": "Other", **TIMES}),
    "PATCH task": ("/tasks/{task}", {"title": "New"}, {"title": "Other"}),
    "PATCH meeting": ("/meetings/{meeting}", {"status": "completed"}, {"title": "Other"}),
    "PATCH workspace": ("/workspaces/{acme}", {"name": "New"}, {"name": "Other"}),
    "DELETE task": ("/tasks/{task}", None, {}),
}


@pytest.fixture
def ids(alice, cast, connection):
    """The cast, a task and a meeting of Acme, all in their first version; no webhook yet."""
    return {
        **cast,
        "task": alice.post("/tasks", {"title": "Old"}).get_json()["id"],
        "meeting": alice.post("/meetings", {"title": "Old", **TIMES}).get_json()["id"],
    }


@pytest.fixture
def subscribed(ids, connection):
    """Insert a webhook of Acme, so that changes write events; no event is posted."""
    return {**ids, "webhook": subscribe(connection, ids["acme"], NOWHERE)}


@pytest.fixture
def at_once(alice, subscribed, together):
    """Return a function that changes the task's title with several requests at the same time."""
    path = f"/tasks/{subscribed['task']}"

    def change(title, headers):
        return lambda: alice.patch(path, {"title": title}, headers=headers)

    def at_once(*requests):
        return together("tasks", subscribed["task"], *(change(*request) for request in requests))

    return at_once


def keyed(key="k-1", **others):
    return {"Idempotency-Key": key, **others}


def replayed(response):
    return response.headers.get("Idempotent-Replayed") == "true"


def snapshot(connection):
    tables = "tasks", "meetings", "workspaces", "events", "deliveries"
    return [connection.execute(f"SELECT * FROM {table} ORDER BY id").fetchall() for table in tables]


# Idempotency-Key


@pytest.mark.parametrize("name", WRITES)
def test_a_repeat_gets_the_first_response_and_another_body_with_the_same_key_gets_422(
    alice, subscribed, connection, name
):
    path, body, other = WRITES[name]
    path, method = path.format(**subscribed), name.split()[0]
    first = alice.send(method, path, json=body, headers=keyed())
    assert first.status_code == {"POST": 201, "PATCH": 200, "DELETE": 204}[method]
    assert not replayed(first)
    before = snapshot(connection)
    for _ in range(2):
        wrong = error_message(alice.send(method, path, json=other, headers=keyed()), 422)
        assert wrong.startswith("Idempotency-Key: was used for another request")
        repeat = alice.send(method, path, json=body, headers=keyed())
        assert replayed(repeat)
        assert (repeat.status_code, repeat.data) == (first.status_code, first.data)
        for header in ("Location", "ETag", "Content-Type", "Content-Length"):
            assert repeat.headers.get(header) == first.headers.get(header)
        assert repeat.headers["X-Request-Id"] != first.headers["X-Request-Id"]
    assert ("Location" in first.headers) == (method == "POST")
    assert ("ETag" in first.headers) == (method != "DELETE")
    assert snapshot(connection) == before
    assert count(connection, "events") == (0 if "workspace" in name else 1)
    assert count(connection, "idempotency_keys") == 1


def test_a_repeat_gets_the_first_response_even_after_later_changes(alice, ids, connection):
    path = f"/tasks/{ids['task']}"
    options = {"json": {"title": "New"}, "headers": keyed(**{"If-Match": '"1"'})}
    first = alice.send("PATCH", path, **options)
    alice.patch(path, {"title": "Newer"})
    repeat = alice.send("PATCH", path, **options)
    assert (repeat.status_code, repeat.data, repeat.headers["ETag"]) == (200, first.data, '"2"')
    assert replayed(repeat)
    assert alice.delete(path).status_code == 204
    assert alice.send("PATCH", path, **options).data == first.data
    assert row_of(connection, "tasks", ids["task"]) is None


def test_the_key_the_change_its_event_and_the_response_are_one_transaction(
    alice, subscribed, connection
):
    created = alice.post("/tasks", {"title": "New"}, headers=keyed())
    (stored,) = connection.execute("SELECT *, xmin::text AS xmin FROM idempotency_keys").fetchall()
    assert (stored["status"], stored["body"]) == (201, created.get_data(as_text=True))
    assert stored["headers"] == {name: created.headers[name] for name in ("Location", "ETag")}
    transactions = connection.execute(
        "SELECT xmin::text FROM tasks WHERE title = 'New'"
        " UNION ALL SELECT xmin::text FROM events UNION ALL SELECT xmin::text FROM deliveries"
    ).fetchall()
    assert [row["xmin"] for row in transactions] == [stored["xmin"]] * 3


def test_without_an_idempotency_key_every_write_runs_and_none_is_stored(alice, ids, connection):
    responses = [alice.post("/tasks", {"title": "Twice"}) for _ in range(2)]
    assert [replayed(response) for response in responses] == [False, False]
    assert count(connection, "tasks", "title = 'Twice'") == 2
    assert count(connection, "idempotency_keys") == 0


def test_the_event_of_a_repeated_request_is_posted_once(ada, ids, connection, receiver):
    subscribe(connection, ids["acme"], receiver.url)
    for _ in range(3):
        assert ada.post("/tasks", {"title": "New"}, headers=keyed()).status_code == 201
    assert [row["state"] for row in deliveries(connection)] == ["delivered"]
    assert len(receiver.take_all()) == 1


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PATCH", "/tasks/{other}"),
        ("DELETE", "/tasks/{task}"),
        ("POST", "/tasks"),
        ("PATCH", "/meetings/{meeting}"),
    ],
)
def test_repeating_a_key_with_another_path_or_method_gets_422(alice, ids, connection, method, path):
    other = alice.post("/tasks", {"title": "Other"}).get_json()["id"]
    body = {"title": "New"}
    assert alice.patch(f"/tasks/{ids['task']}", body, headers=keyed()).status_code == 200
    before = snapshot(connection)
    path = path.format(**ids, other=other)
    error_message(alice.send(method, path, json=body, headers=keyed()), 422)
    assert snapshot(connection) == before


def test_each_user_has_separate_idempotency_keys_in_each_workspace(
    alice, bob, charlie, ids, connection
):
    def create(client):
        response = client.post("/tasks", {"title": "New"}, headers=keyed())
        assert response.status_code == 201
        return response.get_json()["id"], replayed(response)

    firsts = [create(client) for client in (alice, bob, charlie)]
    insert_member(connection, ids["globex"], ids["alice"])
    activate(connection, ids["globex"], ids["alice"])
    firsts.append(create(alice))
    assert [is_replayed for _, is_replayed in firsts] == [False] * 4
    assert len(dict(firsts)) == count(connection, "tasks", "title = 'New'") == 4
    activate(connection, ids["acme"], ids["alice"])
    assert create(alice) == (firsts[0][0], True)


def test_a_malformed_idempotency_key_gets_400(alice, ids, connection):
    before = snapshot(connection)
    keys = "", "a b", "a\tb", "x" * 256, "\xfc", "a\x7f"
    for key, name in product(keys, ("POST task", "PATCH task", "DELETE task")):
        path, body, _ = WRITES[name]
        response = alice.send(name.split()[0], path.format(**ids), json=body, headers=keyed(key))
        assert "1 to 255" in invalid_field(response, "Idempotency-Key"), key
    assert snapshot(connection) == before
    for good in ("x" * 255, '"8e03978e-40d5"', "~!/,;="):
        assert alice.post("/tasks", {"title": "New"}, headers=keyed(good)).status_code == 201


@pytest.mark.parametrize(
    ("status", "method", "path", "body"),
    [
        (400, "POST", "/tasks", {"title": ""}),
        (400, "POST", "/tasks", {"title": "New", "assigneeId": UNKNOWN}),
        (400, "PATCH", "/tasks/{task}", {"parentId": UNKNOWN}),
        (400, "PATCH", "/meetings/{meeting}", {"endTime": "2020-01-01T10:00:00Z"}),
        (400, "POST", "/tasks?x=1", {"title": "New"}),
        (403, "PATCH", "/workspaces/{acme}", {"name": "Bob's"}),
        (404, "PATCH", "/tasks/unknown", {"title": "New"}),
        (404, "DELETE", "/tasks/unknown", None),
        (412, "PATCH", "/tasks/{task}", {"title": "New"}),
        (412, "DELETE", "/tasks/{task}", None),
    ],
    ids=str,
)
def test_a_failed_request_stores_no_idempotency_key(
    bob, subscribed, connection, status, method, path, body
):
    before = snapshot(connection)
    headers = keyed(**({"If-Match": '"9"'} if status == 412 else {}))
    for _ in range(2):
        error_message(
            bob.send(method, path.format(**subscribed), json=body, headers=headers), status
        )
        assert count(connection, "idempotency_keys") == 0
    assert snapshot(connection) == before
    mended = bob.post("/tasks", {"title": "Mended"}, headers=keyed())
    assert (mended.status_code, replayed(mended)) == (201, False)


@pytest.mark.parametrize("at_commit", [False, True])
def test_a_request_that_ends_in_500_stores_no_key_or_event_and_posts_nothing(
    ada, cast, connection, receiver, at_commit
):
    connection.execute("DELETE FROM idempotency_keys")
    subscribe(connection, cast["acme"], receiver.url)
    with trigger(connection, "AFTER INSERT ON tasks", "RAISE 'broken';", at_commit=at_commit):
        error_message(ada.post("/tasks", {"title": "New"}, headers=keyed()), 500)
    for table in ("tasks", "events", "deliveries", "idempotency_keys"):
        assert count(connection, table) == 0
    assert receiver.connections == 0
    response = ada.post("/tasks", {"title": "New"}, headers=keyed())
    assert (response.status_code, replayed(response)) == (201, False)
    assert (count(connection, "tasks"), len(receiver.take_all())) == (1, 1)


def test_repeats_at_the_same_time_wait_for_the_first_request_and_get_its_response(
    at_once, subscribed, connection
):
    *responses, other = at_once(*[("New", keyed())] * 3, ("Other", keyed()))
    error_message(other, 422)
    assert [response.status_code for response in responses] == [200] * 3
    assert [replayed(response) for response in responses] == [False, True, True]
    assert len({(response.data, response.headers["ETag"]) for response in responses}) == 1
    row = row_of(connection, "tasks", subscribed["task"])
    assert (row["title"], row["version"]) == ("New", 2)
    assert count(connection, "events") == 1


def test_a_repeat_that_waits_for_the_first_request_runs_if_the_first_fails(
    at_once, subscribed, connection
):
    first, repeat = at_once(("New", keyed(**{"If-Match": '"9"'})), ("New", keyed()))
    assert first.status_code == 412
    assert (repeat.status_code, replayed(repeat)) == (200, False)
    assert row_of(connection, "tasks", subscribed["task"])["version"] == 2
    assert count(connection, "events") == count(connection, "idempotency_keys") == 1


def age_keys(connection, age):
    connection.execute("UPDATE idempotency_keys SET created_at = now() - %s::interval", (age,))


@pytest.mark.parametrize(("age", "stored"), [("23:59:50", True), ("24:00:01", False)])
def test_an_idempotency_key_is_stored_for_24_hours(alice, ids, connection, age, stored):
    first = alice.post("/tasks", {"title": "New"}, headers=keyed())
    age_keys(connection, age)
    repeat = alice.post("/tasks", {"title": "New"}, headers=keyed())
    assert (replayed(repeat), repeat.data == first.data) == (stored, stored)
    assert count(connection, "tasks", "title = 'New'") == (1 if stored else 2)
    # A repeat gets the response to the latest request that ran.
    again = alice.post("/tasks", {"title": "New"}, headers=keyed())
    assert (replayed(again), again.data) == (True, repeat.data)


def test_the_worker_does_not_prune_an_expired_key_that_a_request_uses_again(
    alice, ids, connection, settings, together
):
    path = f"/tasks/{ids['task']}"
    alice.post("/tasks", {"title": "New"}, headers=keyed())
    age_keys(connection, "24:00:01")
    first, _ = together(
        "tasks",
        ids["task"],
        lambda: alice.patch(path, {"title": "New"}, headers=keyed()),
        Worker(settings).run_once,
    )
    repeat = alice.patch(path, {"title": "New"}, headers=keyed())
    assert (replayed(first), replayed(repeat)) == (False, True)
    assert repeat.data == first.data


# ETag and If-None-Match


def test_a_change_past_the_service_makes_a_new_version_with_a_new_updated_at(
    alice, ids, connection
):
    assert alice.patch(f"/tasks/{ids['task']}", {"assigneeId": ids["bob"]}).status_code == 200
    for table, object, change in (
        ("tasks", "task", "DELETE FROM members WHERE user_id = %s"),
        ("meetings", "meeting", "UPDATE meetings SET created_by = %s"),
    ):
        path = f"/{table}/{ids[object]}"
        before = alice.get(path).get_json()
        connection.execute(change, (ids["bob"],))
        after = alice.get(path).get_json()
        assert after["version"] == before["version"] + 1
        assert after["updatedAt"] > before["updatedAt"]
    # A change that sets updated_at itself keeps that time.
    connection.execute("UPDATE meetings SET updated_at = created_at")
    assert alice.get(path).get_json()["updatedAt"] == after["createdAt"]


# If-Match


# Simultaneous changes

FIELDS = {
    "tasks": ("task", {"title": "New"}, {"description": "Also new"}),
    "meetings": ("meeting", {"title": "New"}, {"notes": "Also new"}),
    "workspaces": ("acme", {"name": "New"}, {"timezone": "Asia/Tokyo"}),
    "webhooks": ("webhook", {"events": ["task.created"]}, {"url": "https://1.1.1.1/"}),
}


@pytest.mark.parametrize("with_key", [False, True], ids=["without keys", "with keys"])
@pytest.mark.parametrize("table", FIELDS)
def test_changes_of_two_fields_at_the_same_time_are_both_kept(
    alice, subscribed, connection, together, table, with_key
):
    object, *both = FIELDS[table]

    def change(changes):
        headers = keyed(*changes) if with_key else ()
        return lambda: alice.patch(f"/{table}/{subscribed[object]}", changes, headers=headers)

    responses = together(table, subscribed[object], *map(change, both))
    assert [response.status_code for response in responses] == [200, 200]
    row = row_of(connection, table, subscribed[object])
    assert row.items() >= {**both[0], **both[1], "version": 3}.items()
    assert count(connection, "events") == (2 if table in ("tasks", "meetings") else 0)


@pytest.mark.parametrize("condition", [{"If-Match": '"1"'}, {"If-None-Match": '"2"'}], ids=str)
@pytest.mark.parametrize(
    ("table", "method"),
    # No request deletes a workspace.
    [pair for pair in product(FIELDS, ("PATCH", "DELETE")) if pair != ("workspaces", "DELETE")],
)
def test_a_412_shows_the_change_that_the_request_has_waited_for(
    alice, subscribed, together, table, method, condition
):
    object, changes, other = FIELDS[table]
    path = f"/{table}/{subscribed[object]}"
    changed, refused = together(
        table,
        subscribed[object],
        lambda: alice.patch(path, changes),
        lambda: alice.send(method, path, json=other, headers=condition),
    )
    assert changed.status_code == 200
    assert error_message(refused, 412).endswith("its current version is 2")
    assert refused.headers["ETag"] == changed.headers["ETag"] == '"2"'
    assert refused.get_json()["current"] == changed.get_json() == alice.get(path).get_json()


def test_a_412_shows_every_character_and_the_longest_texts_of_its_object(alice):
    longest = {"title": '\U0001f4a9\u2028é"\\' * 100, "description": "ß\n" * 32_768}
    created = alice.post("/tasks", longest)
    assert created.status_code == 201
    path = location(created)
    for method, body in (("PATCH", {"title": "New"}), ("DELETE", None)):
        refused = alice.send(method, path, json=body, headers={"If-Match": '"2"'})
        assert error_message(refused, 412)
        assert refused.get_json()["current"] == created.get_json()


def test_idempotency_keys_end_with_the_membership(alice, ids, connection):
    """After Alice has joined and left Globex, no replayed response shows data of Globex."""
    insert_member(connection, ids["globex"], ids["alice"], "owner")
    mine = [
        ("POST", "/tasks", {"title": "Mine"}, keyed("acme")),
        ("PATCH", f"/workspaces/{ids['acme']}", {"name": "Mine"}, keyed("name")),
    ]
    theirs = ("PATCH", f"/workspaces/{ids['globex']}", {"name": "Theirs"}, keyed("other"))
    there = ("POST", "/tasks", {"title": "There"}, keyed("globex"))

    def send(method, path, body, headers):
        return alice.send(method, path, json=body, headers=headers)

    for write in (*mine, theirs):
        assert not replayed(send(*write))
    activate(connection, ids["globex"], ids["alice"])
    assert not replayed(send(*there))
    connection.execute(
        "DELETE FROM members WHERE user_id = %s AND workspace_id = %s",
        (ids["alice"], ids["globex"]),
    )
    # At this moment, Alice has no active workspace.
    assert send(*theirs).status_code == 404
    activate(connection, ids["acme"], ids["alice"])
    assert send(*theirs).status_code == 404
    assert all(replayed(send(*write)) for write in mine)
    insert_member(connection, ids["globex"], ids["alice"])
    activate(connection, ids["globex"], ids["alice"])
    assert not replayed(send(*there))


def test_a_request_that_ends_in_503_stores_no_idempotency_key(build, subscribed, connection):
    alice = Client(build(statement_timeout=0.2), TOKENS["alice"])
    path = f"/tasks/{subscribed['task']}"
    with connection.transaction():
        connection.execute("SELECT FROM tasks FOR UPDATE")
        error_message(alice.patch(path, {"title": "New"}, headers=keyed()), 503)
    assert count(connection, "idempotency_keys") == count(connection, "events") == 0
    response = alice.patch(path, {"title": "New"}, headers=keyed())
    assert (response.status_code, response.headers["ETag"]) == (200, '"2"')
    assert not replayed(response)


@pytest.mark.parametrize("role", ["owner", "admin"])
def test_a_user_who_lost_the_role_gets_the_first_response_to_a_repeat_but_new_keys_are_refused(
    join, silent_app, cast, connection, role
):
    """The rule is the same for the active workspace, a workspace in the path, and an object."""
    join("adam", role)
    adam = Client(silent_app, "tmw_api_adam")
    adam.headers["Workspace-Id"] = cast["acme"]
    acme = f"/workspaces/{cast['acme']}"
    requests = [
        ("POST", "/webhooks", {"url": "https://1.1.1.1/hook"}),
        ("POST", f"{acme}/members", {"email": "mia@example.com"}),
        ("PATCH", f"{acme}/members/{cast['bob']}", {"role": "member"}),
        ("PATCH", acme, {"name": "New"}),
        ("DELETE", f"{acme}/members/{cast['bob']}", None),
    ]

    def sent(key):
        return [
            adam.send(method, path, json=body, headers={"Idempotency-Key": f"{key}{number}"})
            for number, (method, path, body) in enumerate(requests)
        ]

    def changed():
        tables = ("webhooks", "members", "users", "workspaces", "idempotency_keys")
        select = "SELECT row::text FROM {} AS row ORDER BY 1"
        return [connection.execute(select.format(each)).fetchall() for each in tables]

    first = sent("a-")
    assert [response.status_code for response in first] == [201, 201, 200, 200, 204]
    connection.execute("UPDATE members SET role = 'member' WHERE user_id = %s", (cast["adam"],))
    before = changed()
    for response, again in zip(first, sent("a-"), strict=True):
        assert again.headers["Idempotent-Replayed"] == "true"
        assert again.status_code == response.status_code
        if again.data:
            shown, told = again.get_json(), response.get_json()
            assert shown == {**told, **{name: None for name in ("secret",) if name in told}}
    assert [response.status_code for response in sent("b-")] == [403, 403, 404, 403, 404]
    assert changed() == before
    # The stored keys end with the membership.
    connection.execute("DELETE FROM members WHERE user_id = %s", (cast["adam"],))
    assert {response.status_code for response in sent("a-")} == {404}


def test_the_responses_that_a_user_can_store_with_short_requests_are_limited(
    alice, connection, cast
):
    """A repeat of a request whose response is not stored is told so, and changes nothing."""
    task = alice.post("/tasks", {"title": "x", "description": "y" * 65_536}).get_json()
    path = f"/tasks/{task['id']}"
    # Each user has as many stored bytes as the limit allows.
    connection.execute(
        "INSERT INTO idempotency_keys (workspace_id, user_id, key, fingerprint, status, body)"
        " SELECT %s, id, 'old', '', 200, repeat('x', 67108864) FROM users",
        (cast["acme"],),
    )
    stored = "SELECT key, octet_length(body) AS length FROM idempotency_keys WHERE key <> 'old'"
    for key, body, replayed in (("1", {"title": "y"}, 200), ("2", {"title": "z"}, 409)):
        headers = {"Idempotency-Key": key}
        assert alice.patch(path, body, headers=headers).status_code == 200
        assert alice.patch(path, body, headers=headers).status_code == replayed
    assert alice.patch(path, {"description": None}, headers={"Idempotency-Key": "3"})
    rows = {row["key"]: row["length"] for row in connection.execute(stored)}
    assert rows["1"] > 65_536
    assert rows["2"] is None
    assert rows["3"] < 1000, "a short response is stored in any case"
    assert alice.get(path).get_json()["version"] == 4


def test_who_leaves_a_workspace_loses_the_responses_that_show_it_and_keeps_the_others(
    alice, initech, cast, connection
):
    """The removal finds them without reading the stored responses."""
    insert_member(connection, initech, cast["bob"], "owner")
    path = f"/workspaces/{initech}"
    assert alice.patch(path, {"name": "New"}, headers={"Idempotency-Key": "there"})
    assert alice.post("/tasks", {"title": "x"}, headers={"Idempotency-Key": "here"})
    connection.execute("UPDATE idempotency_keys SET body = 'unreadable'")
    assert alice.delete(f"{path}/members/{cast['alice']}").status_code == 204
    kept = connection.execute("SELECT key FROM idempotency_keys").fetchall()
    assert kept == [{"key": "here"}]
