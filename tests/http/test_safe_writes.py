"""Safe writes: a repeat is answered but not done again, and nobody overwrites what they have not seen."""

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from client import TOKENS, Client, error_message, insert_member, invalid_field
from receivers import deliveries, subscribe

from service.webhooks.worker import Worker

TIMES = {"startTime": "2027-01-01T10:00:00Z", "endTime": "2027-01-01T11:00:00Z"}
UNKNOWN = "01890000-0000-7000-8000-000000000000"
NOWHERE = "https://example.com/hook"

# Each write: its path, a body, and another body.
WRITES = {
    "POST task": ("/tasks", {"title": "New"}, {"title": "Other"}),
    "POST meeting": ("/meetings", {"title": "New", **TIMES}, {"title": "Other", **TIMES}),
    "PATCH task": ("/tasks/{task}", {"title": "New"}, {"title": "Other"}),
    "PATCH meeting": ("/meetings/{meeting}", {"status": "completed"}, {"title": "Other"}),
    "PATCH workspace": ("/workspaces/{acme}", {"name": "New"}, {"name": "Other"}),
    "DELETE task": ("/tasks/{task}", None, {}),
}
OBJECTS = {"tasks": "task", "meetings": "meeting", "workspaces": "acme"}


@pytest.fixture
def ids(alice, cast, connection):
    """The cast, a task and a meeting of Acme, all in their first version; whoever listens comes later."""
    connection.execute("DELETE FROM idempotency_keys")
    return {
        **cast,
        "task": alice.post("/tasks", {"title": "Old"}).get_json()["id"],
        "meeting": alice.post("/meetings", {"title": "Old", **TIMES}).get_json()["id"],
    }


@pytest.fixture
def listened(ids, connection):
    """A webhook of Acme that is never posted to, so that there are events to count."""
    subscribe(connection, ids["acme"], NOWHERE)
    return ids


def keyed(key="k-1", **others):
    return {"Idempotency-Key": key, **others}


def replayed(response):
    return response.headers.get("Idempotent-Replayed") == "true"


def count(connection, table, where="true"):
    return connection.execute(f"SELECT count(*) FROM {table} WHERE {where}").fetchone()["count"]


def row_of(connection, table, id):
    return connection.execute(f"SELECT * FROM {table} WHERE id = %s", (uuid.UUID(id),)).fetchone()


def everything(connection):
    """Whatever a write can change, to be compared with itself later."""
    tables = "tasks", "meetings", "workspaces", "events", "deliveries"
    return [connection.execute(f"SELECT * FROM {table} ORDER BY id").fetchall() for table in tables]


# Idempotency-Key


@pytest.mark.parametrize("name", WRITES)
def test_a_repeat_replays_the_answer_and_does_nothing(alice, listened, connection, name):
    path, body, _ = WRITES[name]
    path, method = path.format(**listened), name.split()[0]
    first = alice.send(method, path, json=body, headers=keyed())
    assert first.status_code == {"POST": 201, "PATCH": 200, "DELETE": 204}[method]
    assert not replayed(first)
    done = everything(connection)
    for _ in range(2):
        repeat = alice.send(method, path, json=body, headers=keyed())
        assert replayed(repeat)
        assert (repeat.status_code, repeat.data) == (first.status_code, first.data)
        for header in ("Location", "ETag", "Content-Type"):
            assert repeat.headers.get(header) == first.headers.get(header)
        assert repeat.headers["X-Request-Id"] != first.headers["X-Request-Id"]
    assert ("Location" in first.headers, "ETag" in first.headers) == (
        method == "POST",
        method != "DELETE",
    )
    assert everything(connection) == done
    assert count(connection, "events") == (0 if "workspace" in name else 1)
    assert count(connection, "idempotency_keys") == 1


def test_a_repeat_replays_what_was_even_when_more_has_happened_since(alice, ids, connection):
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


def test_key_change_event_and_answer_are_one_transaction(alice, listened, connection):
    created = alice.post("/tasks", {"title": "New"}, headers=keyed())
    (known,) = connection.execute("SELECT *, xmin::text AS xmin FROM idempotency_keys").fetchall()
    assert (known["status"], known["body"]) == (201, created.get_data(as_text=True))
    assert known["headers"] == {name: created.headers[name] for name in ("Location", "ETag")}
    transactions = connection.execute(
        "SELECT xmin::text FROM tasks WHERE title = 'New'"
        " UNION ALL SELECT xmin::text FROM events UNION ALL SELECT xmin::text FROM deliveries"
    ).fetchall()
    assert [row["xmin"] for row in transactions] == [known["xmin"]] * 3


def test_without_a_key_each_write_is_done_and_no_key_is_kept(alice, ids, connection):
    answers = [alice.post("/tasks", {"title": "Twice"}) for _ in range(2)]
    assert [replayed(answer) for answer in answers] == [False, False]
    assert count(connection, "tasks", "title = 'Twice'") == 2
    assert count(connection, "idempotency_keys") == 0


def test_an_event_is_posted_once_after_its_transaction(ada, ids, connection, receiver):
    subscribe(connection, ids["acme"], receiver.url)
    for _ in range(3):
        assert ada.post("/tasks", {"title": "New"}, headers=keyed()).status_code == 201
    assert [row["state"] for row in deliveries(connection)] == ["delivered"]
    assert len(receiver.take_all()) == 1


@pytest.mark.parametrize("name", WRITES)
def test_a_key_with_another_body_is_422(alice, listened, connection, name):
    path, body, other = WRITES[name]
    path, method = path.format(**listened), name.split()[0]
    first = alice.send(method, path, json=body, headers=keyed())
    done = everything(connection)
    message = error_message(alice.send(method, path, json=other, headers=keyed()), 422)
    assert message.startswith("Idempotency-Key: was used for another request")
    assert everything(connection) == done
    again = alice.send(method, path, json=body, headers=keyed())
    assert replayed(again)
    assert again.data == first.data


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PATCH", "/tasks/{other}"),
        ("DELETE", "/tasks/{task}"),
        ("POST", "/tasks"),
        ("PATCH", "/meetings/{meeting}"),
    ],
)
def test_a_key_with_another_path_or_method_is_422(alice, ids, connection, method, path):
    other = alice.post("/tasks", {"title": "Other"}).get_json()["id"]
    body = {"title": "New"}
    assert alice.patch(f"/tasks/{ids['task']}", body, headers=keyed()).status_code == 200
    done = everything(connection)
    path = path.format(**ids, other=other)
    error_message(alice.send(method, path, json=body, headers=keyed()), 422)
    assert everything(connection) == done


def test_keys_are_per_user_and_workspace(alice, bob, charlie, ids, connection):
    def create(client):
        answer = client.post("/tasks", {"title": "New"}, headers=keyed())
        assert answer.status_code == 201
        return answer.get_json()["id"], replayed(answer)

    def move_alice(slug):
        connection.execute(
            "UPDATE users SET active_workspace_id = %s WHERE id = %s", (ids[slug], ids["alice"])
        )

    firsts = [create(client) for client in (alice, bob, charlie)]
    insert_member(connection, ids["globex"], ids["alice"])
    move_alice("globex")
    firsts.append(create(alice))
    assert [known for _, known in firsts] == [False] * 4
    assert len(dict(firsts)) == count(connection, "tasks", "title = 'New'") == 4
    move_alice("acme")
    assert create(alice) == (firsts[0][0], True)


@pytest.mark.parametrize("key", ["", "a b", "a\tb", "x" * 256, "\xfc", "a\x7f"], ids=ascii)
def test_a_malformed_key_is_400(alice, ids, connection, key):
    done = everything(connection)
    for name in ("POST task", "PATCH task", "DELETE task"):
        path, body, _ = WRITES[name]
        answer = alice.send(name.split()[0], path.format(**ids), json=body, headers=keyed(key))
        assert "1 to 255" in invalid_field(answer, "Idempotency-Key")
    assert everything(connection) == done


@pytest.mark.parametrize("key", ["x" * 255, '"8e03978e-40d5"', "~!/,;="])
def test_any_other_visible_text_is_a_key(alice, ids, connection, key):
    for repeat in (False, True):
        answer = alice.post("/tasks", {"title": "New"}, headers=keyed(key))
        assert (answer.status_code, replayed(answer)) == (201, repeat)
    assert count(connection, "tasks", "title = 'New'") == 1


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
def test_what_fails_leaves_no_key(bob, listened, connection, status, method, path, body):
    done = everything(connection)
    headers = keyed(**({"If-Match": '"9"'} if status == 412 else {}))
    for _ in range(2):
        error_message(bob.send(method, path.format(**listened), json=body, headers=headers), status)
        assert count(connection, "idempotency_keys") == 0
    assert everything(connection) == done
    mended = bob.post("/tasks", {"title": "Mended"}, headers=keyed())
    assert (mended.status_code, replayed(mended)) == (201, False)


@pytest.fixture(params=["at once", "at commit"])
def broken(request, connection):
    """No task can be added: a bug, which shows when the row is written or only when all is committed."""
    connection.execute(
        "CREATE FUNCTION break() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE 'broken'; END $$"
    )
    deferred = "DEFERRABLE INITIALLY DEFERRED" if request.param == "at commit" else ""
    connection.execute(
        f"CREATE CONSTRAINT TRIGGER break AFTER INSERT ON tasks {deferred}"
        " FOR EACH ROW EXECUTE FUNCTION break()"
    )

    def mend():
        connection.execute("DROP FUNCTION IF EXISTS break() CASCADE")

    yield mend
    mend()


def test_a_first_that_ends_in_500_leaves_no_key_no_event_and_posts_nothing(
    ada, cast, connection, receiver, broken
):
    connection.execute("DELETE FROM idempotency_keys")
    subscribe(connection, cast["acme"], receiver.url)
    error_message(ada.post("/tasks", {"title": "New"}, headers=keyed()), 500)
    for table in ("tasks", "events", "deliveries", "idempotency_keys"):
        assert count(connection, table) == 0
    assert receiver.connections == 0
    broken()
    answer = ada.post("/tasks", {"title": "New"}, headers=keyed())
    assert (answer.status_code, replayed(answer)) == (201, False)
    assert (count(connection, "tasks"), len(receiver.take_all())) == (1, 1)


def test_a_first_that_ends_in_503_leaves_no_key(build, listened, connection):
    alice = Client(build(statement_timeout=0.2), TOKENS["alice"])
    path = f"/tasks/{listened['task']}"
    with connection.transaction():
        connection.execute("SELECT FROM tasks FOR UPDATE")
        error_message(alice.patch(path, {"title": "New"}, headers=keyed()), 503)
    assert count(connection, "idempotency_keys") == count(connection, "events") == 0
    answer = alice.patch(path, {"title": "New"}, headers=keyed())
    assert (answer.status_code, answer.headers["ETag"]) == (200, '"2"')
    assert not replayed(answer)


def test_repeats_that_come_while_the_first_runs_wait_and_replay(
    alice, listened, together, connection
):
    path = f"/tasks/{listened['task']}"
    answers = together(
        "tasks",
        listened["task"],
        *[lambda: alice.patch(path, {"title": "New"}, headers=keyed())] * 4,
    )
    assert [answer.status_code for answer in answers] == [200] * 4
    assert [replayed(answer) for answer in answers] == [False, True, True, True]
    assert len({(answer.data, answer.headers["ETag"]) for answer in answers}) == 1
    assert row_of(connection, "tasks", listened["task"])["version"] == 2
    assert count(connection, "events") == 1


def test_another_request_that_waits_for_the_first_is_422(alice, listened, together, connection):
    path = f"/tasks/{listened['task']}"
    first, other = together(
        "tasks",
        listened["task"],
        lambda: alice.patch(path, {"title": "New"}, headers=keyed()),
        lambda: alice.patch(path, {"title": "Other"}, headers=keyed()),
    )
    assert first.status_code == 200
    error_message(other, 422)
    assert row_of(connection, "tasks", listened["task"])["title"] == "New"
    assert count(connection, "events") == 1


def test_a_repeat_that_waits_for_a_first_that_fails_is_done(alice, listened, together, connection):
    path = f"/tasks/{listened['task']}"
    first, repeat = together(
        "tasks",
        listened["task"],
        lambda: alice.patch(path, {"title": "New"}, headers=keyed(**{"If-Match": '"9"'})),
        lambda: alice.patch(path, {"title": "New"}, headers=keyed()),
    )
    assert first.status_code == 412
    assert (repeat.status_code, replayed(repeat)) == (200, False)
    assert row_of(connection, "tasks", listened["task"])["version"] == 2
    assert count(connection, "events") == count(connection, "idempotency_keys") == 1


def test_of_many_posts_at_once_under_one_key_one_is_done(alice, listened, connection):
    with ThreadPoolExecutor(8) as people:
        answers = list(
            people.map(lambda _: alice.post("/tasks", {"title": "New"}, headers=keyed()), range(40))
        )
    assert {(answer.status_code, answer.data) for answer in answers} == {(201, answers[0].data)}
    assert sorted(map(replayed, answers)) == [False] + [True] * 39
    assert count(connection, "tasks", "title = 'New'") == count(connection, "events") == 1


def grow_old(connection, age):
    connection.execute("UPDATE idempotency_keys SET created_at = now() - %s::interval", (age,))


@pytest.mark.parametrize(("age", "known"), [("23:59:50", True), ("24:00:01", False)])
def test_a_key_is_known_for_24_hours(alice, ids, connection, settings, age, known):
    first = alice.post("/tasks", {"title": "New"}, headers=keyed())
    grow_old(connection, age)
    repeat = alice.post("/tasks", {"title": "New"}, headers=keyed())
    assert (replayed(repeat), repeat.data == first.data) == (known, known)
    assert count(connection, "tasks", "title = 'New'") == (1 if known else 2)
    # From then on the second one is what is known.
    again = alice.post("/tasks", {"title": "New"}, headers=keyed())
    assert (replayed(again), again.data) == (True, repeat.data)


def test_after_24_hours_a_key_may_be_used_for_anything(alice, ids, connection):
    alice.post("/tasks", {"title": "New"}, headers=keyed())
    grow_old(connection, "24:00:01")
    answer = alice.patch(f"/tasks/{ids['task']}", {"title": "Other"}, headers=keyed())
    assert (answer.status_code, replayed(answer)) == (200, False)
    assert count(connection, "idempotency_keys") == 1


def test_the_worker_forgets_keys_after_24_hours(alice, ids, connection, settings):
    alice.post("/tasks", {"title": "New"}, headers=keyed("old"))
    grow_old(connection, "24:00:01")
    alice.post("/tasks", {"title": "New"}, headers=keyed("new"))
    Worker(settings).run_once()
    assert [row["key"] for row in connection.execute("SELECT key FROM idempotency_keys")] == ["new"]


def test_the_worker_does_not_forget_an_old_key_that_is_being_used_anew(
    alice, ids, connection, settings, together
):
    path = f"/tasks/{ids['task']}"
    alice.post("/tasks", {"title": "New"}, headers=keyed())
    grow_old(connection, "24:00:01")
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


def test_every_answer_of_one_object_has_its_etag(alice, ids, connection):
    for name in ("POST task", "POST meeting"):
        path, body, _ = WRITES[name]
        assert alice.post(path, body).headers["ETag"] == '"1"'
    for table, object in OBJECTS.items():
        path = f"/{table}/{ids[object]}"
        for version in (1, 2):
            read = alice.get(path)
            assert read.headers["ETag"] == f'"{version}"'
            assert alice.send("HEAD", path).headers["ETag"] == f'"{version}"'
            assert row_of(connection, table, ids[object])["version"] == version
            changes = WRITES[f"PATCH {object.replace('acme', 'workspace')}"][1]
            # The second time it changes nothing.
            assert alice.patch(path, changes).headers["ETag"] == '"2"'
        assert "ETag" not in alice.get(f"/{table}").headers


def test_changes_past_the_service_make_a_new_etag(alice, ids, connection):
    def etags():
        return [
            alice.get(f"/{table}/{ids[object]}").headers["ETag"]
            for table, object in OBJECTS.items()
        ]

    assert alice.patch(f"/tasks/{ids['task']}", {"assigneeId": ids["bob"]}).status_code == 200
    assert etags() == ['"2"', '"1"', '"1"']
    # Bob leaves: the workspace counts one less, and his task is nobody's.
    connection.execute("DELETE FROM members WHERE user_id = %s", (ids["bob"],))
    assert etags() == ['"3"', '"1"', '"2"']
    insert_member(connection, ids["acme"], ids["bob"])
    connection.execute("UPDATE meetings SET notes = 'Mended by hand'")
    assert etags() == ['"3"', '"2"', '"3"']
    connection.execute("UPDATE meetings SET notes = notes")
    assert etags() == ['"3"', '"2"', '"3"']


READ = {
    '"1"': 304,
    'W/"1"': 304,
    '"2", "1"': 304,
    '"2",W/"1"': 304,
    "*": 304,
    '"2"': 200,
    'W/"2"': 200,
    '"01"': 200,
    '"1x"': 200,
    '"*"': 200,
    '""': 200,
    "!": 200,
}


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("table", OBJECTS)
def test_if_none_match_spares_a_reader_what_he_has(alice, ids, table, method):
    path = f"/{table}/{ids[OBJECTS[table]]}"
    full = alice.send(method, path)
    for offered, status in READ.items():
        answer = alice.send(method, path, headers={"If-None-Match": offered})
        assert (offered, answer.status_code) == (offered, status)
        assert answer.headers["ETag"] == '"1"'
        assert answer.headers["X-RateLimit-Limit"] == "1000"
        assert answer.data == (full.data if status == 200 else b"")
        if status == 304:
            assert "Content-Length" not in answer.headers


def test_after_a_change_the_reader_is_sent_all_of_it(alice, ids):
    path = f"/tasks/{ids['task']}"
    alice.patch(path, {"title": "New"})
    answer = alice.get(path, headers={"If-None-Match": '"1"'})
    assert (answer.status_code, answer.get_json()["title"]) == (200, "New")
    assert alice.get(path, headers={"If-None-Match": '"2"'}).status_code == 304


@pytest.mark.parametrize("offered", ["*", '"1"'])
@pytest.mark.parametrize("table", OBJECTS)
def test_if_none_match_tells_a_stranger_nothing(charlie, ids, table, offered):
    answer = charlie.get(f"/{table}/{ids[OBJECTS[table]]}", headers={"If-None-Match": offered})
    error_message(answer, 404)
    assert "ETag" not in answer.headers


# If-Match

MATCHING = ['"1"', "*", '"3", "1"', '"1","1"', 'W/"1", "1"', '"foreign, with comma", "1"']
NOT_MATCHING = [
    '"2"',
    'W/"1"',
    '"2", W/"1"',
    '"01"',
    '"1x"',
    '" 1"',
    '"*"',
    '""',
    '"-1"',
    '"99999999999999999999"',
    "!",
]  # fmt: skip
CHANGES = {
    "tasks": {"title": "New"},
    "meetings": {"title": "New"},
    "workspaces": {"name": "New"},
}


@pytest.mark.parametrize("offered", MATCHING)
def test_a_change_is_made_to_a_version_that_if_match_names(alice, ids, connection, offered):
    for table, changes in CHANGES.items():
        answer = alice.patch(
            f"/{table}/{ids[OBJECTS[table]]}", changes, headers={"If-Match": offered}
        )
        assert (answer.status_code, answer.headers["ETag"]) == (200, '"2"')
        assert row_of(connection, table, ids[OBJECTS[table]])["version"] == 2
    task = alice.post("/tasks", {"title": "Short-lived"}).get_json()["id"]
    assert alice.delete(f"/tasks/{task}", headers={"If-Match": offered}).status_code == 204
    assert row_of(connection, "tasks", task) is None


@pytest.mark.parametrize("offered", NOT_MATCHING)
def test_any_other_version_is_412_with_the_etag_of_what_is_there(
    alice, listened, connection, offered
):
    done = everything(connection)
    requests = [("PATCH", table, changes) for table, changes in CHANGES.items()]
    requests += [("PATCH", table, {}) for table in CHANGES]
    for method, table, changes in (*requests, ("DELETE", "tasks", None)):
        path = f"/{table}/{listened[OBJECTS[table]]}"
        answer = alice.send(method, path, json=changes, headers={"If-Match": offered})
        assert error_message(answer, 412).startswith("If-Match: ")
        assert answer.headers["ETag"] == '"1"'
    assert everything(connection) == done


def test_whoever_reads_the_412_can_go_on_from_it(alice, ids, connection):
    path = f"/tasks/{ids['task']}"
    alice.patch(path, {"title": "New"})
    late = alice.patch(path, {"status": "done"}, headers={"If-Match": '"1"'})
    error_message(late, 412)
    again = alice.patch(path, {"status": "done"}, headers={"If-Match": late.headers["ETag"]})
    assert (again.status_code, again.headers["ETag"]) == (200, '"3"')
    row = row_of(connection, "tasks", ids["task"])
    assert (row["title"], row["status"]) == ("New", "done")


@pytest.mark.parametrize("offered", ["*", '"1"', '"9"'])
@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
def test_if_match_tells_a_stranger_nothing(charlie, ids, connection, method, offered):
    done = everything(connection)
    for table in ["tasks"] if method == "DELETE" else OBJECTS:
        answer = charlie.send(
            method,
            f"/{table}/{ids[OBJECTS[table]]}",
            json=CHANGES[table] if method == "PATCH" else None,
            headers={"If-Match": offered},
        )
        error_message(answer, 404)
        assert "ETag" not in answer.headers
    assert everything(connection) == done


@pytest.mark.parametrize("offered", ["*", '"1"', '"9"'])
def test_a_member_who_may_not_change_the_workspace_is_told_so_first(bob, ids, connection, offered):
    answer = bob.patch(
        f"/workspaces/{ids['acme']}", {"name": "Bob's"}, headers={"If-Match": offered}
    )
    error_message(answer, 403)
    assert row_of(connection, "workspaces", ids["acme"])["version"] == 1


@pytest.mark.parametrize("table", CHANGES)
def test_of_two_changes_to_one_version_at_once_one_is_412(
    alice, listened, connection, together, table
):
    id = listened[OBJECTS[table]]
    (field,) = CHANGES[table]
    answers = together(
        table,
        id,
        *(
            lambda value=value: alice.patch(
                f"/{table}/{id}", {field: value}, headers={"If-Match": '"1"'}
            )
            for value in ("First", "Second")
        ),
    )
    assert [answer.status_code for answer in answers] == [200, 412]
    assert [answer.headers["ETag"] for answer in answers] == ['"2"', '"2"']
    row = row_of(connection, table, id)
    assert (row[field], row["version"]) == ("First", 2)
    assert count(connection, "events") == (table == "tasks")


def test_a_removal_does_not_take_a_change_that_it_has_not_seen(
    alice, bob, listened, connection, together
):
    path = f"/tasks/{listened['task']}"
    changed, removed = together(
        "tasks",
        listened["task"],
        lambda: alice.patch(path, {"title": "New"}),
        lambda: bob.delete(path, headers={"If-Match": '"1"'}),
    )
    assert changed.status_code == 200
    error_message(removed, 412)
    assert removed.headers["ETag"] == '"2"'
    assert row_of(connection, "tasks", listened["task"])["title"] == "New"
    assert count(connection, "events") == 1


# At the same moment

FIELDS = {
    "tasks": ({"title": "New"}, {"description": "Also new"}),
    "meetings": ({"title": "New"}, {"notes": "Also new"}),
    "workspaces": ({"name": "New"}, {"timezone": "Asia/Tokyo"}),
}


@pytest.mark.parametrize("with_key", [False, True], ids=["without keys", "with keys"])
@pytest.mark.parametrize("table", FIELDS)
def test_changes_of_different_fields_at_once_both_survive(
    alice, listened, connection, together, table, with_key
):
    id = listened[OBJECTS[table]]
    answers = together(
        table,
        id,
        *(
            lambda changes=changes: alice.patch(
                f"/{table}/{id}", changes, headers=keyed(*changes) if with_key else ()
            )
            for changes in FIELDS[table]
        ),
    )
    assert [(answer.status_code, answer.headers["ETag"]) for answer in answers] == [
        (200, '"2"'),
        (200, '"3"'),
    ]
    wanted = {**FIELDS[table][0], **FIELDS[table][1]}
    row = row_of(connection, table, id)
    assert {name: row[name] for name in wanted} == wanted
    assert row["version"] == 3
    assert count(connection, "events") == (2 if table == "tasks" else 0)


@pytest.fixture
def unlimited(connection):
    """No plan holds back what is many on purpose."""
    connection.execute("INSERT INTO plans (name, per_minute) VALUES ('Tests', 1000000)")
    connection.execute("UPDATE workspaces SET plan = 'Tests', version = version")
    yield
    connection.execute("UPDATE workspaces SET plan = 'Team'")
    connection.execute("DELETE FROM plans WHERE name = 'Tests'")


def test_of_1000_increments_at_once_none_is_lost(alice, bob, listened, connection, unlimited):
    path = f"/tasks/{listened['task']}"
    alice.patch(path, {"description": "0"})
    conflicts = []

    def increment(client):
        for _ in range(1000):
            read = client.get(path)
            number = int(read.get_json()["description"])
            answer = client.patch(
                path,
                {"description": str(number + 1)},
                headers={"If-Match": read.headers["ETag"]},
            )
            if answer.status_code == 200:
                return number + 1
            error_message(answer, 412)
            conflicts.append(number)
        raise AssertionError("never came through")

    with ThreadPoolExecutor(4) as people:
        reached = list(people.map(increment, [alice, bob] * 500))
    print(f"increments {len(reached)}, conflicts {len(conflicts)}")
    assert sorted(reached) == list(range(1, 1001))
    assert conflicts
    row = row_of(connection, "tasks", listened["task"])
    assert (row["description"], row["version"]) == ("1000", 1002)
    # One event a commit, each with its own version.
    versions = connection.execute(
        "SELECT (body::json -> 'data' ->> 'version')::integer AS version FROM events"
        " WHERE type = 'task.updated' ORDER BY version"
    ).fetchall()
    assert [row["version"] for row in versions] == list(range(2, 1003))
