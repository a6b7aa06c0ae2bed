"""The examples in docs/testing.md and docs/double.md run, and their tables are complete."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
import urllib3
from flask import Flask
from support.processes import free_port, is_running, wait_until

from pytest_task_service import client
from pytest_task_service.process import PASSED
from service.web.operation import operation_of
from task_service_double import command, control, faults

PROJECT = Path(__file__).resolve().parents[2]
PAGES = [PROJECT / "docs" / name for name in ("testing.md", "double.md")]
TEXT = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
EXAMPLES = PROJECT / "docs" / "examples"
NODE_PACKAGE = PROJECT / "testkit" / "node"
FILES = dict(re.findall(r"(?s)<!-- file: ([\w.]+) -->\n```\w+\n(.*?)```", TEXT))
CONTAINERS = [
    re.search(r"(?s)\n## In a container\n.*?```yaml\n(.*?)```", TEXT)[1],
    *(
        (EXAMPLES / name).read_text()
        for name in ("container.mjs", "Container.java", "container.go")
    ),
]
RUN = dict(re.findall(r"(?s)<!-- run: ([\w-]+) -->\n```\w+\n(.*?)```", TEXT))

pytestmark = pytest.mark.nodatabase


@pytest.fixture
def run(tmp_path):
    """Return a function that runs a command in a folder with all examples."""
    shutil.copytree(EXAMPLES, tmp_path, dirs_exist_ok=True)
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "task-service-double").symlink_to(NODE_PACKAGE)
    for name, content in FILES.items():
        (tmp_path / name).write_text(content, encoding="utf-8")

    def run(*command):
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        outcome = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "PATH": path}
        )
        assert outcome.returncode == 0, outcome.stdout + outcome.stderr
        return outcome.stdout

    return run


def test_a_test_runs_every_code_block_of_the_testkit_pages():
    assert set(FILES) == {"test_excerpt.py", "first.test.mjs"}
    # tests/proof/test_git_install.py runs "git", "npm" and "npm-release".
    assert set(RUN) == {"git", "install", "npm", "npm-release", "actions"}
    # Other tests read the line of the double and the container of GitHub Actions.
    assert TEXT.count("\n```") == 2 * (len(FILES) + len(RUN) + 2)


def test_the_programs_that_start_a_container_use_the_variables_and_ports_of_the_image():
    """No test runs these programs, because they need a registry with the image."""
    variables = {option.envvar for option in command.run_double.params if option.envvar}
    # The programs reach the control URL by localhost.
    variables.remove("TASK_SERVICE_CONTROL_HOST_NAME")
    ports = re.findall(r"(?m)^EXPOSE (\d+)$", (PROJECT / "Dockerfile").read_text())
    assert len(variables) == len(ports) == 2
    for program in CONTAINERS:
        assert set(re.findall(r"TASK_SERVICE_\w+", program)) == variables
        assert set(re.findall(r"\b80\d\d\b", program)) == set(ports)


def test_the_line_of_dev_json_has_the_members_that_the_page_shows(service):
    shown = json.loads(re.search(r"(?s)```json\n(.*?)```", TEXT)[1].replace("{…}", "null"))
    printed = json.loads(service.process.line)
    assert list(shown) == list(printed)
    assert list(shown["user"]) == list(printed["user"])
    for name in ("workspace", "webhook"):
        assert list(shown[name]) == list(printed[name])


@pytest.mark.proof
def test_the_example_for_unittest_passes(run):
    run(sys.executable, "-m", "unittest", "-q", "todo_unittest")


@pytest.mark.proof
def test_a_double_that_playwright_starts_ends_with_its_process_group(run, tmp_path):
    """Playwright starts a command with a shell, waits for the URL, and kills the process group."""
    config = (EXAMPLES / "playwright.config.mjs").read_text()
    # All tests share one double, so only one Playwright worker may run.
    assert "  workers: 1,\n" in config
    command = re.search('command: "(.*)"', config)[1].replace("8124", str(free_port()))
    command = command.replace("8125", str(free_port()))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    process = subprocess.Popen(
        ["sh", "-c", command],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PATH": path},
        start_new_session=True,
    )
    line = json.loads(process.stdout.readline())
    url = re.search('url: "http://127.0.0.1:8124(.*)"', config)[1]
    base = line["baseUrl"].removesuffix("/api")
    assert urllib3.request("GET", base + url).status == 200
    assert line["controlUrl"].endswith("/control")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    wait_until(lambda: not is_running(line["pid"]))


@pytest.mark.proof
def test_the_steps_of_the_pipeline_start_use_and_stop_the_double(run, tmp_path):
    steps = re.findall(r"(?m)^- run: (.*)$", RUN["actions"])
    assert len(steps) == 3
    start, _, end = (
        step.replace("double/bin/", "").replace("8123", str(free_port())) for step in steps
    )
    run("sh", "-c", start)
    line = json.loads((tmp_path / "double.json").read_text())
    assert urllib3.request("POST", f"{line['controlUrl']}/reset", json={}).status == 200
    run("sh", "-c", end)
    wait_until(lambda: not is_running(line["pid"]))
    assert not (tmp_path / "double.json").exists()


VERSION = metadata.version("task-meeting-workspace-service")
COST = rf"task-service {VERSION}: started in [\d.]+ s, reset 8 times in \d+ ms each"


# Other plugins of this environment, which take two seconds to import.
UNUSED = [
    word
    for name in ("anyio", "hypothesispytest", "randomly", "schemathesis", "xdist")
    for word in ("-p", f"no:{name}")
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [["-W", "error", *UNUSED], pytest.param(["-n", "2"], marks=pytest.mark.proof)],
    ids=["in one process", "under xdist"],
)
def test_the_python_examples_pass_and_the_report_names_the_service(run, database_url, options):
    database = f"--task-service-database={database_url}"
    printed = run(sys.executable, "-m", "pytest", database, *options)
    assert "8 passed" in printed
    command = Path(sys.executable).with_name("task-service")
    assert f"task-service: {shlex.quote(str(command))} (of this environment)\n" in printed
    assert re.search(COST, printed)


def run_pytest(folder, test, *options, **variables):
    """Run this text as a test in a new project, and return the output of pytest."""
    (folder / "test_it.py").write_text(test)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
    ).stdout


@pytest.mark.proof
def test_a_project_whose_own_package_is_called_service_can_use_the_plugin(tmp_path):
    (tmp_path / "service").mkdir()
    (tmp_path / "service" / "__init__.py").write_text("raise ImportError('of the project')")
    (tmp_path / "app.py").write_text("raise ImportError('of the project')")
    (tmp_path / "conftest.py").write_text(
        "import pytest\n\n@pytest.fixture\ndef service():\n    return 'of the project'\n"
    )
    printed = run_pytest(
        tmp_path,
        "def test_it(service, task_service):\n"
        "    assert service == 'of the project'\n"
        "    assert task_service.base_url\n",
        **{"PYTHONPATH": str(tmp_path), "PORT": "theirs", "MAX_BODY": "theirs"},
    )
    assert "1 passed" in printed, printed


@pytest.mark.proof
@pytest.mark.parametrize(
    ("options", "variable", "message"),
    [
        (["--task-service-command=/nowhere/of"], "", "/nowhere/of (as told): No such file"),
        ([], "false dev", "false dev (TASK_SERVICE_COMMAND) did not start:"),
        (["--task-service-command=sh -c 'echo why >&2'"], "", "did not start:\nwhy\n"),
    ],
)
def test_a_service_that_cannot_start_prints_its_reason_once_and_no_traceback(
    tmp_path, options, variable, message
):
    tests = "def test_it(service):\n    pass\ndef test_more(service):\n    pass\n"
    printed = run_pytest(tmp_path, tests, "-rN", *options, TASK_SERVICE_COMMAND=variable)
    assert "2 errors" in printed
    # The reason is printed only once.
    assert re.sub("(?m)^E +", "", printed).count(message) == 1
    assert printed.count("task-service did not start; the first error says why") == 1
    assert ".py:" not in printed.replace("test_it.py:", "")


@pytest.mark.proof
def test_a_rejected_call_shows_only_the_frame_of_the_test(tmp_path):
    printed = run_pytest(tmp_path, "def test_it(service):\n    service.plan('Gold')\n")
    assert "ValueError: name: must be one of: Starter, Pro, Team" in printed
    assert "client.py" not in printed


FAILING = """
import pytest, urllib3

def get(service):
    headers = {"Authorization": f"Bearer {service.token}"}
    urllib3.request("GET", f"{service.base_url}/me", headers=headers)

@pytest.fixture
def broken_before(service):
    get(service)
    raise OSError

@pytest.fixture
def broken_after(service):
    yield
    get(service)
    raise OSError

def test_fixture_before(broken_before):
    pass

def test_itself(service):
    service.fault("503", path="/api/task")
    get(service)
    raise OSError

def test_that_passes(service):
    get(service)

def test_fixture_after(broken_after):
    pass
"""


@pytest.mark.proof
def test_a_failed_test_shows_a_readable_log_of_the_service_and_a_passed_test_does_not(tmp_path):
    # Not in random order: the service must have ended when the last test fails.
    printed = run_pytest(tmp_path, FAILING, "-rN", "-p", "no:randomly")
    assert "1 failed, 2 passed, 2 errors" in printed
    assert printed.count("Log of the service") == 3
    assert printed.count("Faults that wait for a request, and seeds") == 1
    assert "kind='503' times=1 skip=0 seconds=1.0 path='/api/task' met=False" in printed
    assert len(re.findall(r"(?m)^[\d:]{8} 200 GET /api/me [\d.]+ ms$", printed)) == 3


@pytest.mark.proof
def test_the_javascript_examples_pass(run):
    if not shutil.which("node"):
        pytest.skip("the JavaScript examples need node, which is not on the PATH")
    assert re.search(r"(?m)^# pass 3$", run("node", "--test", "--test-reporter=tap"))


def rows(heading):
    table = TEXT.split(heading, 1)[1].split("\n\n")[0]
    return [line.split("|")[1].strip() for line in table.splitlines()[2:]]


def names(cells):
    return {name for cell in cells for name in re.findall(r"[`, ](\w+)(?=[(`,])", f" {cell}")}


def public(thing):
    return {name for name in vars(thing) if not name.startswith("_")}


def test_the_tables_of_the_page_name_every_attribute_of_the_fixture_and_every_kind_of_fault(
    service,
):
    documented = names(rows("\n| `service.` "))
    assert documented == public(service) | public(client.Service)
    assert names(rows("| `service.webhooks.`")) >= public(service.webhooks) | public(
        client.Webhooks
    )
    assert tuple(cell.strip("`") for cell in rows("\n| `kind` ")) == faults.KINDS


def test_the_page_lists_the_routes_of_the_control_url_with_the_members_of_their_bodies():
    documented = {}
    for line in TEXT.splitlines():
        if "| `/" in line:
            method, paths, body, _ = (cell.strip() for cell in line.strip("|").split("|"))
            for path in re.findall("`(/[a-z-]+)`", paths):
                documented[method, path] = set(re.findall(r"`(\w+)`", body))
    operations = {(method, rule): operation_of(view) for rule, method, view in routes()}
    assert documented == {
        route: {field.data_key for field in found.arguments.fields.values()} if found else set()
        for route, found in operations.items()
    }


def test_the_page_names_the_environment_variables_that_the_service_inherits():
    named = re.search(r"(?s)the service inherits only (.*?)\.", TEXT)[1]
    assert tuple(re.findall(r"`(\w+)`", named)) == PASSED


def routes():
    app = Flask("routes", static_folder=None)
    app.register_blueprint(control.control)
    for rule in app.url_map.iter_rules():
        (method,) = rule.methods - {"HEAD", "OPTIONS"}
        yield rule.rule, method, app.view_functions[rule.endpoint]
