"""The commands for users: activate, list, show, deactivate, reactivate and delete."""

import json
import re

import pytest
from support.commands import TIMESTAMP, assert_failed, lines, rows, value
from support.http import Client, error_message
from support.rows import TOKENS, activate, count


def test_only_the_first_workspace_of_a_user_becomes_active_by_itself(cli, connection, cast):
    value(cli("user", "create", "dora@example.com", "Dora"))
    active = "SELECT active_workspace_id::text AS id FROM users WHERE name = 'Dora'"
    assert rows(connection, active) == [{"id": None}]
    value(cli("member", "add", "globex", "dora@example.com"))
    assert rows(connection, active) == [{"id": cast["globex"]}]
    value(cli("member", "add", "acme", "dora@example.com"))
    assert rows(connection, active) == [{"id": cast["globex"]}]
    assert value(cli("user", "activate", "DORA@example.com", "acme")) == cast["acme"]
    assert rows(connection, active) == [{"id": cast["acme"]}]


def test_user_list_prints_workspaces_and_the_time_of_the_last_request(app, cli, cast, initech):
    Client(app, TOKENS["alice"]).get("/tasks")
    alice, bob, charlie = lines(cli("user", "list"))
    assert alice[:3] == [cast["alice"], "alice@example.com", "Alice"]
    assert alice[3:5] == ["acme", "acme:owner,initech:owner"]
    assert re.fullmatch(TIMESTAMP, alice[5])
    assert re.fullmatch(TIMESTAMP, alice[6])
    assert bob[3:5] == ["acme", "acme:member"]
    assert charlie[6] == "-"


def test_the_json_of_a_user_has_slugs_and_roles_apart_and_says_what_ended_when(cli, cast, initech):
    def shown(name):
        (document,) = json.loads(cli("user", "show", name, "--json").stdout)
        return document

    alice = shown("alice@example.com")
    assert alice["workspaces"] == [
        {"slug": "acme", "role": "owner"},
        {"slug": "initech", "role": "owner"},
    ]
    assert (alice["deactivatedAt"], alice["deletedAt"]) == (None, None)
    value(cli("user", "deactivate", "bob@example.com"))
    assert re.fullmatch(TIMESTAMP, shown(cast["bob"])["deactivatedAt"])
    value(cli("user", "delete", "bob@example.com", "--yes"))
    bob = shown(cast["bob"])
    assert (bob["state"], bob["workspaces"], bob["deactivatedAt"]) == ("deleted", [], None)
    assert re.fullmatch(TIMESTAMP, bob["deletedAt"])


def test_user_show_finds_a_user_by_id_and_by_address_in_any_case(cli, cast):
    (shown,) = lines(cli("user", "show", cast["bob"]))
    assert shown[:3] == [cast["bob"], "bob@example.com", "Bob"]
    assert lines(cli("user", "show", "BOB@example.com")) == [shown]
    assert lines(cli("user", "show", cast["bob"].upper())) == [shown]


def test_tasks_of_a_deleted_user_stay_without_an_assignee(app, cli, connection, cast):
    alice, bob = Client(app, TOKENS["alice"]), Client(app, TOKENS["bob"])
    task = bob.post("/tasks", {"title": "Bob's", "assigneeId": cast["bob"]}).get_json()
    assert bob.patch("/me", {}, headers={"Idempotency-Key": "k"}).status_code == 200
    activate(connection, None, cast["bob"])
    assert bob.patch("/me", {}, headers={"Idempotency-Key": "l"}).status_code == 200
    assert value(cli("user", "delete", "BOB@example.com", "--yes")) == cast["bob"]
    assert bob.get("/tasks").status_code == 401
    left = alice.get(f"/tasks/{task['id']}").get_json()
    assert (left["assigneeId"], left["createdBy"]) == (None, cast["bob"])
    tables = "users", "members", "tokens", "idempotency_keys"
    assert [count(connection, table) for table in tables] == [2, 2, 2, 0]


def test_an_owner_can_be_deleted_once_each_workspace_has_another_owner(
    cli, connection, cast, initech
):
    delete = "user", "delete", "alice@example.com", "--yes"
    assert_failed(cli(*delete), "alice@example.com is the last owner of acme, initech: first")
    cli("member", "add", "acme", "bob@example.com", "--role", "owner")
    assert_failed(cli(*delete), "is the last owner of initech: first make another member an")
    cli("workspace", "delete", "initech", "--yes")
    assert value(cli(*delete)) == cast["alice"]
    left = rows(connection, "SELECT name FROM users ORDER BY name")
    assert left == [{"name": "Bob"}, {"name": "Charlie"}]


def state(cli, name):
    """Return the state of a user and since when it holds, as ``user show`` prints them."""
    (shown,) = lines(cli("user", "show", name))
    return shown[7:]


@pytest.mark.parametrize("kind", ["token", "session"])
def test_no_credential_of_a_deactivated_user_works_until_the_user_is_reactivated(app, cli, kind):
    secret = value(cli(kind, "create", "bob@example.com"))
    bob = Client(app, secret) if kind == "token" else Client(app, cookie=secret)
    task = bob.post("/tasks", {"title": "Bob's"}, content_type="application/json").get_json()
    id = value(cli("user", "deactivate", "BOB@example.com"))
    assert_failed(cli(kind, "create", "bob@example.com"), "deactivated: first run user reactivate")
    refused = bob.get(f"/tasks/{task['id']}")
    unknown = Client(app, "tmw_api_unknown").get("/tasks")
    assert error_message(refused, 401) == error_message(unknown, 401)
    assert refused.headers["X-RateLimit-Limit"] == "60"
    assert bob.get("/me").status_code == bob.patch(f"/tasks/{task['id']}", {}).status_code == 401
    assert Client(app, TOKENS["alice"]).get(f"/tasks/{task['id']}").get_json() == task
    assert value(cli("user", "reactivate", "BOB@example.com")) == id
    assert bob.get(f"/tasks/{task['id']}").get_json() == task


def test_a_deactivated_user_keeps_assigned_tasks_and_can_be_assigned_no_others(
    app, cli, cast, connection
):
    alice = Client(app, TOKENS["alice"])
    theirs = alice.post("/tasks", {"title": "Bob's", "assigneeId": cast["bob"]}).get_json()
    other = alice.post("/tasks", {"title": "Other"}).get_json()
    # The error must not reveal to members of another workspace that the user is deactivated.
    charlie, task = Client(app, TOKENS["charlie"]), {"title": "x", "assigneeId": cast["bob"]}
    before = error_message(charlie.post("/tasks", task), 400)
    value(cli("user", "deactivate", "bob@example.com"))
    assert error_message(charlie.post("/tasks", task), 400) == before
    # The requests below behave as if they had begun before the deactivation.
    connection.execute("UPDATE users SET deactivated_at = deactivated_at + interval '1 minute'")
    message = "assigneeId: must not be the id of a deactivated user"
    created = alice.post("/tasks", {"title": "New", "assigneeId": cast["bob"]})
    assert error_message(created, 400) == message
    assert [error["field"] for error in created.get_json()["errors"]] == ["assigneeId"]
    changed = alice.patch(f"/tasks/{other['id']}", {"assigneeId": cast["bob"]})
    assert error_message(changed, 400) == message
    listed = alice.get("/tasks").get_json()["data"]
    assert [task["assigneeId"] for task in listed] == [None, cast["bob"]]
    # A client that sends the whole task back, with its old assignee, assigns nothing new.
    kept = alice.patch(f"/tasks/{theirs['id']}", {**theirs, "title": "Still Bob's"}).get_json()
    assert (kept["title"], kept["assigneeId"]) == ("Still Bob's", cast["bob"])
    members = alice.get(f"/workspaces/{cast['acme']}/members").get_json()
    assert [member["name"] for member in members] == ["Alice", "Bob"]
    value(cli("user", "reactivate", "bob@example.com"))
    again = alice.patch(f"/tasks/{other['id']}", {"assigneeId": cast["bob"]})
    assert again.get_json()["assigneeId"] == cast["bob"]


def test_user_list_and_show_print_who_is_deactivated_and_since_when(cli, cast):
    assert state(cli, "bob@example.com") == ["active", "-", "-"]
    value(cli("user", "deactivate", "bob@example.com"))
    first = state(cli, cast["bob"])
    assert first[0] == "deactivated"
    assert re.fullmatch(TIMESTAMP, first[1])
    assert first[2] == "-"
    assert value(cli("user", "deactivate", "bob@example.com")) == cast["bob"]
    assert state(cli, cast["bob"]) == first
    assert [line[7] for line in lines(cli("user", "list"))] == ["active", "deactivated", "active"]
    value(cli("user", "reactivate", "bob@example.com"))
    assert state(cli, cast["bob"]) == ["active", "-", "-"]


def test_the_id_of_a_deleted_user_still_shows_the_time_of_deletion_and_no_personal_data(cli, cast):
    value(cli("user", "delete", "bob@example.com", "--yes"))
    (shown,) = lines(cli("user", "show", cast["bob"].upper()))
    assert shown[:8] == [cast["bob"], *["-"] * 6, "deleted"]
    assert shown[8] == "-"
    assert re.fullmatch(TIMESTAMP, shown[9])
    assert_failed(cli("user", "show", "bob@example.com"), "there is no user bob@example.com")
    assert [line[2] for line in lines(cli("user", "list"))] == ["Alice", "Charlie"]
    assert_failed(cli("token", "list", "bob@example.com"), "there is no user bob@example.com")
