"""Members of workspaces by commands."""

import re

from client import TOKENS, Client
from outcomes import TIMESTAMP, assert_failed, lines, rows, value


def test_adding_a_member_again_changes_the_role(flask, connection, cast):
    for role in ("admin", "owner", "member"):
        assert (
            value(flask("member", "add", "acme", "bob@example.com", "--role", role)) == cast["bob"]
        )
        query = "SELECT role FROM members WHERE user_id = %s"
        assert rows(connection, query, cast["bob"]) == [{"role": role}]


def test_a_list_of_members_has_their_roles_in_the_order_of_joining(flask, cast):
    alice, bob = lines(flask("member", "list", "acme"))
    assert alice[:4] == [cast["alice"], "alice@example.com", "Alice", "owner"]
    assert bob[:4] == [cast["bob"], "bob@example.com", "Bob", "member"]
    assert re.fullmatch(TIMESTAMP, bob[4])
    assert '"joinedAt": ' in flask("member", "list", "acme", "--json").stdout


def test_a_wrong_workspace_and_a_wrong_user_are_told_apart(flask):
    for words in (["add"], ["remove", "--yes"], ["remove"]):
        outcome = flask("member", *words, "nowhere", "nobody@example.com")
        assert outcome.stderr == "Error: there is no workspace nowhere\n"
    outcome = flask("member", "add", "acme", "nobody@example.com")
    assert outcome.stderr == "Error: there is no user nobody@example.com\n"


def test_only_the_removal_of_a_member_is_asked_about(flask):
    outcome = flask("member", "remove", "acme", "charlie@example.com")
    assert_failed(outcome, "charlie@example.com is not a member of acme")
    outcome = flask("member", "remove", "acme", "bob@example.com")
    assert_failed(outcome, "Remove Bob (bob@example.com) from acme? Without a terminal")


def test_a_removed_member_has_lost_the_workspace_and_keeps_the_account(app, flask, cast):
    bob = Client(app, TOKENS["bob"])
    task = bob.post("/tasks", {"title": "Bob's", "assigneeId": cast["bob"]}).get_json()
    assert value(flask("member", "remove", "acme", "BOB@example.com", "--yes")) == cast["bob"]
    assert bob.get("/workspaces").get_json() == []
    assert bob.get("/me").get_json()["workspace"] is None
    left = Client(app, TOKENS["alice"]).get(f"/tasks/{task['id']}").get_json()
    assert left["assigneeId"] is None
    again = flask("member", "remove", "acme", "bob@example.com", "--yes")
    assert_failed(again, "bob@example.com is not a member of acme")


def test_the_last_owner_stays_and_any_other_owner_can_be_removed(flask, connection, cast):
    remove = "member", "remove", "acme", "alice@example.com", "--yes"
    assert_failed(flask(*remove), "alice@example.com is the last owner of acme")
    flask("member", "add", "acme", "bob@example.com", "--role", "owner")
    assert value(flask(*remove)) == cast["alice"]
    members = "SELECT user_id::text AS id FROM members WHERE workspace_id = %s"
    assert rows(connection, members, cast["acme"]) == [{"id": cast["bob"]}]


def test_the_last_owner_stays_an_owner_and_any_other_owner_can_become_a_member(
    flask, connection, cast
):
    demote = "member", "add", "acme", "alice@example.com", "--role", "member"
    assert_failed(flask(*demote), "alice@example.com is the last owner of acme")
    flask("member", "add", "acme", "bob@example.com", "--role", "owner")
    assert value(flask(*demote)) == cast["alice"]
    owners = "SELECT user_id::text AS id FROM members WHERE workspace_id = %s AND role = 'owner'"
    assert rows(connection, owners, cast["acme"]) == [{"id": cast["bob"]}]


def test_two_owners_that_are_removed_at_once_leave_one_owner(flask, connection, cast, together):
    connection.execute("UPDATE members SET role = 'owner'")
    # Both wait for the first owner, whose row is locked.
    first = min(cast["alice"], cast["bob"])
    connection.execute("DELETE FROM members WHERE user_id = %s", (cast["charlie"],))
    outcomes = together(
        "members",
        first,
        lambda: flask("member", "remove", "acme", "alice@example.com", "--yes"),
        lambda: flask("member", "remove", "acme", "bob@example.com", "--yes"),
        column="user_id",
    )
    assert sorted(outcome.exit_code for outcome in outcomes) == [0, 1]
    assert rows(connection, "SELECT role FROM members") == [{"role": "owner"}]
