"""Clients that generators make of the published document call every operation of the real service.

Of Python: openapi-python-client, checked by mypy. Of TypeScript: openapi-typescript and
openapi-fetch, checked by tsc; these come from npm, in the versions of clients/package-lock.json.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from client import TOKENS
from openapi_check import document, operation_of
from server import environment, serving

pytestmark = pytest.mark.proof

CLIENTS = Path(__file__).parent / "clients"
PACKAGE = "task_meeting_and_workspace_service_client"
# Linters tell nobody that they were run, and do not ask for their newest version.
QUIET = {"REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true"}
OPERATIONS = {
    operation["operationId"] for path in document()["paths"].values() for operation in path.values()
}


@pytest.fixture
def service(database_url, connection, cast, unlimited, insert_into):
    """A server with one row of all that only reads show; Charlie has one request a minute."""
    connection.execute("INSERT INTO plans (name, per_minute) VALUES ('Tiny', 1)")
    connection.execute("UPDATE workspaces SET plan = 'Tiny' WHERE id = %s", (cast["globex"],))
    for table in ("mail", "knowledge", "suggestions"):
        insert_into(table)
    with serving(database_url) as server:
        yield {
            "URL": f"http://127.0.0.1:{server.port}",
            "TOKEN": TOKENS["alice"],
            "LIMITED_TOKEN": TOKENS["charlie"],
        }
    connection.execute("UPDATE workspaces SET plan = 'Team'")
    connection.execute("DELETE FROM plans WHERE name = 'Tiny'")


@pytest.fixture(scope="module")
def npm(tmp_path_factory):
    """A folder with the packages from npm and the sources of the clients."""
    for command in ("node", "npm"):
        if not shutil.which(command):
            pytest.skip(f"{command} is not installed: clients in TypeScript are not tried")
    folder = tmp_path_factory.mktemp("npm")
    shutil.copytree(CLIENTS, folder, dirs_exist_ok=True)
    run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=folder)
    (folder / "openapi.json").write_text(json.dumps(document(), indent=1))
    return folder


def run(*command, cwd, **variables):
    """What the command prints; it must succeed."""
    path = os.pathsep.join([str(cwd / "node_modules/.bin"), environment()["PATH"]])
    variables = environment(**QUIET, **variables, PATH=path)
    ran = subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True)
    assert ran.returncode == 0, f"{command}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout


def check_calls(printed):
    """Every operation was called, and the statuses that clients must handle were seen."""
    calls = json.loads(printed.splitlines()[-1])
    called = {operation_of(method, path)["operationId"] for method, path, _ in calls}
    assert called == OPERATIONS
    assert {200, 201, 204, 304, 400, 401, 404, 412, 422, 429} <= {status for *_, status in calls}


def test_a_client_in_python_passes_mypy_and_calls_every_operation(service, tmp_path):
    generate = ("openapi-python-client", "generate", "--fail-on-warning")
    run(*generate, f"--url={service['URL']}/openapi.json", cwd=tmp_path)
    (project,) = tmp_path.iterdir()
    shutil.copy(CLIENTS / "calls.py", project)
    run("mypy", "--strict", "--no-incremental", PACKAGE, "calls.py", cwd=project)
    check_calls(run(sys.executable, "calls.py", cwd=project, **service))


def test_a_client_in_typescript_passes_the_compiler_and_calls_every_operation(service, npm):
    run("openapi-typescript", "openapi.json", "--output", "service.ts", cwd=npm)
    run("tsc", cwd=npm)
    check_calls(run("node", "built/calls.js", cwd=npm, **service))


@pytest.mark.parametrize(
    "command",
    [
        ("redocly", "lint", "--config=redocly.yaml", "openapi.json"),
        ("spectral", "lint", "--ruleset=spectral.yaml", "--fail-severity=hint", "openapi.json"),
    ],
    ids=["redocly", "spectral"],
)
def test_linters_of_openapi_find_nothing(npm, command):
    run(*command, cwd=npm)
