"""Members over HTTP: who may add, change and remove whom, and what a removal ends."""

import pytest
from support.http import Client, error_message, invalid_field, location
from support.receivers import subscribe
from support.rows import TOKENS, count, insert, insert_member, insert_token

NEW = {"email": "Mia@example.com"}
MANAGED = "Only owners and admins may manage members"


@pytest.fixture
def path(cast):
    return f"/workspaces/{cast['acme']}/members"


@pytest.fixture
def roles(connection, cast):
    query = (
        "SELECT name, role FROM members JOIN users ON users.id = user_id WHERE workspace_id = %s"
    )
    return lambda: {
        row["name"]: row["role"] for row in connection.execute(query, (cast["acme"],)).fetchall()
    }


@pytest.fixture
def dora(join):
    return join("dora", "owner")


@pytest.mark.usefixtures("adam", "initech")
def test_members_are_listed_with_roles_in_the_order_of_joining(alice, bob, cast, connection, path):
    for name, day in (("alice", 2), ("bob", 1)):
        connection.execute(
            "UPDATE members SET joined_at = %s WHERE user_id = %s",
            (f"2020-01-0{day}T00:00:00Z", cast[name]),
        )
    response = alice.get(path)
    assert response.status_code == 200
    members = response.get_json()
    assert members[0] == {
        "userId": cast["bob"],
        "name": "Bob",
        "email": "bob@example.com",
        "role": "member",
        "joinedAt": "2020-01-01T00:00:00.000Z",
    }
    later = [("Alice", "owner"), ("Adam", "admin")]
    assert [(member["name"], member["role"]) for member in members[1:]] == later
    assert bob.get(path).get_json() == members


def test_adding_an_unknown_address_creates_a_user_who_is_active_in_this_workspace(
    app, alice, cast, connection, path
):
    response = alice.post(path, NEW)
    assert response.status_code == 201
    mia = response.get_json()
    assert location(response) == f"{path}/{mia['userId']}"
    assert {**mia, "userId": "", "joinedAt": ""} == {
        **{"userId": "", "name": "Mia", "email": "Mia@example.com"},
        **{"role": "member", "joinedAt": ""},
    }
    assert alice.get(path).get_json()[-1] == mia
    assert alice.get(f"/workspaces/{cast['acme']}").get_json()["memberCount"] == 3
    insert_token(connection, mia["userId"], "tmw_api_mia")
    me = Client(app, "tmw_api_mia").get("/me").get_json()
    assert (me["workspace"]["id"], me["workspace"]["role"]) == (cast["acme"], "member")


def test_a_user_from_another_workspace_keeps_the_name_and_the_active_workspace(
    alice, charlie, cast, connection, path
):
    users = count(connection, "users")
    body = {"email": "CHARLIE@example.com", "name": "Chuck", "role": "admin"}
    added = alice.post(path, body).get_json()
    assert (added["userId"], added["name"]) == (cast["charlie"], "Charlie")
    assert (added["email"], added["role"]) == ("charlie@example.com", "admin")
    assert charlie.get("/me").get_json()["workspace"]["id"] == cast["globex"]
    assert count(connection, "users") == users


def test_adding_a_member_again_or_a_deactivated_user_gets_409(alice, connection, path, roles):
    body = {"email": "BOB@example.com", "role": "admin"}
    assert error_message(alice.post(path, body), 409).endswith("is already a member")
    connection.execute("UPDATE users SET deactivated_at = now() WHERE name = 'Charlie'")
    deactivated = alice.post(path, {"email": "charlie@example.com"})
    assert "deactivated" in error_message(deactivated, 409)
    assert roles() == {"Alice": "owner", "Bob": "member"}
    assert alice.get("/workspaces").get_json()[0]["memberCount"] == 2


def test_adding_an_unknown_address_gets_404_if_members_may_not_create_users(
    build, connection, path
):
    alice = Client(build(members_create_users=False), TOKENS["alice"])
    assert error_message(alice.post(path, NEW), 404).startswith("email: no user has this address")
    assert count(connection, "users") == 3
    assert alice.post(path, {"email": "charlie@example.com"}).status_code == 201


def test_a_malformed_address_or_role_gets_400_and_creates_nobody(alice, connection, path):
    assert invalid_field(alice.post(path, {"email": "mia"}), "email")
    assert invalid_field(alice.post(path, {**NEW, "role": "guest"}), "role")
    assert invalid_field(alice.post(path, {**NEW, "name": " "}), "name")
    assert count(connection, "users") == 3


@pytest.mark.parametrize(
    ("method", "name", "body"),
    [
        ("POST", "", {**NEW, "role": "owner"}),
        ("POST", "", {**NEW, "role": "admin"}),
        ("PATCH", "bob", {"role": "admin"}),
        ("PATCH", "bob", {"role": "owner"}),
        ("PATCH", "adam", {"role": "member"}),
        ("PATCH", "adam", {"role": "owner"}),
        ("PATCH", "alice", {"role": "member"}),
        ("PATCH", "alice", {}),
        ("DELETE", "alice", None),
        ("DELETE", "dora", None),
    ],
)
@pytest.mark.usefixtures("dora")
def test_an_admin_cannot_appoint_change_or_remove_owners_and_admins(
    adam, connection, cast, path, roles, method, name, body
):
    before, users = roles(), count(connection, "users")
    place = f"{path}/{cast[name]}" if name else path
    for headers in ({}, {"Idempotency-Key": "1"}):
        response = adam.send(method, place, json=body, headers=headers)
        assert MANAGED in error_message(response, 403)
    assert (roles(), count(connection, "users")) == (before, users)
    assert count(connection, "idempotency_keys") == 0


def test_an_admin_can_add_and_remove_plain_members(adam, cast, path, roles):
    assert adam.post(path, NEW).status_code == 201
    assert adam.patch(f"{path}/{cast['bob']}", {"role": "member"}).status_code == 200
    assert adam.delete(f"{path}/{cast['bob']}").status_code == 204
    assert roles() == {"Alice": "owner", "Adam": "admin", "Mia": "member"}


def test_a_plain_member_may_leave_but_cannot_add_change_or_remove_anybody(
    bob, adam, cast, path, roles
):
    del adam
    before = roles()
    for name in ("alice", "adam", "bob"):
        assert MANAGED in error_message(bob.patch(f"{path}/{cast[name]}", {"role": "member"}), 403)
    for name in ("alice", "adam"):
        assert MANAGED in error_message(bob.delete(f"{path}/{cast[name]}"), 403)
    for email in ("mia@example.com", "charlie@example.com", "alice@example.com"):
        assert MANAGED in error_message(bob.post(path, {"email": email}), 403)
    assert roles() == before
    assert bob.delete(f"{path}/{cast['bob']}").status_code == 204
    assert "Bob" not in roles()


def test_an_owner_can_appoint_owners_and_may_leave_unless_no_other_owner_is_left(
    alice, bob, cast, path, roles
):
    mine, bobs = f"{path}/{cast['alice']}", f"{path}/{cast['bob']}"
    for response in (alice.delete(mine), alice.patch(mine, {"role": "admin"})):
        assert "must keep an owner" in error_message(response, 409)
    for role in ("admin", "owner"):
        changed = alice.patch(bobs, {"role": role})
        assert changed.get_json() == alice.get(path).get_json()[-1]
        assert roles()["Bob"] == role
    assert alice.delete(mine).status_code == 204
    assert roles() == {"Bob": "owner"}
    assert error_message(alice.get(path), 404)
    assert "must keep an owner" in error_message(bob.delete(bobs), 409)


def test_changing_or_removing_a_member_of_another_workspace_gets_404(
    alice, cast, initech, path, roles, connection
):
    insert_member(connection, initech, cast["charlie"])
    before = roles()
    for place in (f"{path}/{cast['charlie']}", f"/workspaces/{initech}/members/{cast['bob']}"):
        assert error_message(alice.patch(place, {"role": "admin"}), 404) == "Member not found"
        assert error_message(alice.delete(place), 404) == "Member not found"
    assert roles() == before


def test_removing_a_member_ends_everything_that_the_member_had_in_the_workspace(
    app, alice, bob, cast, connection, path
):
    """The command that removes a member does the same."""
    subscribe(connection, cast["acme"], "https://example.com/hook")
    insert_member(connection, cast["globex"], cast["bob"])
    insert_token(connection, cast["bob"], "tmw_api_here", workspace_id=cast["acme"])
    insert_token(connection, cast["bob"], "tmw_api_there", workspace_id=cast["globex"])
    title = {"title": "Bob's", "assigneeId": cast["bob"]}
    task = bob.post("/tasks", title, headers={"Idempotency-Key": "1"}).get_json()
    connection.execute("DELETE FROM events")
    assert alice.delete(f"{path}/{cast['bob']}").status_code == 204
    assert error_message(Client(app, "tmw_api_here").get("/me"), 401)
    assert Client(app, "tmw_api_there").get("/me").get_json()["workspace"]["id"] == cast["globex"]
    assert bob.get("/me").get_json()["workspace"] is None
    assert alice.get(f"/tasks/{task['id']}").get_json()["assigneeId"] is None
    (event,) = connection.execute("SELECT type, body::json -> 'data' AS data FROM events")
    assert (event["type"], event["data"]["assigneeId"]) == ("task.updated", None)
    assert count(connection, "idempotency_keys") == 0
    assert alice.get(f"/workspaces/{cast['acme']}").get_json()["memberCount"] == 1
    # The user still exists, and can be added again.
    assert alice.post(path, {"email": "bob@example.com"}).get_json()["userId"] == cast["bob"]
    # Adding the user does not make this workspace active.
    assert bob.get("/me").get_json()["workspace"] is None
    assert "PATCH /api/me" in error_message(bob.post("/tasks", {"title": "Where?"}), 409)
    assert bob.patch("/me", {"workspaceId": cast["acme"]}).status_code == 200
    assert bob.post("/tasks", {"title": "Here"}).get_json()["workspaceId"] == cast["acme"]


@pytest.mark.parametrize("creates", [True, False])
def test_adding_an_existing_user_never_changes_the_active_workspace_of_that_user(
    build, charlie, bob, cast, connection, path, creates
):
    """Charlie has another workspace but no active one; Lone has no workspace at all."""
    lone = insert(connection, "users", email="lone@example.com", name="Lone")
    connection.execute("UPDATE users SET active_workspace_id = NULL WHERE name = 'Charlie'")
    alice = Client(build(members_create_users=creates), TOKENS["alice"])
    for name in ("charlie", "lone"):
        headers = {"Idempotency-Key": name}
        for _ in range(2):
            added = alice.post(path, {"email": f"{name}@example.com"}, headers=headers)
            assert added.status_code == 201
    insert_token(connection, lone, "tmw_api_lone")
    for client in (charlie, Client(build(), "tmw_api_lone")):
        assert client.get("/me").get_json()["workspace"] is None
        error_message(client.post("/tasks", {"title": "Secret plan"}), 409)
    insert_member(connection, cast["globex"], cast["bob"], "owner")
    assert bob.post(f"/workspaces/{cast['globex']}/members", NEW).status_code == 201
    assert count(connection, "users", "active_workspace_id IS NULL") == 2


def test_the_key_of_a_request_about_members_belongs_to_the_workspace_in_the_path(
    alice, bob, cast, connection, path, initech
):
    def add():
        return bob.post(path, NEW, headers={"Idempotency-Key": "1"})

    connection.execute("UPDATE members SET role = 'owner'")
    assert add().status_code == 201
    insert_member(connection, initech, cast["bob"], "owner")
    bob.patch("/me", {"workspaceId": initech})
    assert add().headers["Idempotent-Replayed"] == "true"
    assert alice.delete(f"{path}/{cast['bob']}").status_code == 204
    assert error_message(add(), 404)


def test_a_stranger_who_leaves_a_workspace_does_not_learn_that_it_exists(charlie, cast, path):
    assert "not found" in error_message(charlie.delete(f"{path}/{cast['charlie']}"), 404)


def test_two_owners_who_remove_each_other_at_the_same_time_leave_one(
    together, alice, dora, cast, path, connection, roles
):
    first, second = together(
        "users",
        # The first request waits for this row, and the second one for the lock of the workspace.
        cast["dora"],
        *(
            lambda who=who, name=name: who.delete(
                f"{path}/{cast[name]}", headers={"Idempotency-Key": "1"}
            )
            for who, name in ((alice, "dora"), (dora, "alice"))
        ),
    )
    assert sorted([first.status_code, second.status_code]) == [204, 404]
    assert sorted(roles().values()) == ["member", "owner"]
    counted = "SELECT member_count FROM workspaces WHERE slug = 'acme'"
    assert connection.execute(counted).fetchone() == {"member_count": 2}


def test_two_owners_who_add_the_same_address_while_a_member_leaves_add_one_user(
    together, alice, bob, dora, cast, path, roles
):
    responses = together(
        "workspaces",
        cast["acme"],
        lambda: alice.post(path, NEW),
        lambda: dora.post(path, NEW),
        lambda: bob.delete(f"{path}/{cast['bob']}"),
    )
    assert sorted(response.status_code for response in responses) == [201, 204, 409]
    assert roles() == {"Alice": "owner", "Dora": "owner", "Mia": "member"}
    assert alice.get(f"/workspaces/{cast['acme']}").get_json()["memberCount"] == 3
