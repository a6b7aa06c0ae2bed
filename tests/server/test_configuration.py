"""What gunicorn reads from its configuration."""

import json
import subprocess
import sys

import pytest
from support.processes import web_line
from support.project import PROJECT, environment, read


@pytest.mark.slow
@pytest.mark.nodatabase
def test_an_invalid_setting_stops_the_start_and_the_error_names_it():
    for settings, told in (
        ({"DATABASE_URL": ""}, "DATABASE_URL is not set"),
        ({"DATABASE_URL": "host=/nowhere", "PORT": "http"}, "PORT='http': must be an integer from"),
        ({"PYTHONOPTIMIZE": "2"}, "PYTHONOPTIMIZE: must be 0 or 1"),
    ):
        variables = environment(**settings)
        started = subprocess.run(
            web_line(), cwd=PROJECT, env=variables, capture_output=True, text=True
        )
        assert started.returncode != 0
        assert told in started.stderr
        assert "Traceback" not in started.stderr


# By name: how many file descriptors the process may have, and the changed settings.
READ = {
    "without speedups": (4096, {"SPEEDUPS": "off"}),
    "IPv6": (4096, {"HOST": "::1", "PORT": "8001"}),
    "few descriptors": (100, {"HOST": "127.0.0.1"}),
    "more threads": (50, {"WEB_THREADS": "40"}),
}
READER = """
import json, os, resource, runpy, service.server, sys
names = [
    "bind",
    "worker_class",
    "worker_connections",
    "threads",
    "keepalive",
    "graceful_timeout",
    "control_socket_disable",
]
plain, found = dict(os.environ), {}
for case, (descriptors, settings) in json.load(sys.stdin).items():
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, 4096))
    os.environ.clear()
    os.environ.update(plain, **settings)
    read = runpy.run_path(service.server.CONFIGURATION)
    found[case] = {name: read[name] for name in names}
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def configured():
    """Return the configuration that gunicorn reads for each case; one process reads all of them."""
    done = subprocess.run(
        [sys.executable, "-c", READER],
        cwd=PROJECT,
        env=environment(DATABASE_URL="host=/nowhere"),
        input=json.dumps(READ).encode(),
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.nodatabase
@pytest.mark.needs(descriptors=4096)
def test_a_process_takes_clients_for_half_its_descriptors_500_at_most_and_more_than_its_threads(
    configured,
):
    found = configured["IPv6"]
    assert found["worker_connections"] == 500
    assert found["bind"] == "[::1]:8001"
    # If it were enabled, two services of the same user would share one control socket.
    assert found["control_socket_disable"] is True
    found = configured["few descriptors"]
    assert found["worker_connections"] == 50
    assert found["bind"].startswith("127.0.0.1:")
    assert configured["more threads"]["worker_connections"] == 41


@pytest.mark.nodatabase
@pytest.mark.needs(descriptors=4096)
def test_the_deployment_page_states_the_timeouts_that_gunicorn_gets(configured):
    found, text = configured["IPv6"], " ".join(read("docs/operations/deployment.md").split())
    assert f"closes idle connections after {found['keepalive']} s" in text
    assert f"waits at most {found['graceful_timeout']} s for requests that run" in text


@pytest.mark.nodatabase
@pytest.mark.needs(descriptors=4096)
@pytest.mark.speedups
def test_the_http_server_of_the_speedups_serves_unless_speedups_are_off(configured):
    assert configured["IPv6"]["worker_class"] == "service.speedups.server.Server"
    assert configured["without speedups"]["worker_class"] == "gthread"
