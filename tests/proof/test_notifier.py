"""The program docs/examples/notify.py reports who closed a task, and nothing else."""

import json
import os
import sys
from contextlib import contextmanager
from subprocess import Popen

import pytest
from support.processes import call, serving, wait_until
from support.project import PROJECT
from support.receivers import answer
from support.rows import TOKENS, activate, count, insert, insert_member, insert_token

pytestmark = pytest.mark.proof


@pytest.mark.usefixtures("unlimited")
def test_the_example_program_reports_each_task_that_is_closed_and_who_closed_it(
    database_url, connection, cast, receiver, tmp_path, capfd
):
    kept = tmp_path / "cursor"
    receiver.behaves(answer(503), answer(200))

    @contextmanager
    def notifying(**variables):
        program = PROJECT / "docs/examples/notify.py"
        with Popen([sys.executable, program, kept], env={**os.environ, **variables}) as running:
            try:
                wait_until(kept.exists, running)
                yield
            finally:
                running.kill()

    def told():
        return json.loads(receiver.take().body)["text"]

    with serving(database_url) as server:

        def write(who, method, path, **task):
            return call(server.port, method, f"/api/tasks{path}", TOKENS[who], task)[1]["id"]

        settings = {"URL": f"http://127.0.0.1:{server.port}", "TOKEN": TOKENS["alice"]}
        settings |= {"CHAT": receiver.url, "PAUSE": "0.05"}
        path = f"/{write('alice', 'POST', '', title='Ship it')}"
        with notifying(**settings):
            write("bob", "PATCH", path, status="done")
            # The chat has refused the first message, so the program sends it again.
            assert [told(), told()] == ["Bob closed Ship it"] * 2
            write("alice", "POST", "", title="New", status="done")
            write("alice", "PATCH", path, title="Shipped")
            write("alice", "PATCH", path, status="todo")
            write("alice", "PATCH", path, status="done")
            assert told() == "Alice closed Shipped"
        # The program reports later what happens while it is off. It may repeat its last message,
        # because it may have been killed before it stored its cursor.
        write("bob", "PATCH", path, status="todo", title="Late")
        write("bob", "PATCH", path, status="done")
        # Somebody closes a task, and is deleted before the program hears of it.
        dora = insert(connection, "users", name="Dora", email="dora@example.com")
        insert_member(connection, cast["acme"], dora, "member")
        insert_token(connection, dora, "tmw_dora")
        activate(connection, cast["acme"], dora)
        done = {"title": "Gone", "status": "done"}
        gone = f"/api/tasks/{write('alice', 'POST', '', title='Go')}"
        assert call(server.port, "PATCH", gone, "tmw_dora", done)[0] == 200
        connection.execute("SELECT delete_user('dora@example.com')")
        with notifying(**settings):
            while (text := told()) == "Alice closed Shipped":
                pass
            assert text == "Bob closed Late"
            assert told() == "Somebody closed Gone"
            # PostgreSQL empties this table when it crashes, so the cursor of the program is gone
            # while the program polls.
            connection.execute("TRUNCATE event_cursors")
            wait_until(lambda: count(connection, "event_cursors"))
            write("bob", "PATCH", path, status="todo", title="Again")
            write("bob", "PATCH", path, status="done")
            while (text := told()) == "Somebody closed Gone":
                pass
            assert text == "Bob closed Again"
        # Here the cursor is lost while the program is off.
        connection.execute("TRUNCATE event_cursors")
        with notifying(**settings):
            wait_until(lambda: count(connection, "event_cursors"))
            write("alice", "PATCH", path, status="todo", title="Last")
            write("alice", "PATCH", path, status="done")
            while (text := told()) == "Bob closed Again":
                pass
            assert text == "Alice closed Last"
    assert "take a new cursor" in capfd.readouterr().err
