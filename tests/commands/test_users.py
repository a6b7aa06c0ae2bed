"""Users by commands: activate, list, show, delete."""

import json
import re

from client import TOKENS, Client, count
from outcomes import TIMESTAMP, assert_failed, lines, rows, value


def test_the_first_workspace_becomes_the_active_one_and_later_ones_do_not(flask, connection, cast):
    value(flask("user", "create", "dora@example.com", "Dora"))
    active = "SELECT active_workspace_id::text AS id FROM users WHERE name = 'Dora'"
    assert rows(connection, active) == [{"id": None}]
    value(flask("member", "add", "globex", "dora@example.com"))
    assert rows(connection, active) == [{"id": cast["globex"]}]
    value(flask("member", "add", "acme", "dora@example.com"))
    assert rows(connection, active) == [{"id": cast["globex"]}]
    assert value(flask("user", "activate", "DORA@example.com", "acme")) == cast["acme"]
    assert rows(connection, active) == [{"id": cast["acme"]}]


def test_a_list_of_users_has_their_workspaces_and_when_they_were_seen(app, flask, cast, initech):
    Client(app, TOKENS["alice"]).get("/tasks")
    alice, bob, charlie = lines(flask("user", "list"))
    assert alice[:5] == [
        cast["alice"],
        "alice@example.com",
        "Alice",
        "acme",
        "acme:owner,initech:owner",
    ]
    assert re.fullmatch(TIMESTAMP, alice[5])
    assert re.fullmatch(TIMESTAMP, alice[6])
    assert bob[3:5] == ["acme", "acme:member"]
    assert charlie[6] == "-"


def test_a_user_is_shown_by_id_and_by_address_without_case(flask, cast):
    (shown,) = lines(flask("user", "show", cast["bob"]))
    assert shown[:3] == [cast["bob"], "bob@example.com", "Bob"]
    assert lines(flask("user", "show", "BOB@example.com")) == [shown]
    assert lines(flask("user", "show", cast["bob"].upper())) == [shown]


def test_json_has_the_columns_of_the_list(flask, cast):
    assert json.loads(value_of_json(flask("user", "show", cast["bob"], "--json"))) == [
        {
            "id": cast["bob"],
            "email": "bob@example.com",
            "name": "Bob",
            "activeWorkspace": "acme",
            "workspaces": ["acme:member"],
            "createdAt": lines(flask("user", "show", cast["bob"]))[0][5],
            "lastSeenAt": None,
        }
    ]
    assert len(json.loads(value_of_json(flask("user", "list", "--json")))) == 3


def value_of_json(outcome):
    assert (outcome.exit_code, outcome.stderr) == (0, "")
    return outcome.stdout


def test_a_deleted_user_leaves_tasks_without_an_assignee(app, flask, connection, cast):
    alice, bob = Client(app, TOKENS["alice"]), Client(app, TOKENS["bob"])
    task = bob.post("/tasks", {"title": "Bob's", "assigneeId": cast["bob"]}).get_json()
    assert value(flask("user", "delete", "BOB@example.com", "--yes")) == cast["bob"]
    assert bob.get("/tasks").status_code == 401
    left = alice.get(f"/tasks/{task['id']}").get_json()
    assert (left["assigneeId"], left["createdBy"]) == (None, cast["bob"])
    tables = [count(connection, table) for table in ("users", "members", "tokens")]
    assert tables == [2, 2, 2]


def test_an_owner_can_be_deleted_once_there_is_another_one(flask, connection, cast, initech):
    delete = "user", "delete", "alice@example.com", "--yes"
    assert_failed(flask(*delete), "alice@example.com is the last owner of acme, initech: first")
    flask("member", "add", "acme", "bob@example.com", "--role", "owner")
    assert_failed(flask(*delete), "is the last owner of initech: first make another member an")
    flask("workspace", "delete", "initech", "--yes")
    assert value(flask(*delete)) == cast["alice"]
    assert rows(connection, "SELECT name FROM users ORDER BY name") == [
        {"name": "Bob"},
        {"name": "Charlie"},
    ]


def test_two_owners_that_are_deleted_at_once_leave_one_owner(flask, connection, cast, together):
    connection.execute("UPDATE members SET role = 'owner'")
    outcomes = together(
        "members",
        min(cast["alice"], cast["bob"]),
        lambda: flask("user", "delete", "alice@example.com", "--yes"),
        lambda: flask("user", "delete", "bob@example.com", "--yes"),
        column="user_id",
    )
    assert sorted(outcome.exit_code for outcome in outcomes) == [0, 1]
    owners = "SELECT role FROM members WHERE workspace_id = %s"
    assert rows(connection, owners, cast["acme"]) == [{"role": "owner"}]
