"""Suggestions: the pending ones of the workspace, and no others."""

import pytest
from client import INVALID_LIMITS, error_message, insert, insert_member, invalid_field, read_all

FIELDS = ["id", "kind", "title", "body", "taskId", "status", "createdAt"]
PATH = "/ai/suggestions"


@pytest.fixture
def put(connection, cast):
    """Put a suggestion into a workspace, past the service; returns its id."""

    def put(workspace="acme", **values):
        return insert(
            connection,
            "suggestions",
            workspace_id=cast.get(workspace, workspace),
            **{"kind": "follow_up", "title": "Ask again", **values},
        )

    return put


def ids(items):
    return [item["id"] for item in items]


def test_alice_reads_the_suggestions_of_her_workspace(alice, bob, put):
    task = alice.post("/tasks", {"title": "Plain"}).get_json()
    bare = put()
    full = put(
        kind="split",
        title="Split it",
        body='It is "too large".',
        task_id=task["id"],
        created_at="2026-01-01T12:00:00.743Z",
    )
    answer = alice.get(PATH)
    assert answer.status_code == 200
    assert list(answer.get_json()) == ["data", "nextCursor"]
    first, second = answer.get_json()["data"]
    assert list(first) == list(second) == FIELDS
    assert first == {
        "id": full,
        "kind": "split",
        "title": "Split it",
        "body": 'It is "too large".',
        "taskId": task["id"],
        "status": "pending",
        "createdAt": "2026-01-01T12:00:00.743Z",
    }
    assert (second["id"], second["body"], second["taskId"]) == (bare, None, None)
    assert bob.get(PATH).get_json() == answer.get_json()


def test_no_suggestions_are_an_empty_list(alice):
    assert alice.get(PATH).get_json() == {"data": [], "nextCursor": None}


def test_only_pending_ones_are_listed(alice, put, connection):
    put(status="accepted"), put(status="dismissed")
    pending = put(status="pending")
    assert ids(read_all(alice, PATH)) == [pending]
    connection.execute("UPDATE suggestions SET status = 'accepted' WHERE id = %s", (pending,))
    assert read_all(alice, PATH) == []


def test_a_suggestion_outlives_its_task(alice, put):
    task = alice.post("/tasks", {"title": "Plain"}).get_json()
    id = put(task_id=task["id"])
    assert alice.delete(f"/tasks/{task['id']}").status_code == 204
    (left,) = read_all(alice, PATH)
    assert (left["id"], left["taskId"]) == (id, None)


def test_nobody_sees_the_suggestions_of_another_tenant(alice, charlie, put):
    acme, globex = put(), put("globex")
    assert ids(read_all(alice, PATH)) == [acme]
    assert ids(read_all(charlie, PATH)) == [globex]


def test_only_those_of_the_active_workspace_are_listed(alice, cast, connection, put):
    initech = insert(connection, "workspaces", name="Initech", slug="initech", plan="Team")
    insert_member(connection, initech, cast["alice"], "owner")
    acme, other = put(), put(initech)
    assert ids(read_all(alice, PATH)) == [acme]
    connection.execute(
        "UPDATE users SET active_workspace_id = %s WHERE id = %s", (initech, cast["alice"])
    )
    assert ids(read_all(alice, PATH)) == [other]


@pytest.mark.parametrize("limit", [1, 3, 7, 200])
def test_the_pages_hold_every_pending_one_exactly_once_newest_first(alice, put, limit):
    made = []
    for _ in range(7):
        made.append(put())
        put(status="dismissed"), put("globex")
    assert ids(read_all(alice, PATH, limit=limit)) == made[::-1]


@pytest.mark.parametrize(
    "decide", ["DELETE FROM suggestions", "UPDATE suggestions SET status = 'accepted'"]
)
def test_a_cursor_works_after_its_suggestion_is_gone_or_decided(alice, put, connection, decide):
    made = [put() for _ in range(4)]
    first = alice.get(f"{PATH}?limit=2").get_json()
    for id in ids(first["data"]):
        connection.execute(f"{decide} WHERE id = %s", (id,))
    assert ids(read_all(alice, PATH, cursor=first["nextCursor"])) == made[1::-1]


def test_the_limit_is_50_unless_told_and_never_more_than_200(alice, cast, connection):
    connection.execute(
        "INSERT INTO suggestions (workspace_id, kind, title)"
        " SELECT %s, 'x', 'x' FROM generate_series(1, 201)",
        (cast["acme"],),
    )
    for query, size in (
        ({}, 50),
        ({"limit": "1"}, 1),
        ({"limit": "200"}, 200),
        ({"limit": "999"}, 200),
    ):
        page = alice.get(PATH, query_string=query).get_json()
        assert len(page["data"]) == size
        assert page["nextCursor"]


@pytest.mark.parametrize("limit", INVALID_LIMITS)
def test_a_limit_that_is_no_whole_number_from_1_is_refused(alice, limit):
    answer = alice.get(PATH, query_string={"limit": limit})
    assert invalid_field(answer, "limit") == "must be an integer from 1 to 200"


@pytest.mark.parametrize("cursor", ["", "x", "0", "0." + "a" * 32, "g" * 32, "a" * 31])
def test_a_cursor_that_was_never_given_is_refused(alice, cursor):
    answer = alice.get(PATH, query_string={"cursor": cursor})
    assert invalid_field(answer, "cursor") == "must be the nextCursor of an earlier response"


@pytest.mark.parametrize(
    ("name", "hint"),
    [("limits", "did you mean limit?"), ("status", "allowed: limit, cursor")],
)
def test_an_unknown_query_parameter_is_refused_and_the_known_ones_named(alice, name, hint):
    answer = alice.get(PATH, query_string={name: "pending"})
    assert invalid_field(answer, name) == f"unknown query parameter; {hint}"


def test_a_stranger_sees_no_suggestions(stranger, put):
    put()
    assert "nauthorized" in error_message(stranger.get(PATH), 401)


@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "DELETE"])
def test_suggestions_can_only_be_read(alice, method):
    error_message(alice.send(method, PATH, json={}), 405)
