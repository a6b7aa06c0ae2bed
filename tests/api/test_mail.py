"""Mail: whose it is, its order, its pages."""

from datetime import UTC, datetime, timedelta

import pytest
from client import INVALID_LIMITS, error_message, insert, insert_member, invalid_field, read_all

FIELDS = ["id", "from", "to", "subject", "snippet", "read", "receivedAt"]
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
EDGES = [
    datetime(1900, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC),
    datetime(1970, 1, 1, tzinfo=UTC),
    NOON,
    NOON + timedelta(milliseconds=1),
    datetime(9998, 12, 31, 23, 59, 59, 998000, tzinfo=UTC),
    datetime(9998, 12, 31, 23, 59, 59, 999000, tzinfo=UTC),
]


@pytest.fixture
def put(connection, cast):
    """Put a mail item into a mailbox, past the service; returns its id."""

    def put(user="alice", workspace="acme", at=NOON, **values):
        return insert(
            connection,
            "mail",
            user_id=cast[user],
            workspace_id=cast.get(workspace, workspace),
            received_at=at,
            **{"sender": "ada@example.com", **values},
        )

    return put


def ids(items):
    return [item["id"] for item in items]


def test_alice_reads_her_mail(alice, put):
    id = put(
        recipients=["alice@example.com", "bob@example.com"],
        subject="Hello",
        snippet='Dear "Alice", …',
        read=True,
    )
    bare = put(at=NOON - timedelta(days=1))
    answer = alice.get("/mail")
    assert answer.status_code == 200
    assert list(answer.get_json()) == ["data", "nextCursor"]
    full, empty = answer.get_json()["data"]
    assert list(full) == list(empty) == FIELDS
    assert full == {
        "id": id,
        "from": "ada@example.com",
        "to": ["alice@example.com", "bob@example.com"],
        "subject": "Hello",
        "snippet": 'Dear "Alice", …',
        "read": True,
        "receivedAt": "2026-01-01T12:00:00.000Z",
    }
    assert (empty["id"], empty["to"], empty["subject"], empty["snippet"], empty["read"]) == (
        bare,
        [],
        "",
        "",
        False,
    )


def test_an_empty_mailbox_is_an_empty_list(alice):
    assert alice.get("/mail").get_json() == {"data": [], "nextCursor": None}


def test_nobody_sees_the_mail_of_another_user(alice, bob, charlie, put):
    hers, his, foreign = put(), put("bob"), put("charlie", "globex")
    assert ids(read_all(alice, "/mail")) == [hers]
    assert ids(read_all(bob, "/mail")) == [his]
    assert ids(read_all(charlie, "/mail")) == [foreign]


def test_only_the_mail_of_the_active_workspace_is_listed(alice, cast, connection, put):
    initech = insert(connection, "workspaces", name="Initech", slug="initech", plan="Team")
    insert_member(connection, initech, cast["alice"], "owner")
    acme, other = put(), put(workspace=initech)
    assert ids(read_all(alice, "/mail")) == [acme]
    connection.execute(
        "UPDATE users SET active_workspace_id = %s WHERE id = %s", (initech, cast["alice"])
    )
    assert ids(read_all(alice, "/mail")) == [other]


def test_the_latest_comes_first_however_it_was_put_in(alice, put):
    middle, latest, earliest = (put(at=NOON + timedelta(hours=hours)) for hours in (0, 1, -1))
    assert ids(read_all(alice, "/mail")) == [latest, middle, earliest]


@pytest.mark.parametrize("limit", [1, 2, 3, 200])
def test_the_pages_hold_every_item_exactly_once_whenever_it_came(
    alice, put, cast, connection, limit
):
    for at in EDGES:
        for user in ("alice", "alice", "bob", "alice"):
            put(user, at=at)
    rows = connection.execute(
        "SELECT id FROM mail WHERE user_id = %s ORDER BY received_at DESC, id DESC",
        (cast["alice"],),
    )
    wanted = [str(row["id"]) for row in rows]
    assert len(wanted) == 3 * len(EDGES)
    assert ids(read_all(alice, "/mail", limit=limit)) == wanted


def test_a_cursor_works_after_its_item_is_gone(alice, put, connection):
    for _ in range(4):
        put()
    everything = ids(read_all(alice, "/mail"))
    first = alice.get("/mail?limit=2").get_json()
    for id in ids(first["data"]):
        connection.execute("DELETE FROM mail WHERE id = %s", (id,))
    assert ids(read_all(alice, "/mail", cursor=first["nextCursor"])) == everything[2:]


def test_a_cursor_of_alices_shows_bob_nothing_of_hers(alice, bob, put):
    put(), put(), put(), put("bob", at=NOON + timedelta(hours=1))
    his = put("bob", at=NOON - timedelta(hours=1))
    cursor = alice.get("/mail?limit=1").get_json()["nextCursor"]
    assert ids(read_all(bob, "/mail", cursor=cursor)) == [his]


def test_the_limit_is_50_unless_told_and_never_more_than_200(alice, cast, connection):
    connection.execute(
        "INSERT INTO mail (workspace_id, user_id, sender, received_at)"
        " SELECT %s, %s, 'ada@example.com', '2026-01-01T12:00Z' FROM generate_series(1, 201)",
        (cast["acme"], cast["alice"]),
    )
    for query, size in (
        ({}, 50),
        ({"limit": "1"}, 1),
        ({"limit": "200"}, 200),
        ({"limit": "999"}, 200),
    ):
        page = alice.get("/mail", query_string=query).get_json()
        assert len(page["data"]) == size
        assert page["nextCursor"]


@pytest.mark.parametrize("limit", INVALID_LIMITS)
def test_a_limit_that_is_no_whole_number_from_1_is_refused(alice, limit):
    answer = alice.get("/mail", query_string={"limit": limit})
    assert invalid_field(answer, "limit") == "must be an integer from 1 to 200"


@pytest.mark.parametrize(
    "cursor", ["", "x", "0", "a" * 32, "0.", "x." + "a" * 32, "1.5." + "a" * 32]
)
def test_a_cursor_that_was_never_given_is_refused(alice, cursor):
    answer = alice.get("/mail", query_string={"cursor": cursor})
    assert invalid_field(answer, "cursor") == "must be the nextCursor of an earlier response"


@pytest.mark.parametrize("key", ["9" * 15, "-" + "9" * 15])
def test_a_cursor_far_outside_of_time_is_no_failure_of_the_service(alice, put, key):
    put()
    answer = alice.get("/mail", query_string={"cursor": f"{key}.{'a' * 32}"})
    assert answer.status_code in (200, 400)


@pytest.mark.parametrize(
    ("name", "hint"),
    [("limits", "did you mean limit?"), ("unread", "allowed: limit, cursor")],
)
def test_an_unknown_query_parameter_is_refused_and_the_known_ones_named(alice, name, hint):
    answer = alice.get("/mail", query_string={name: "1"})
    assert invalid_field(answer, name) == f"unknown query parameter; {hint}"


def test_a_stranger_sees_no_mail(stranger, put):
    put()
    assert "nauthorized" in error_message(stranger.get("/mail"), 401)


@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "DELETE"])
def test_mail_can_only_be_read(alice, method):
    error_message(alice.send(method, "/mail", json={}), 405)
