"""Workspaces by commands: list, plan, delete."""

import json
import re

from client import TOKENS, Client, count
from outcomes import TIMESTAMP, lines, rows, value


def test_a_list_of_workspaces_has_plan_and_number_of_members(cli, cast):
    acme, globex = lines(cli("workspace", "list"))
    assert acme[:5] == [cast["acme"], "acme", "Acme", "Team", "2"]
    assert globex[:5] == [cast["globex"], "globex", "Globex", "Team", "1"]
    assert re.fullmatch(TIMESTAMP, acme[5])
    assert json.loads(cli("workspace", "list", "--json").stdout)[0] == {
        "id": cast["acme"],
        "slug": "acme",
        "name": "Acme",
        "plan": "Team",
        "members": 2,
        "createdAt": acme[5],
    }


def test_a_plan_applies_from_the_next_request_on(app, cli, cast):
    alice = Client(app, TOKENS["alice"])
    assert alice.get("/tasks").headers["X-RateLimit-Limit"] == "1000"
    assert value(cli("workspace", "plan", "acme", "Starter")) == cast["acme"]
    assert alice.get("/tasks").headers["X-RateLimit-Limit"] == "60"
    assert Client(app, TOKENS["charlie"]).get("/tasks").headers["X-RateLimit-Limit"] == "1000"


def test_a_deleted_workspace_takes_everything_with_it_and_no_user(app, cli, connection, cast):
    alice = Client(app, TOKENS["alice"])
    alice.post("/tasks", {"title": "Gone"})
    Client(app, TOKENS["charlie"]).post("/tasks", {"title": "Stays"})
    assert value(cli("workspace", "delete", "acme", "--yes")) == cast["acme"]
    assert rows(connection, "SELECT slug FROM workspaces") == [{"slug": "globex"}]
    assert rows(connection, "SELECT title FROM tasks") == [{"title": "Stays"}]
    assert count(connection, "users") == 3
    assert alice.get("/workspaces").get_json() == []
