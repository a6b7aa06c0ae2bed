"""The commands member add, list and remove."""

import json
import re

import pytest
from support.commands import TIMESTAMP, assert_failed, lines, rows, value


def test_adding_a_member_again_changes_the_role(cli, connection, cast):
    for role in ("admin", "owner", "member"):
        assert value(cli("member", "add", "acme", "bob@example.com", "--role", role)) == cast["bob"]
        query = "SELECT role FROM members WHERE user_id = %s"
        assert rows(connection, query, cast["bob"]) == [{"role": role}]


def test_lists_in_json_name_members_and_counts_as_the_api_does(cli, cast):
    def first(*words):
        return json.loads(cli(*words, "--json").stdout)[0]

    assert first("member", "list", "acme")["userId"] == cast["alice"]
    assert first("workspace", "list")["memberCount"] == 2
    assert "workspaceCount" in first("plan", "list")


def test_member_list_prints_members_with_their_roles_in_the_order_of_joining(cli, cast):
    alice, bob = lines(cli("member", "list", "acme"))
    assert alice[:4] == [cast["alice"], "alice@example.com", "Alice", "owner"]
    assert bob[:4] == [cast["bob"], "bob@example.com", "Bob", "member"]
    assert re.fullmatch(TIMESTAMP, bob[4])


def test_member_remove_asks_only_if_the_user_is_a_member(cli):
    outcome = cli("member", "remove", "acme", "charlie@example.com")
    assert_failed(outcome, "charlie@example.com is not a member of acme")
    outcome = cli("member", "remove", "acme", "BOB@example.com")
    assert_failed(outcome, "Remove Bob (BOB@example.com) from acme? Without a terminal")


@pytest.mark.parametrize("change", [["remove", "--yes"], ["add", "--role", "member"]])
def test_the_last_owner_cannot_leave_or_be_demoted_and_any_other_owner_can(
    cli, connection, cast, change
):
    command, *options = change
    words = "member", command, "acme", "alice@example.com", *options
    assert_failed(cli(*words), "alice@example.com is the last owner of acme")
    own = "member", "add", "acme", "alice@example.com", "--role", "owner"
    assert value(cli(*own)) == cast["alice"]
    cli("member", "add", "acme", "bob@example.com", "--role", "owner")
    assert value(cli(*words)) == cast["alice"]
    owners = "SELECT user_id::text AS id FROM members WHERE workspace_id = %s AND role = 'owner'"
    assert rows(connection, owners, cast["acme"]) == [{"id": cast["bob"]}]


def test_an_operator_can_add_a_deactivated_user(cli, connection, cast):
    cli("user", "deactivate", "charlie@example.com")
    assert value(cli("member", "add", "acme", "charlie@example.com")) == cast["charlie"]
    found = "SELECT role FROM members WHERE workspace_id = %s AND user_id = %s"
    assert rows(connection, found, cast["acme"], cast["charlie"]) == [{"role": "member"}]


def test_a_workspace_without_owners_can_get_new_members_and_roles(cli, connection, cast):
    """A DELETE in SQL, past the service, can leave a workspace without owners."""
    connection.execute("DELETE FROM members WHERE user_id = %s", (cast["alice"],))
    for email, role in (("bob@example.com", "admin"), ("charlie@example.com", "owner")):
        assert cli("member", "add", "acme", email, "--role", role).exit_code == 0
    found = "SELECT role FROM members WHERE workspace_id = %s ORDER BY role"
    assert rows(connection, found, cast["acme"]) == [{"role": "admin"}, {"role": "owner"}]
