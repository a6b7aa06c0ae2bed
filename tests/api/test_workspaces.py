"""Workspaces and their members: the checklist of every endpoint, then roles and timezones."""

import pytest
from client import TOKENS, Client, error_message, insert, insert_member, insert_token, invalid_field

FIELDS = ["id", "name", "slug", "plan", "memberCount", "createdAt"]
UNKNOWN = "01890000-0000-7000-8000-000000000000"
WRONG = {
    "name": [None, 1, True, [], {}, "", " \t\n", "x" * 121, "a\0b", "\ud800"],
    "timezone": [
        None,
        1,
        True,
        [],
        {},
        "",
        "x" * 129,
        "Europe/Atlantis",
        "europe/berlin",
        " Europe/Berlin",
        "CET-1",
        "+02:00",
        "UTC+2",
        "right/UTC",
        "posix/UTC",
        "localtime",
        "posixrules",
        "../UTC",
        "Europe",
        "Europe/Berlin\0",
    ],
}


def label(value):
    text = ascii(value)
    return text if len(text) < 40 else f"{len(text)} characters"


@pytest.fixture
def acme(alice, cast):
    """Acme by itself, as Alice sees it."""
    return alice.get(f"/workspaces/{cast['acme']}").get_json()


def row_of(connection, id):
    return connection.execute("SELECT * FROM workspaces WHERE id = %s", (id,)).fetchone()


@pytest.fixture
def adam(app, cast, connection):
    """An admin of Acme."""
    id = insert(connection, "users", email="adam@example.com", name="Adam")
    insert_member(connection, cast["acme"], id, "admin")
    insert_token(connection, id, "tmw_api_adam")
    return Client(app, "tmw_api_adam")


# List


def test_the_list_has_exactly_the_six_fields(alice, cast, connection):
    answer = alice.get("/workspaces")
    assert answer.status_code == 200
    (acme,) = answer.get_json()
    assert list(acme) == FIELDS
    created_at = row_of(connection, cast["acme"])["created_at"]
    assert acme == {
        "id": cast["acme"],
        "name": "Acme",
        "slug": "acme",
        "plan": "Team",
        "memberCount": 2,
        "createdAt": f"{created_at:%Y-%m-%dT%H:%M:%S}.{created_at.microsecond // 1000:03}Z",
    }


def test_the_list_holds_all_that_she_belongs_to_and_no_other(alice, bob, charlie, cast, connection):
    initech = insert(connection, "workspaces", name="Initech", slug="initech", plan="Pro")
    insert_member(connection, initech, cast["alice"], "member")

    def listed(who):
        return [(one["id"], one["memberCount"]) for one in who.get("/workspaces").get_json()]

    assert listed(alice) == [(cast["acme"], 2), (initech, 1)]
    assert listed(bob) == [(cast["acme"], 2)]
    assert listed(charlie) == [(cast["globex"], 1)]
    connection.execute("DELETE FROM members WHERE user_id = %s", (cast["bob"],))
    assert listed(bob) == []
    assert listed(alice) == [(cast["acme"], 1), (initech, 1)]


@pytest.mark.parametrize("plan", ["Starter", "Pro", "Team"])
def test_a_workspace_names_its_plan(alice, cast, connection, plan):
    connection.execute("UPDATE workspaces SET plan = %s WHERE id = %s", (plan, cast["acme"]))
    assert alice.get("/workspaces").get_json()[0]["plan"] == plan
    assert alice.get(f"/workspaces/{cast['acme']}").get_json()["plan"] == plan


# Read


def test_by_id_it_has_its_timezone_too(alice, bob, cast, acme):
    (listed,) = alice.get("/workspaces").get_json()
    assert list(acme) == [*FIELDS, "timezone"]
    assert acme == {**listed, "timezone": "UTC"}
    assert bob.get(f"/workspaces/{cast['acme']}").get_json() == acme


def test_a_workspace_that_is_not_the_active_one_can_be_read_and_changed(alice, cast, connection):
    initech = insert(connection, "workspaces", name="Initech", slug="initech", plan="Team")
    insert_member(connection, initech, cast["alice"], "owner")
    assert alice.get(f"/workspaces/{initech}").get_json()["name"] == "Initech"
    changed = alice.patch(f"/workspaces/{initech}", {"name": "Initrode"})
    assert changed.get_json()["name"] == "Initrode"
    assert row_of(connection, initech)["name"] == "Initrode"
    assert row_of(connection, cast["acme"])["name"] == "Acme"


# Update


@pytest.mark.parametrize("role", ["owner", "admin"])
def test_an_owner_and_an_admin_can_change_it(alice, adam, acme, connection, role):
    who = {"owner": alice, "admin": adam}[role]
    wanted = {"name": "Acme Corporation", "timezone": "Europe/Berlin"}
    answer = who.patch(f"/workspaces/{acme['id']}", {**wanted, "name": "  Acme Corporation "})
    assert answer.status_code == 200
    assert list(answer.get_json()) == [*FIELDS, "timezone"]
    assert answer.get_json() == {**acme, **wanted, "memberCount": 3}
    assert who.get(f"/workspaces/{acme['id']}").get_json() == answer.get_json()
    row = row_of(connection, acme["id"])
    # Adam joining was the second version.
    assert (row["name"], row["timezone"], row["version"]) == (*wanted.values(), 3)


@pytest.mark.parametrize("changes", [{"name": "Bob's"}, {"timezone": "Asia/Tokyo"}], ids=str)
def test_bob_cannot_change_the_workspace(bob, alice, acme, connection, changes):
    before = row_of(connection, acme["id"])
    assert "owner or an admin" in error_message(
        bob.patch(f"/workspaces/{acme['id']}", changes), 403
    )
    assert row_of(connection, acme["id"]) == before


def test_an_owner_elsewhere_is_a_mere_member_here(bob, cast, acme, connection):
    initech = insert(connection, "workspaces", name="Initech", slug="initech", plan="Team")
    insert_member(connection, initech, cast["bob"], "owner")
    error_message(bob.patch(f"/workspaces/{acme['id']}", {"name": "Bob's"}), 403)
    assert row_of(connection, acme["id"])["name"] == "Acme"


def test_charlie_cannot_tell_that_it_exists(charlie, acme, connection):
    error_message(charlie.patch(f"/workspaces/{acme['id']}", {"name": "Charlie's"}), 404)
    assert row_of(connection, acme["id"])["name"] == "Acme"


@pytest.mark.parametrize(
    ("field", "value"),
    [("name", "Another"), ("name", "x" * 120), ("name", "é" * 120), ("timezone", "Asia/Kolkata")],
    ids=label,
)
def test_a_change_touches_its_field_only(alice, acme, connection, field, value):
    changed = alice.patch(f"/workspaces/{acme['id']}", {field: value})
    assert changed.status_code == 200
    assert changed.get_json() == {**acme, field: value}
    assert alice.get("/workspaces").get_json() == [
        {name: value for name, value in changed.get_json().items() if name in FIELDS}
    ]
    row = row_of(connection, acme["id"])
    assert (row[field], row["version"]) == (value, 2)


@pytest.mark.parametrize(
    "changes", [{}, {"name": "Acme"}, {"name": " Acme ", "timezone": "UTC"}], ids=str
)
def test_a_document_that_changes_nothing_writes_nothing(alice, acme, connection, changes):
    before = row_of(connection, acme["id"])
    answer = alice.patch(f"/workspaces/{acme['id']}", changes)
    assert answer.status_code == 200
    assert answer.get_json() == acme
    assert row_of(connection, acme["id"]) == before


@pytest.mark.parametrize(
    ("field", "value"), [(field, value) for field in WRONG for value in WRONG[field]], ids=label
)
def test_a_wrong_value_changes_nothing(alice, acme, connection, field, value):
    before = row_of(connection, acme["id"])
    other = {"name": "Another"} if field == "timezone" else {"timezone": "Asia/Tokyo"}
    assert invalid_field(alice.patch(f"/workspaces/{acme['id']}", {**other, field: value}), field)
    assert row_of(connection, acme["id"]) == before


@pytest.mark.parametrize(
    "zone",
    [
        "UTC",
        "Europe/Berlin",
        "America/Argentina/Buenos_Aires",
        "America/Port-au-Prince",
        "Asia/Kathmandu",
        "Pacific/Kiritimati",
        "Etc/GMT+12",
        "Australia/Lord_Howe",
    ],
)
def test_an_iana_timezone_is_taken_and_the_figures_still_read(alice, acme, connection, zone):
    connection.execute("UPDATE workspaces SET timezone = 'Africa/Lagos'")
    changed = alice.patch(f"/workspaces/{acme['id']}", {"timezone": zone})
    assert changed.status_code == 200
    assert changed.get_json()["timezone"] == zone
    assert row_of(connection, acme["id"])["timezone"] == zone
    assert alice.get("/dashboard/stats").status_code == 200


@pytest.mark.parametrize(
    ("field", "hint"),
    [
        ("nmae", "did you mean name?"),
        ("timeZone", "did you mean timezone?"),
        ("slug", "allowed: name, timezone"),
        ("plan", "allowed: name, timezone"),
        ("id", "allowed: name, timezone"),
        ("memberCount", "allowed: name, timezone"),
    ],
)
def test_an_unknown_field_is_refused_and_the_known_ones_named(alice, acme, connection, field, hint):
    answer = alice.patch(f"/workspaces/{acme['id']}", {field: "Pro"})
    assert invalid_field(answer, field) == f"unknown field; {hint}"
    assert row_of(connection, acme["id"])["version"] == 1


def test_two_changes_of_different_fields_both_survive(app, alice, acme, together, connection):
    path = f"/workspaces/{acme['id']}"
    again = Client(app, TOKENS["alice"])
    answers = together(
        "workspaces",
        acme["id"],
        lambda: alice.patch(path, {"name": "Another"}),
        lambda: again.patch(path, {"timezone": "Asia/Tokyo"}),
    )
    assert [answer.status_code for answer in answers] == [200, 200]
    row = row_of(connection, acme["id"])
    assert (row["name"], row["timezone"], row["version"]) == ("Another", "Asia/Tokyo", 3)


# Members


def test_members_are_listed_with_their_roles_in_the_order_of_joining(
    alice, bob, adam, cast, connection
):
    for name, day in (("alice", 2), ("bob", 1)):
        connection.execute(
            "UPDATE members SET joined_at = %s WHERE user_id = %s",
            (f"2020-01-0{day}T00:00:00Z", cast[name]),
        )
    answer = alice.get(f"/workspaces/{cast['acme']}/members")
    assert answer.status_code == 200
    members = answer.get_json()
    fields = ["userId", "name", "email", "role", "joinedAt"]
    assert [list(member) for member in members] == [fields] * 3
    assert members[0] == {
        "userId": cast["bob"],
        "name": "Bob",
        "email": "bob@example.com",
        "role": "member",
        "joinedAt": "2020-01-01T00:00:00.000Z",
    }
    assert [(member["name"], member["role"]) for member in members[1:]] == [
        ("Alice", "owner"),
        ("Adam", "admin"),
    ]
    assert bob.get(f"/workspaces/{cast['acme']}/members").get_json() == members


def test_who_has_left_is_no_member_and_sees_no_members(alice, bob, cast, connection):
    connection.execute("DELETE FROM members WHERE user_id = %s", (cast["bob"],))
    members = alice.get(f"/workspaces/{cast['acme']}/members").get_json()
    assert [member["name"] for member in members] == ["Alice"]
    error_message(bob.get(f"/workspaces/{cast['acme']}/members"), 404)
    error_message(bob.get(f"/workspaces/{cast['acme']}"), 404)


# Credentials, ids and queries

ENDPOINTS = [
    ("GET", "/workspaces"),
    ("GET", "/workspaces/{id}"),
    ("PATCH", "/workspaces/{id}"),
    ("GET", "/workspaces/{id}/members"),
]


@pytest.mark.parametrize(("method", "path"), ENDPOINTS)
def test_a_stranger_may_do_nothing_with_workspaces(stranger, acme, connection, method, path):
    body = {"name": "Stolen"} if method == "PATCH" else None
    answer = stranger.send(method, path.format(**acme), json=body)
    assert "nauthorized" in error_message(answer, 401)
    assert row_of(connection, acme["id"])["name"] == "Acme"


@pytest.mark.parametrize(("method", "path"), ENDPOINTS[1:])
def test_an_unknown_a_malformed_and_a_foreign_id_are_the_same_404(
    alice, cast, connection, method, path
):
    body = {"name": "Stolen"} if method == "PATCH" else None
    odd = [UNKNOWN, "acme", "1", "%00", "x" * 1000, cast["alice"]]
    messages = {
        error_message(alice.send(method, path.format(id=id), json=body), 404)
        for id in [*odd, cast["globex"], cast["globex"].upper()]
    }
    assert messages == {"Workspace not found"}
    assert row_of(connection, cast["globex"])["name"] == "Globex"


@pytest.mark.parametrize(("method", "path"), ENDPOINTS)
def test_workspaces_take_no_query(alice, acme, connection, method, path):
    body = {"name": "Renamed"} if method == "PATCH" else None
    answer = alice.send(method, path.format(**acme) + "?limit=1", json=body)
    assert "unknown query parameter" in invalid_field(answer, "limit")
    assert row_of(connection, acme["id"])["name"] == "Acme"


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/workspaces"), ("DELETE", "/workspaces/{id}"), ("POST", "/workspaces/{id}/members")],
)
def test_workspaces_and_members_are_not_made_or_removed_here(alice, acme, connection, method, path):
    error_message(alice.send(method, path.format(**acme), json={"name": "New"}), 405)
    assert connection.execute("SELECT count(*) FROM workspaces").fetchone()["count"] == 2
