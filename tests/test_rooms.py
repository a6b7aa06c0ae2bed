"""A bug in a room turns its own tests red: those of the column *Run* in the table of rooms.

The failure names the rule that no longer holds, or the file.
"""

import os
import subprocess
import sys

import pytest
from support.project import copy_project, replaced, rows

pytestmark = [pytest.mark.proof, pytest.mark.nodatabase]

TESTKIT = "testkit/task_service_double/src/task_service_double"
# By room: a file, its text, the text with the bug, and what a failure must say.
BUGS = {
    "service/web": (
        "service/web/gate.py",
        'site not in ("same-origin", "none")',
        'site not in ("same-origin", "same-site", "none")',
        "same-site",
    ),
    "service/api": (
        "service/api/batch.py",
        '(item["id"], versions(item)) for item in deletes',
        '(item["id"], ANY_VERSION) for item in deletes',
        "version",
    ),
    "service/openapi": (
        "service/openapi/operations.py",
        "            statuses.add(412)\n",
        "            pass\n",
        "documents_412",
    ),
    "service/database": (
        "service/database/pool.py",
        'lock_timeout=f"{timeout / 4}s"',
        'lock_timeout=f"{timeout}s"',
        "timeouts",
    ),
    "service/values": (
        "service/values/types.py",
        "return moment + MILLISECOND if self.beyond_milliseconds.search(text) else moment",
        "return moment",
        "bound",
    ),
    "service/webhooks": (
        "service/webhooks/delivery.py",
        "        for name, number in derivations\n",
        "        for name, number in derivations[-1:]\n",
        "secret",
    ),
    "service/server": (
        "gunicorn.conf.py",
        "min(500, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)",
        "500",
        "half_its_descriptors",
    ),
    "service/commands": (
        "service/commands/check.py",
        "numbers_of(version) <= numbers_of(tested[-1])",
        "numbers_of(version) <= numbers_of(tested[0])",
        "is newer than",
    ),
    "service/devkit": (
        "service/devkit/postgres.py",
        "data_home if os.path.isabs(data_home) else",
        "data_home or",
        "data_folder",
    ),
    "speedups": (
        "speedups/statements.py",
        "                self.is_read_only = True\n",
        "                pass\n",
        "read_only",
    ),
    "speedups/http_server": (
        "speedups/http_server/request_reader.py",
        "{'; ' if key == 'HTTP_COOKIE' else ', '}",
        "{', '}",
        "cookie",
    ),
    "sql": (
        "sql/functions/tasks.sql",
        "                   task.assignee_id,\n                   task.project_id,\n",
        "                   task.assignee,\n                   task.project_id,\n",
        'SQL function "task_json"',
    ),
    "testkit/task_service_double": (
        f"{TESTKIT}/faults.py",
        "seconds += found[-1].delay()",
        "seconds += found[0].delay()",
        "latency",
    ),
    "testkit/pytest_task_service": (
        "testkit/pytest_task_service/src/pytest_task_service/client.py",
        "for post in self.posts if post.status == 204",
        "for post in self.posts",
        "event",
    ),
}
TABLE = rows("CONTRIBUTING.md", "Rooms")
RUN = {room.strip("`"): command.strip("`").split() for room, _, command in TABLE}
# The npm package has another command than pytest, and the tests are their own.
OTHERS = {"testkit/node", "tests"}


def test_each_room_has_a_bug_here():
    assert RUN.keys() - OTHERS == BUGS.keys()


@pytest.mark.parametrize("room", BUGS)
def test_a_bug_in_a_room_turns_its_own_tests_red_and_the_failure_says_what(room, tmp_path):
    copy_project(tmp_path)
    name, text, bug, said = BUGS[room]
    file = tmp_path / name
    file.write_text(replaced(file.read_text(), (text, bug)))
    folders = tmp_path, tmp_path / "tests", *tmp_path.glob("testkit/*/src")
    path = os.pathsep.join(map(str, folders))
    # The plugin gives the double no PYTHONPATH.
    double = f"env PYTHONPATH={path} {sys.executable} {tmp_path / 'task_service_command.py'}"
    variables = {**os.environ, "PYTHONPATH": path, "TASK_SERVICE_COMMAND": double}
    # All tests of the server start it.
    quick = [] if room == "service/server" else ["-m", "not slow"]
    command = [sys.executable, "-m", "pytest", "-q", "-x", *quick, *RUN[room]]
    ran = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True)
    assert ran.returncode == 1, f"{name} has a bug, and {' '.join(RUN[room])} is green"
    # Without the captured log, which a reader sees last.
    failure = ran.stdout.partition("--- Captured")[0]
    assert said in failure, failure
