"""Workspaces: who can see them, and which roles may change them."""

import pytest
from support.http import error_message
from support.rows import insert_member, row_of


@pytest.fixture
def acme(alice, cast):
    return alice.get(f"/workspaces/{cast['acme']}").get_json()


def test_the_list_of_workspaces_has_six_fields(alice, cast, connection):
    response = alice.get("/workspaces")
    assert response.status_code == 200
    (acme,) = response.get_json()
    created_at = row_of(connection, "workspaces", cast["acme"])["created_at"]
    assert acme == {
        "id": cast["acme"],
        "name": "Acme",
        "slug": "acme",
        "plan": "Team",
        "memberCount": 2,
        "createdAt": f"{created_at:%Y-%m-%dT%H:%M:%S}.{created_at.microsecond // 1000:03}Z",
    }


def test_the_list_has_exactly_the_workspaces_of_the_caller(
    alice, bob, charlie, cast, connection, initech
):
    def listed(who):
        return [(one["id"], one["memberCount"]) for one in who.get("/workspaces").get_json()]

    assert listed(alice) == [(cast["acme"], 2), (initech, 1)]
    assert listed(bob) == [(cast["acme"], 2)]
    assert listed(charlie) == [(cast["globex"], 1)]
    connection.execute("DELETE FROM members WHERE user_id = %s", (cast["bob"],))
    assert listed(bob) == []
    assert listed(alice) == [(cast["acme"], 1), (initech, 1)]


def test_a_workspace_that_is_not_active_can_be_read_and_changed(alice, cast, connection, initech):
    assert alice.get(f"/workspaces/{initech}").get_json()["name"] == "Initech"
    changed = alice.patch(f"/workspaces/{initech}", {"name": "Initrode"})
    assert changed.get_json()["name"] == "Initrode"
    assert row_of(connection, "workspaces", initech)["name"] == "Initrode"
    assert row_of(connection, "workspaces", cast["acme"])["name"] == "Acme"


@pytest.mark.parametrize("role", ["owner", "admin"])
def test_an_owner_and_an_admin_can_change_a_workspace(alice, adam, acme, connection, role):
    who = {"owner": alice, "admin": adam}[role]
    expected = {"name": "Acme Corporation", "timezone": "Europe/Berlin"}
    response = who.patch(f"/workspaces/{acme['id']}", {**expected, "name": "  Acme Corporation "})
    assert response.status_code == 200
    assert response.get_json() == {**acme, **expected, "memberCount": 3}
    assert who.get(f"/workspaces/{acme['id']}").get_json() == response.get_json()
    (listed,) = who.get("/workspaces").get_json()
    assert response.get_json() == {**listed, "timezone": "Europe/Berlin"}
    row = row_of(connection, "workspaces", acme["id"])
    # Version 2 came with Adam's joining.
    assert (row["name"], row["timezone"], row["version"]) == (*expected.values(), 3)


def test_a_plain_member_cannot_change_the_workspace(bob, acme, connection):
    before = row_of(connection, "workspaces", acme["id"])
    for headers in ({}, {"If-Match": '"9"'}):
        refused = bob.patch(f"/workspaces/{acme['id']}", {"name": "Bob's"}, headers=headers)
        assert "Only owners and admins may change" in error_message(refused, 403)
    assert row_of(connection, "workspaces", acme["id"]) == before


def test_an_owner_cannot_change_another_workspace_in_which_the_owner_is_a_plain_member(
    bob, cast, acme, connection, initech
):
    insert_member(connection, initech, cast["bob"], "owner")
    error_message(bob.patch(f"/workspaces/{acme['id']}", {"name": "Bob's"}), 403)
    assert row_of(connection, "workspaces", acme["id"])["name"] == "Acme"
