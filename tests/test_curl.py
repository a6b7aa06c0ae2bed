"""The curl commands of the pages, run as they are printed against the demo data of ``dev``."""

import json
import re
import subprocess

import pytest
from support.commands import CommandRunner
from support.processes import call, serving
from support.project import blocks, environment, read

from service.devkit.local import DEMO, OWNER

pytestmark = pytest.mark.needs("curl")

# Pages about the API. The commands of the other pages belong to a server, a proxy or a metrics job.
PAGES = "README.md", "docs/api.md", "docs/sign-in.md", "docs/webhooks.md"
# A refused request ends the script with a status.
STRICT = 'set -e\ncurl() { command curl --silent --show-error --fail-with-body "$@"; }\n'


def commands(page):
    return [block for block in blocks(page) if re.match("curl ", block)]


@pytest.fixture
def run(app, database_url):
    """Yield a function that runs a script in a shell with the variables that the pages name."""

    def command(*words):
        ran = CommandRunner(app).invoke(args=words)
        assert ran.exit_code == 0, ran.output
        return ran.stdout.strip()

    command("load", str(DEMO))
    token = command("token", "create", OWNER)
    with serving(database_url, WEBHOOK_ALLOW="127.0.0.1", WEBHOOK_KEY="k" * 32) as server:
        workspace = call(server.port, "GET", "/api/me", token)[1]["workspace"]["id"]
        tasks = call(server.port, "GET", "/api/tasks", token)[1]["data"]
        origin = f"http://127.0.0.1:{server.port}"
        variables = {
            "TOKEN": token,
            "WORKSPACE": workspace,
            "ORIGIN": origin,
            # The commands about versions begin with the first one.
            "ID": next(task["id"] for task in tasks if task["version"] == 1),
        }

        def run(script):
            script = script.replace("http://127.0.0.1:8000", origin)
            # The service resolves the host of a webhook.
            script = STRICT + script.replace("https://hooks.example.com", origin)
            ran = subprocess.run(
                ["sh", "-c", script], env=environment(**variables), capture_output=True, text=True
            )
            assert ran.returncode == 0, (script, ran.stdout, ran.stderr)
            return ran.stdout

        yield run


def without_ids(text):
    """Return the text with the same letters for all ids and cursors, which differ in each run."""
    return re.sub("[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}", "ID", text)


@pytest.mark.slow
def test_the_readme_shows_the_response_of_its_request(run):
    (command,) = commands("README.md")
    shown = re.search(r"(?ms)^```json\n(.*?)^```$", read("README.md"))[1]
    answer = run(command)
    assert without_ids(shown.replace("\n", "")) == without_ids(answer.strip())
    # The ids of the demo data do not differ.
    for name in ("workspaceId", "assigneeId", "createdBy"):
        (expected,), (returned,) = (json.loads(text)["data"] for text in (shown, answer))
        assert expected[name] == returned[name], name


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_every_request_that_a_page_shows_succeeds_in_the_order_of_the_page(page, run):
    found = commands(page)
    assert found
    for command in found:
        answer = run(command)
        assert ("If-None-Match" in command) == (" 304 " in answer[:20]), command
