"""The commands workspace list and workspace delete."""

import re

from support.commands import TIMESTAMP, lines, rows, value
from support.http import Client
from support.rows import TOKENS, count


def test_workspace_list_prints_the_plan_and_the_number_of_members(cli, cast):
    acme, globex = lines(cli("workspace", "list"))
    assert acme[:5] == [cast["acme"], "acme", "Acme", "Team", "2"]
    assert globex[:5] == [cast["globex"], "globex", "Globex", "Team", "1"]
    assert re.fullmatch(TIMESTAMP, acme[5])


def test_deleting_a_workspace_deletes_everything_in_it_but_no_user(app, cli, connection, cast):
    alice = Client(app, TOKENS["alice"])
    alice.post("/tasks", {"title": "Gone"})
    Client(app, TOKENS["charlie"]).post("/tasks", {"title": "Stays"})
    assert value(cli("workspace", "delete", "acme", "--yes")) == cast["acme"]
    assert rows(connection, "SELECT slug FROM workspaces") == [{"slug": "globex"}]
    assert rows(connection, "SELECT title FROM tasks") == [{"title": "Stays"}]
    assert count(connection, "users") == 3
    assert alice.get("/workspaces").get_json() == []
