"""The program docs/examples/notify.py tells who closed a task, and nothing else."""

import json
import os
import subprocess
import sys
from contextlib import contextmanager

import pytest
from support.processes import call, serving, wait_until
from support.project import PROJECT
from support.receivers import answer
from support.rows import TOKENS, insert_token

pytestmark = pytest.mark.proof


@contextmanager
def notifying(kept, port, chat):
    variables = {"URL": f"http://127.0.0.1:{port}", "TOKEN": "tmw_api_reader", "CHAT": chat}
    program = subprocess.Popen(
        [sys.executable, PROJECT / "docs/examples/notify.py", kept],
        env={**os.environ, **variables, "PAUSE": "0.05"},
    )
    try:
        wait_until(kept.exists, program)
        yield
    finally:
        program.kill()
        program.wait()


@pytest.mark.usefixtures("unlimited")
def test_each_task_that_is_closed_is_told_with_who_closed_it_and_nothing_else(
    database_url, connection, cast, receiver, tmp_path
):
    insert_token(connection, cast["bob"], "tmw_api_reader", scope="read", workspace_id=cast["acme"])
    chat, kept = receiver.url, tmp_path / "cursor"
    receiver.behaves(answer(503), answer(200))

    def told():
        return json.loads(receiver.take().body)["text"]

    with serving(database_url) as server:

        def add(title, **members):
            created = {"title": title, **members}
            return call(server.port, "POST", "/api/tasks", TOKENS["alice"], created)[1]["id"]

        def change(who, task, **changes):
            path = f"/api/tasks/{task}"
            assert call(server.port, "PATCH", path, TOKENS[who], changes)[0] == 200

        ship, test = add("Ship it"), add("Test it")
        change("alice", ship, status="done")
        change("alice", ship, status="todo")
        with notifying(kept, server.port, chat):
            change("alice", ship, status="in_progress")
            change("bob", ship, status="done")
            # The chat refuses the first one.
            assert [told(), told()] == ["Bob closed Ship it"] * 2
            add("New", status="done")
            change("alice", ship, title="Ship it now")
            change("alice", test, status="done", title="Test all")
            assert told() == "Alice closed Test all"
        # What happens while it is off is told later.
        change("alice", test, status="todo")
        change("bob", test, status="done")
        with notifying(kept, server.port, chat):
            # It may have been killed before it kept the cursor.
            while (text := told()) == "Alice closed Test all":
                pass
            assert text == "Bob closed Test all"
