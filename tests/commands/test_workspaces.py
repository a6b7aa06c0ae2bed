"""The commands workspace list and workspace delete."""

import os
import pty
import re
import subprocess
import sys

import pytest
from support.commands import TIMESTAMP, lines, rows, value
from support.http import Client
from support.project import PROJECT, environment
from support.rows import TOKENS, count


def test_workspace_list_prints_the_plan_and_the_number_of_members(cli, cast):
    acme, globex = lines(cli("workspace", "list"))
    assert acme[:5] == [cast["acme"], "acme", "Acme", "Team", "2"]
    assert globex[:5] == [cast["globex"], "globex", "Globex", "Team", "1"]
    assert re.fullmatch(TIMESTAMP, acme[5])


def test_workspace_list_tells_which_workspaces_are_frozen(cli, cast):
    def states():
        return [line[6] for line in lines(cli("workspace", "list"))]

    assert states() == ["open", "open"]
    cli("workspace", "freeze", "acme")
    assert states() == ["frozen", "open"]
    cli("workspace", "freeze", "acme", "--to", "https://example.com", "--moved")
    assert states() == ["moved", "open"]
    cli("workspace", "unfreeze", "acme")
    assert states() == ["open", "open"]


def test_deleting_a_workspace_deletes_everything_in_it_but_no_user(app, cli, connection, cast):
    alice = Client(app, TOKENS["alice"])
    alice.post("/tasks", {"title": "Gone"})
    Client(app, TOKENS["charlie"]).post("/tasks", {"title": "Stays"})
    assert value(cli("workspace", "delete", "acme", "--yes")) == cast["acme"]
    assert rows(connection, "SELECT slug FROM workspaces") == [{"slug": "globex"}]
    assert rows(connection, "SELECT title FROM tasks") == [{"title": "Stays"}]
    assert count(connection, "users") == 3
    assert alice.get("/workspaces").get_json() == []


@pytest.mark.slow
def test_the_deletion_of_a_workspace_spares_another_one_that_got_its_slug_during_the_question(
    connection, cast, database_url
):
    ours, theirs = pty.openpty()
    with (
        subprocess.Popen(
            [sys.executable, "-m", "service", "workspace", "delete", "acme"],
            cwd=PROJECT,
            env=environment(DATABASE_URL=database_url),
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process,
        os.fdopen(ours, "wb", buffering=0) as keyboard,
    ):
        os.close(theirs)
        asked = b""
        while b"[y/N]" not in asked:
            read = process.stderr.read1()
            assert read, asked
            asked += read
        connection.execute("UPDATE workspaces SET slug = 'old' WHERE slug = 'acme'")
        connection.execute("INSERT INTO workspaces (name, slug, plan) VALUES ('N', 'acme', 'Team')")
        keyboard.write(b"y\n")
        deleted, _ = process.communicate()
    assert deleted.decode().strip() == cast["acme"]
    slugs = rows(connection, "SELECT slug FROM workspaces ORDER BY slug")
    assert [row["slug"] for row in slugs] == ["acme", "globex"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("freeze", "nobody"), "there is no workspace nobody"),
        (("unfreeze", "nobody"), "there is no workspace nobody"),
        (("freeze", "acme", "--to", "acme.example.com"), "--to: must be an http or https URL"),
    ],
)
def test_freezing_an_unknown_workspace_or_to_no_url_is_an_error(cli, cast, words, message):
    result = cli("workspace", *words)
    assert result.exit_code == 1
    assert message in result.output
