"""docs/testing.md: its examples run, and its tables are complete."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_task_service import client
from service.devkit.double import control, faults

PROJECT = Path(__file__).resolve().parents[3]
TEXT = (PROJECT / "docs" / "testing.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"(?s)<!-- file: ([\w.]+) -->\n```\w+\n(.*?)```", TEXT))

pytestmark = pytest.mark.nodatabase


@pytest.fixture
def run(tmp_path):
    """Write the examples into an empty folder and run a command there."""
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


def test_the_clients_are_about_thirty_lines():
    assert set(FILES) == {"todo.py", "test_todo.py", "todo.mjs", "todo.test.mjs"}
    assert all(len(FILES[name].splitlines()) <= 40 for name in ("todo.py", "todo.mjs"))


def test_the_python_example_passes_and_says_what_the_service_cost(run):
    printed = run(sys.executable, "-m", "pytest", "-q", "-W", "error")
    assert "5 passed" in printed
    assert re.search(r"task-service: started in [\d.]+ s, reset 5 times in \d+ ms each", printed)


def test_a_project_whose_own_package_is_called_service_can_use_the_plugin(tmp_path):
    (tmp_path / "service").mkdir()
    (tmp_path / "service" / "__init__.py").write_text("raise ImportError('of the project')")
    (tmp_path / "test_it.py").write_text("def test_it(service):\n    assert service.base_url\n")
    command = [sys.executable, "-m", "pytest", "-q"]
    outcome = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert "1 passed" in outcome.stdout, outcome.stdout + outcome.stderr


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

def test_fixture_after(broken_after):
    pass

def test_itself(service):
    get(service)
    raise OSError

def test_that_passes(service):
    get(service)
"""


def test_the_log_is_shown_to_read_with_what_failed_and_with_nothing_else(tmp_path):
    (tmp_path / "test_it.py").write_text(FAILING)
    outcome = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rN"], cwd=tmp_path, capture_output=True, text=True
    )
    assert "1 failed, 2 passed, 2 errors" in outcome.stdout
    assert outcome.stdout.count("Log of the service") == 3
    assert len(re.findall(r"(?m)^[\d:]{8} 200 GET /api/me [\d.]+ ms$", outcome.stdout)) == 3


@pytest.mark.proof
def test_the_python_example_passes_under_xdist_with_a_service_for_each_process(run):
    assert "5 passed" in run(sys.executable, "-m", "pytest", "-q", "-n", "2")


def test_the_javascript_example_passes(run):
    if not shutil.which("node"):
        pytest.skip("the JavaScript example needs node, which is not on the PATH")
    assert re.search(r"(?m)^# pass 2$", run("node", "--test", "--test-reporter=tap"))


def rows(heading):
    """The first cells of the table below this line."""
    table = TEXT.split(heading, 1)[1].split("\n\n")[0]
    return [line.split("|")[1].strip() for line in table.splitlines()[2:]]


def names(cells):
    return {name for cell in cells for name in re.findall(r"[`, ](\w+)(?=[(`,])", f" {cell}")}


def public(thing):
    return {name for name in vars(thing) if not name.startswith("_")}


def test_the_tables_name_everything_there_is(service):
    documented = names(rows("\n| `service.` "))
    assert documented == public(service) | public(client.Service)
    assert names(rows("| `service.webhooks.`")) >= public(service.webhooks) | public(
        client.Webhooks
    )
    assert tuple(cell.strip("`") for cell in rows("\n| `kind` ")) == faults.KINDS


def test_the_table_of_the_control_url_names_its_routes_and_members():
    lines = [line.split("|")[1:5] for line in TEXT.splitlines() if "| `/" in line]
    documented = {
        path.strip(" `"): (method.strip(), set(re.findall(r"`(\w+)`", body)))
        for method, path, body, _ in lines
    }
    views = {rule: (method, getattr(view, "arguments", None)) for rule, method, view in routes()}
    assert documented == {
        rule: (method, {field.data_key for field in schema.fields.values()} if schema else set())
        for rule, (method, schema) in views.items()
    }


def routes():
    app = control.Flask("routes")
    app.register_blueprint(control.control)
    for rule in app.url_map.iter_rules():
        if rule.endpoint != "static":
            (method,) = rule.methods - {"HEAD", "OPTIONS"}
            yield rule.rule, method, app.view_functions[rule.endpoint]
