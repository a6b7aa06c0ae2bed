"""What .ci/run and .ci/nightly run: together every test, and each long test in one of the two."""

import http.server
import json
import re
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest
import yaml
from support.project import PROJECT, environment, read, rows, run

from service.settings import Settings
from service.version import POSTGRESQL, PYTHON

pytestmark = pytest.mark.nodatabase


def long_tests(script):
    """Return the names of the files in tests/proof that a script in .ci names."""
    text = read(script)
    several = re.findall(r"tests/proof/test_{(.*?)}\.py", text)
    return {f"test_{name}.py" for names in several for name in names.split(",")} | {
        *re.findall(r"\btest_\w+\.py", text)
    }


def test_each_file_of_long_tests_is_in_the_short_run_or_in_a_step_of_the_nightly_run():
    files = {path.name for path in PROJECT.glob("tests/proof/test_*.py")}
    short, nightly = long_tests(".ci/run"), long_tests(".ci/nightly")
    assert files - short - nightly == set(), (
        "add these files to .ci/run or to a step of .ci/nightly"
    )
    # Each of them draws one seed.
    assert short & nightly & files == {"test_fuzz.py"}


def test_the_short_run_has_the_slow_tests_which_the_suite_leaves_out():
    assert ".ci/newcomer" in read(".ci/run")
    assert ".venv/bin/pytest -m slow" in read(".ci/newcomer")


def test_each_scenario_under_load_is_in_a_folder_or_file_that_a_step_of_the_nightly_run_names():
    marked = {
        str(path.relative_to(PROJECT))
        for path in PROJECT.glob("t*/**/test_*.py")
        if "mark.faults" in path.read_text() and path.name != "test_ci.py"
    }
    named = re.findall(r"faults\) faults (\S+)", read(".ci/nightly"))
    named += re.findall(r"predecessor\) faults (\S+)", read(".ci/nightly"))
    assert {file for file in marked if not file.startswith((*named,))} == set()


def test_the_nightly_workflow_has_a_job_for_each_step():
    steps = run(".ci/nightly", "--list", cwd=PROJECT).split()
    (listed,) = re.findall(r"(?s)step:\n(.*?)\n\n?    \w", read(".github/workflows/nightly.yml"))
    assert re.findall(r"- (\S+)", listed) == steps


def test_the_nightly_run_refuses_a_step_that_it_does_not_have():
    ended = subprocess.run(
        [PROJECT / ".ci/nightly", "fuz"], cwd=PROJECT, capture_output=True, text=True
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("There is no step fuz; the steps are: postgresql-15 ")


def workflows():
    for path in PROJECT.glob(".github/workflows/*.yml"):
        jobs = yaml.safe_load(path.read_text())["jobs"]
        yield from ((f"{path.name} {name}", job.get("steps", [])) for name, job in jobs.items())


def test_workflows_name_actions_by_commit_and_keep_no_credentials_of_git():
    for job, steps in workflows():
        for step in steps:
            used = step.get("uses", "@" + "0" * 40)
            assert re.fullmatch(r"[\w/-]*@[0-9a-f]{40}", used), f"{job}: {used}"
            if used.startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False, job


def test_the_manifests_of_kubernetes_run_what_compose_runs():
    manifests = [*yaml.safe_load_all(read("docs/deploy/kubernetes.yaml"))]
    pods = {
        manifest["metadata"]["name"]: manifest["spec"]["template"]["spec"]
        for manifest in manifests
        if manifest["kind"] != "Service"
    }
    services = yaml.safe_load(read("compose.yaml"))["services"]
    assert len(pods) == 3
    for name in ("migrate", "web", "worker"):
        pod, service = pods[f"task-service-{name}"], services[name]
        (container,) = pod["containers"]
        assert container["image"] == service["image"]
        assert container["args"] == [service["command"]]
        assert pod["securityContext"]["runAsUser"] == 65532
        assert container["securityContext"]["readOnlyRootFilesystem"] is service["read_only"]
        assert container["resources"]["limits"]["memory"] == "512Mi"
        # Without the database no pod is ready, and none should be restarted for that.
        assert "livenessProbe" not in container
        pause = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {"seconds": 0})
        if "stop_grace_period" in service:
            grace = int(service["stop_grace_period"].removesuffix("s"))
            assert pod["terminationGracePeriodSeconds"] == grace + pause["seconds"]
    assert (
        pods["task-service-web"]["containers"][0]["readinessProbe"]["httpGet"]["path"] == "/healthz"
    )


def test_of_the_services_of_compose_only_web_gets_the_login_key_of_the_file_of_settings():
    """Compose gives a container the variables of the file, then those of the service."""
    key = "k" * 32
    services = yaml.safe_load(read("compose.yaml"))["services"]
    keys = {
        name: Settings.read({"LOGIN_KEY": service["environment"].get("LOGIN_KEY", key)}).login_key
        for name, service in services.items()
        if "env_file" in service
    }
    assert keys == {"migrate": None, "web": key, "worker": None}


def health_checks():
    """Return the programs in Python with which the image and compose ask a web process."""
    of_image = re.search(r'(?s)HEALTHCHECK .*?"-c", \\\n\s*(".*?")\]\n', read("Dockerfile"))[1]
    web = yaml.safe_load(read("compose.yaml"))["services"]["web"]
    return json.loads(of_image), web["healthcheck"]["test"][-1]


@contextmanager
def answering(status):
    """Yield the port of a server that answers each request with this status."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.end_headers()

        def log_message(self, *arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.mark.parametrize(("status", "healthy"), [(200, True), (503, False)])
@pytest.mark.parametrize("code", health_checks())
def test_a_health_check_asks_the_process_itself_even_if_docker_sets_a_proxy(code, status, healthy):
    proxies = dict.fromkeys(("http_proxy", "HTTP_PROXY", "all_proxy"), "http://127.0.0.1:9")
    with answering(status) as port:
        # compose.yaml knows the port.
        command = [sys.executable, "-c", code.replace(":8000/", f":{port}/")]
        variables = environment(**proxies, no_proxy="", NO_PROXY="", PORT=str(port))
        ran = subprocess.run(command, env=variables, capture_output=True)
    assert (ran.returncode == 0) is healthy, ran.stderr


def test_the_scripts_of_a_host_ask_it_without_a_proxy():
    scripts = [*PROJECT.glob("docs/deploy/task-service*")]
    asked = [line for path in scripts for line in path.read_text().splitlines() if "curl -" in line]
    assert len(asked) == 2
    assert [line for line in asked if "curl --noproxy '*' " not in line] == []


def test_the_pages_the_package_and_the_workflows_name_the_tested_versions_of_one_list():
    """What is newer is named as untested."""
    classifier = r"(?m)^ +Programming Language :: Python :: (3\.[0-9]+)$"
    assert re.findall(classifier, read("setup.cfg")) == [*PYTHON]
    assert f'requires-python = ">={PYTHON[0]}"' in read("pyproject.toml")
    assert f"You need only Python {PYTHON[0]} to {PYTHON[-1]}," in read("README.md")
    jobs = yaml.safe_load(read(".github/workflows/check.yml"))["jobs"]
    (oldest,) = [step["with"] for step in jobs["check"]["steps"] if "setup-python" in str(step)]
    matrix = jobs["python"]["strategy"]["matrix"]["python"]
    assert [oldest["python-version"], *matrix] == [*PYTHON]
    nightly = yaml.safe_load(read(".github/workflows/nightly.yml"))["jobs"]["postgresql"]
    assert f" postgresql-{POSTGRESQL[0]} " in read(".ci/nightly")
    assert [*map(int, nightly["strategy"]["matrix"]["version"])] == [*POSTGRESQL[1:]]
    untested = rows("docs/operations/untested.md", "What is untested")
    (row,) = [named for named, _ in untested if "Python" in named]
    major, minor = map(int, PYTHON[-1].split("."))
    assert f"PostgreSQL {POSTGRESQL[-1] + 1}" in row
    assert f"Python {major}.{minor + 1}" in row


def test_base_images_have_exact_tags_and_dependabot_moves_them_and_the_npm_packages():
    images = re.findall(r"(?m)^FROM (\S+:\S+)", read("Dockerfile"))
    images.append(yaml.safe_load(read("compose.yaml"))["services"]["database"]["image"])
    exact = r"(python:\d+\.\d+\.\d+-slim|postgres:\d+\.\d+)-trixie(@sha256:[0-9a-f]{64})?"
    for image in images:
        assert re.fullmatch(exact, image)
    moved = {
        (update["package-ecosystem"], folder)
        for update in yaml.safe_load(read(".github/dependabot.yml"))["updates"]
        for folder in update.get("directories", [update.get("directory")])
    }
    packages = {
        ("npm", f"/{path.parent.relative_to(PROJECT)}")
        for path in PROJECT.glob("te*/**/package.json")
        if "ependencies" in path.read_text() and "node_modules" not in path.parts
    }
    assert len(packages) == 2
    assert moved == {
        *packages,
        *((ecosystem, "/") for ecosystem in ("github-actions", "pip", "docker", "docker-compose")),
    }
