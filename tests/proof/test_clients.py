"""Clients that generators make of the published document call every operation of the real service.

Of Python: openapi-python-client, checked by mypy. Of TypeScript: openapi-typescript and
openapi-fetch, checked by tsc; these come from npm, in the versions of clients/package-lock.json.
Where ``openapi-generator-cli`` is installed (from PyPI, with Java), its code has to compile too.
"""

import json
import os
import re
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


def start(*command, cwd, **variables):
    """Run a command, with those of the test's environment and of npm in its path."""
    path = os.pathsep.join([str(cwd / "node_modules/.bin"), environment()["PATH"]])
    variables = environment(**QUIET, **variables, PATH=path)
    return subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True)


def run(*command, cwd, **variables):
    """What the command prints; it must succeed."""
    ran = start(*command, cwd=cwd, **variables)
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


def test_openapi_generator_makes_typescript_that_compiles(npm, tmp_path):
    if not shutil.which("openapi-generator-cli"):
        pytest.skip("openapi-generator-cli is not installed: typescript-fetch is not tried")
    generate = ("openapi-generator-cli", "generate", "--generator-name=typescript-fetch")
    run(*generate, f"--input-spec={npm / 'openapi.json'}", "--output=.", cwd=tmp_path)
    options = ("--strict", "--noEmit", "--target", "ES2022", "--module", "preserve", "index.ts")
    run(str(npm / "node_modules/.bin/tsc"), *options, cwd=tmp_path)


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


# The page for authors of clients.
PAGE = (CLIENTS.parents[2] / "docs/clients.md").read_text(encoding="utf-8")


def block(language, heading):
    """The one block of code in a language below a heading of the page."""
    section = PAGE.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    (code,) = re.findall(rf"(?ms)^```{language}\n(.*?)^```$", section)
    return code


def check_client(*command, **variables):
    """It lists all tasks, over two pages; it says what is wrong with a token or the path."""
    titles = [line.split(" ", 1)[1] for line in run(*command, **variables).splitlines()]
    assert titles == ["Call Ada", *["Task"] * 60]
    failed = start(*command, **{**variables, "TOKEN": "tmw_api_nobody"})
    assert failed.returncode == 1
    assert failed.stderr.startswith("401: Unauthorized: send an API token")
    # A status that the document does not have for this operation.
    failed = start(*command, **{**variables, "URL": f"{variables['URL']}/api"})
    assert failed.returncode == 1
    assert "404" in failed.stderr


@pytest.fixture
def two_pages(insert_into):
    for _ in range(60):
        insert_into("tasks")


def test_the_page_s_client_in_python_is_true(service, two_pages, tmp_path):
    run("bash", "-ec", block("sh", "Python"), cwd=tmp_path, **service)
    project = tmp_path / "task-service-client"
    (project / "client.py").write_text(block("python", "Python"))
    run("mypy", "--strict", "--no-incremental", "client.py", cwd=project)
    check_client(sys.executable, "client.py", cwd=project, **service)


def test_the_page_s_client_in_typescript_is_true(service, two_pages, npm):
    run("bash", "-ec", block("sh", "TypeScript"), cwd=npm, **service)
    (npm / "client.ts").write_text(block("ts", "TypeScript"))
    run("tsc", cwd=npm)
    shutil.rmtree(npm / "built")
    (check,) = re.findall("`(npx tsc [^`]+)`", PAGE)
    run(*check.split(), cwd=npm)
    check_client("node", "built/client.js", cwd=npm, **service)


@pytest.mark.parametrize(("language", "heading"), [("python", "Python"), ("ts", "TypeScript")])
def test_the_page_s_clients_have_twenty_lines(language, heading):
    lines = [line for line in block(language, heading).splitlines() if line]
    assert len(lines) <= 20
