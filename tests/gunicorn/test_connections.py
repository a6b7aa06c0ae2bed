"""Requests and responses that wait in the worker, their order and their memory."""

import json
import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import psycopg
import pytest
import server as web
from server import ALICE, children, get, receive_all, resident, serving, wait_until, web_line

# A control character is six bytes of JSON.
LARGE = "\x01" * 65_536
PAGE = f"GET /api/tasks HTTP/1.1\r\n{ALICE}\r\n".encode()
LAST_PAGE = f"GET /api/tasks HTTP/1.1\r\n{ALICE}Connection: close\r\n\r\n".encode()
THREADS = 4
# With time for a page that a reader takes slowly.
connect = partial(web.connect, timeout=30)


@pytest.fixture
def large_page(insert_into):
    """The first page of the tasks is 6 MB."""
    for _ in range(18):
        insert_into("tasks", description=LARGE)


def unread(port):
    """Return how many bytes for the server are still in the kernel."""
    total = 0
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, _, queues, *_ = line.split()
        sending, receiving = (int(size, 16) for size in queues.split(":"))
        if remote.endswith(f":{port:04X}"):
            total += sending
        # The queue of a listener has clients.
        elif local.endswith(f":{port:04X}") and not remote.endswith(":0000"):
            total += receiving
    return total


def cpu_seconds(server):
    """Return the CPU time of the only worker."""
    (worker,) = children(server.pid)
    numbers = Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()
    return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")


@pytest.fixture
def busy_threads(database_url, connection):
    """A block during which every thread waits for a lock; yields their responses to come."""
    sql = "SELECT FROM pg_stat_activity WHERE cardinality(pg_blocking_pids(pid)) > 0"

    @contextmanager
    def busy_threads(port, threads=THREADS):
        with ThreadPoolExecutor(threads) as people:
            with psycopg.connect(database_url) as locking:
                locking.execute("LOCK TABLE tokens IN ACCESS EXCLUSIVE MODE")
                answers = [people.submit(get, port) for _ in range(threads)]
                wait_until(lambda: len(connection.execute(sql).fetchall()) == threads)
                yield answers
            for answer in answers:
                answer.result(10)

    return busy_threads


def test_requests_for_health_overtake_the_others_and_starve_none(
    database_url, busy_threads, tmp_path
):
    sent = ["/api/mail", "/api/me", "/healthz", "/healthz", "/healthz", "/healthz"]
    run = ["/healthz", "/api/mail", "/healthz", "/api/me", "/healthz", "/healthz"]
    with (
        (tmp_path / "stderr").open("wb") as stderr,
        serving(database_url, WEB_CONCURRENCY="1", WEB_THREADS="1", stderr=stderr) as server,
        ExitStack() as stack,
    ):
        with busy_threads(server.port, threads=1):
            clients = [stack.enter_context(connect(server.port)) for _ in sent]
            for client, path in zip(clients, sent, strict=True):
                client.sendall(f"GET {path} HTTP/1.1\r\n{ALICE}\r\n".encode())
        for client in clients:
            assert client.recv(12) == b"HTTP/1.1 200"
    lines = (tmp_path / "stderr").read_text().splitlines()
    entries = [json.loads(line) for line in lines if '"path"' in line][-len(run) - 1 :]
    assert [entry["path"] for entry in entries] == ["/api/tasks", *run]
    assert all(0 < entry["queued"] < entry["ms"] for entry in entries[1:])


def read_page(port):
    """Read a page of the tasks to its end."""
    with connect(port) as client:
        client.sendall(LAST_PAGE)
        assert receive_all(client).startswith(b"HTTP/1.1 200 ")


@pytest.mark.usefixtures("large_page", "unlimited")
def test_memory_stays_flat_with_readers_that_take_nothing_of_a_large_page_or_hang_up(lone):
    for _ in range(8):
        read_page(lone.port)
    before = resident(lone)
    # All responses together would be 36 MB and 72 MB.
    for ending, readers, megabytes in (("hang up", 6, 20), ("stay", 12, 60)):
        with ExitStack() as stack:
            for _ in range(readers):
                client = stack.enter_context(connect(lone.port, buffer=2**12))
                client.sendall(PAGE)
                # When the first bytes have arrived, the page is complete in the worker.
                assert client.recv(12) == b"HTTP/1.1 200"
                if ending == "hang up":
                    client.close()
                assert resident(lone) < before + megabytes, ending
        read_page(lone.port)
        wait_until(lambda: resident(lone) < before + 30)


@pytest.mark.usefixtures("unlimited")
def test_a_flood_of_uploads_takes_bounded_memory_and_pushes_out_no_other_client(lone):
    """All that the flood sends would be 150 MB; the other client began before it."""
    title = b'{"title": "Report", "description": "%b"}' % (b"x" * 60_000)
    head = f"POST /api/tasks HTTP/1.1\r\n{ALICE}Content-Length: {len(title)}\r\n\r\n".encode()
    flood = f"POST /api/tasks HTTP/1.1\r\n{ALICE}Content-Length: 1000000\r\n\r\n".encode()
    get(lone.port)
    before = resident(lone)
    with connect(lone.port) as other, ExitStack() as stack:
        other.sendall(head + title[:50_000])
        reset = 0
        for _ in range(160):
            client = stack.enter_context(socket.socket())
            client.bind(("127.0.0.2", 0))
            client.connect(("127.0.0.1", lone.port))
            try:
                client.sendall(flood + b" " * 950_000)
            except OSError:
                reset += 1
        wait_until(lambda: unread(lone.port) == 0)
        assert resident(lone) < before + 100
        other.sendall(title[50_000:])
        assert other.recv(12) == b"HTTP/1.1 201"
    assert get(lone.port).status == 200


@pytest.mark.parametrize("descriptors", [40, 100])
def test_with_few_file_descriptors_new_clients_are_answered_and_no_cpu_is_burnt(
    database_url, descriptors
):
    limited = ["sh", "-c", f'ulimit -n {descriptors}; exec "$@"', "sh", *web_line()]
    with (
        serving(database_url, command=limited, WEB_CONCURRENCY="1", WEB_THREADS="4") as server,
        ExitStack() as stack,
    ):
        for _ in range(200):
            stack.enter_context(connect(server.port)).sendall(b"GET /api/tasks HTTP/1.1\r\n")
        for _ in range(20):
            assert get(server.port, timeout=5).status == 200
        before = cpu_seconds(server)
        time.sleep(2)
        assert cpu_seconds(server) - before < 1
        assert get(server.port, timeout=5).status == 200
