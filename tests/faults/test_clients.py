"""Slow, half-open and greedy clients, without a proxy."""

import resource
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from time import monotonic

import pytest
from faults.load import Load, read
from support.processes import ALICE, children, connect, get, post, resident, serving

pytestmark = pytest.mark.faults

WEB = {"WEB_CONCURRENCY": "1", "WEB_THREADS": "4"}
# Options of an ordinary client, which must not notice the greedy ones.
OTHER = {"clients": 1, "request": read, "pause": 0.01}
CREATE = post(b"", "Content-Length: 60000\r\n")


@pytest.fixture(scope="module")
def lone(database_url):
    with serving(database_url, **WEB) as server:
        yield server


@contextmanager
def holding(port, *openings, buffer=None):
    """Open connections that each send the beginning of a request; keep them open and silent."""
    with ExitStack() as stack:
        clients = []
        for opening in openings:
            clients.append(stack.enter_context(connect(port, buffer=buffer)))
            clients[-1].sendall(opening)
        yield clients


def measure_other(measure, load):
    measure("requests of another client beside them", len(load.replies), at_least=1)
    measure("its responses other than 200", load.other_than(200), exactly=0)
    measure("its p95", load.percentile(0.95) * 1000, at_most=100.0, unit="ms")


@pytest.mark.needs("slowhttptest")
@pytest.mark.parametrize("kind", ["headers", "bodies", "reads"])
def test_another_client_does_not_notice_an_attack_by_slowhttptest(lone, measure, rounds, kind):
    seconds = rounds(3, 20)
    options = {
        "headers": ["-H", "-i", "2"],
        "bodies": ["-B", "-i", "2", "-s", "60000"],
        "reads": ["-X", "-w", "10", "-y", "20", "-n", "2", "-z", "5", "-k", "3"],
    }[kind]
    url = f"http://127.0.0.1:{lone.port}/openapi.json"
    command = ["slowhttptest", *options, "-c", "200", "-r", "200", "-l", str(seconds), "-u", url]
    attack = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with Load(lone.port, **OTHER) as load:
            attack.wait(seconds + 20)
    finally:
        attack.kill()
        attack.wait()
    after = monotonic()
    with ThreadPoolExecutor(4) as threads:
        statuses = list(threads.map(lambda _: get(lone.port).status, range(4)))
    measure_other(measure, load)
    measure("threads back after it", statuses.count(200), at_least=4)
    measure("threads back within", monotonic() - after, at_most=1, unit="s")


def test_clients_that_do_not_read_their_responses_occupy_no_thread_and_little_memory(
    lone, connection, cast, measure, rounds
):
    connection.execute(
        "INSERT INTO tasks (workspace_id, title, description, created_by)"
        " SELECT %s, 'x', repeat('x', 60000), %s FROM generate_series(1, 17)",
        (cast["acme"], cast["alice"]),
    )
    before = resident(lone)
    with (
        holding(
            lone.port, *[f"GET /api/tasks HTTP/1.1\r\n{ALICE}\r\n".encode()] * 100, buffer=4096
        ),
        Load(lone.port, clients=1, request=lambda _: ("GET", "/api/me", None), limit=200) as load,
    ):
        load.wait_for(lambda load: len(load.replies) >= 200)
        grown = resident(lone) - before
    measure_other(measure, load)
    measure("memory of the web process, grown by", round(grown), at_most=64, unit="MB")


def test_the_service_stays_usable_with_more_connections_than_file_descriptors(
    database_url, plan, measure
):
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))

    with serving(database_url, preexec_fn=limit, **WEB) as server:
        (worker,) = children(server.pid)
        with (
            holding(server.port, *[b"GET /api/tasks HTTP/1.1\r\n"] * 400),
            Load(server.port, **OTHER, limit=100) as load,
        ):
            load.wait_for(lambda load: len(load.replies) >= 100)
        measure("web processes that ended", [worker] != children(server.pid), exactly=0)
        measure("responses to another client that are not 200", load.other_than(200), exactly=0)
        measure("its slowest", load.slowest, at_most=5, unit="s")
