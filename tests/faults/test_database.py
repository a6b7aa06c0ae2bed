"""A PostgreSQL that is killed, frozen, unreachable, read-only or full."""

import os
import signal
import subprocess
import tempfile
from collections import Counter
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from threading import Event
from time import monotonic

import pytest
from faults.load import WEB, Load, compare_events, compare_tasks
from support.processes import call, get, serving, wait_until
from support.receivers import WEBHOOK_SETTINGS
from support.rows import TOKENS

pytestmark = pytest.mark.faults

# More clients than the eight threads of WEB.
CLIENTS = 12
# The pages promise five seconds; a busy machine may take half a second more.
PROMISED = {"at_most": 5, "margin": 1.1, "unit": "s"}
# With this lease, no attempt is repeated while a scenario runs.
SETTINGS = {**WEBHOOK_SETTINGS, **WEB, "WEBHOOK_LEASE": "600"}


@pytest.fixture
def backends(connection):
    def find():
        rows = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'"
            " AND datname = current_database() AND pid <> pg_backend_pid()"
        )
        return [row["pid"] for row in rows]

    return find


@contextmanager
def stopped(pids):
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def measure_replies(measure, load):
    measure("responses other than 201 and 503", load.other_than(201, 503), exactly=0)


def measure_outage(measure, connection, load, recovery):
    measure_replies(measure, load)
    compare_tasks(measure, connection, load)
    measure("first 201 after it", recovery, at_most=2, unit="s")


def test_restarts_of_postgresql_under_writes_lose_nothing(
    postgres, database_url, receiver, subscribed, reconnect, measure, rounds
):
    restarts = rounds(2, 8)
    recoveries = []
    with serving(database_url, **SETTINGS) as server, Load(server.port) as load:
        for _ in range(restarts):
            load.wait_for_replies(40)
            postgres.pg_ctl("restart", "-m", "immediate", "-l", str(postgres.log))
            recoveries.append(load.recovery(monotonic()))
    measure_replies(measure, load)
    connection = reconnect()
    compare_tasks(measure, connection, load)
    compare_events(measure, connection)
    slowest = max((reply.seconds for reply in load.replies if reply.status == 503), default=0.0)
    measure("slowest 503", slowest, at_most=3, unit="s")
    measure("first 201 after PostgreSQL accepts", max(recoveries), at_most=2, unit="s")


def test_requests_get_503_while_postgresql_is_down_and_recover_by_themselves(
    postgres, database_url, measure, rounds
):
    outage = rounds(5, 70)
    with serving(database_url, **WEB) as server, Load(server.port, clients=CLIENTS) as load:
        load.wait_for_replies(40)
        postgres.pg_ctl("stop", "-m", "immediate")
        down = monotonic()
        Event().wait(outage)
        up = monotonic()
        postgres.start()
        recovery = load.recovery(monotonic())
    during = [reply for reply in load.replies if down <= reply.started + reply.seconds <= up]
    others = sum(reply.status != 503 for reply in during)
    measure_replies(measure, load)
    measure("responses other than 503 with Retry-After while it is down", others, exactly=0)
    measure("slowest of them", max(reply.seconds for reply in during), at_most=2.5, unit="s")
    measure("first 201 after the start", recovery, at_most=5, unit="s")


@pytest.mark.parametrize("way", ["refuses connections", "resets connections"])
def test_requests_get_503_while_the_network_is_broken_and_succeed_afterwards(
    proxy, connection, database_url, measure, way
):
    with serving(proxy.url, **WEB) as server, Load(server.port, clients=CLIENTS) as load:
        load.wait_for_replies(40)
        if way == "refuses connections":
            proxy.refuse()
            load.wait_for(lambda load: load.number(503) >= 8)
            proxy.listen()
        else:
            for _ in range(5):
                proxy.reset()
                load.wait_for_replies(10)
        recovery = load.recovery(monotonic())
    measure_outage(measure, connection, load, recovery)


@pytest.mark.parametrize("way", ["a black hole", "a proxy that holds all bytes back"])
def test_requests_get_503_in_time_while_the_network_is_silent(
    proxy, connection, database_url, subscribed, measure, rounds, way
):
    outage = rounds(5, 20)
    with serving(proxy.url, **SETTINGS) as server, Load(server.port, clients=CLIENTS) as load:
        load.wait_for_replies(40)
        (proxy.lose if way == "a black hole" else proxy.freeze)()
        Event().wait(outage)
        (proxy.restore if way == "a black hole" else proxy.thaw)()
        recovery = load.recovery(monotonic())
    measure_outage(measure, connection, load, recovery)
    measure("slowest response", load.slowest, **PROMISED)


def test_requests_get_503_in_time_while_postgresql_is_frozen(
    postgres, connection, database_url, backends, subscribed, measure, rounds
):
    outage = rounds(5, 20)
    with serving(database_url, **SETTINGS) as server, Load(server.port, clients=CLIENTS) as load:
        load.wait_for_replies(40)
        # The postmaster is frozen too, so the server accepts no new connection either.
        with stopped([postgres.get_pid(), *backends()]):
            Event().wait(outage)
        recovery = load.recovery(monotonic())
    measure_outage(measure, connection, load, recovery)
    measure("slowest response", load.slowest, **PROMISED)


def test_one_frozen_backend_fails_one_request(connection, database_url, backends, measure):
    with serving(database_url, **WEB) as server, Load(server.port, clients=CLIENTS) as load:
        load.wait_for_replies(100)
        with stopped(backends()[:1]):
            frozen = monotonic()
            load.wait_for(lambda load: load.number(503) or monotonic() > frozen + 6)
    measure_replies(measure, load)
    measure("responses with status 503", load.number(503), at_most=1)
    compare_tasks(measure, connection, load)


@pytest.fixture
def small_disk(postgres, connection):
    """Move the tasks to a tablespace on a file system of 16 MB; yield its folder."""
    folder = tempfile.mkdtemp(prefix="service-full-", dir=postgres.folder)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", folder], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("mounting a file system needs root")
    if postgres.account:
        os.chown(folder, postgres.account.pw_uid, postgres.account.pw_gid)
    connection.execute(f"CREATE TABLESPACE small LOCATION '{folder}'")
    connection.execute("ALTER TABLE tasks SET TABLESPACE small")
    yield Path(folder)
    connection.execute("ALTER TABLE tasks SET TABLESPACE pg_default")
    connection.execute("DROP TABLESPACE small")
    subprocess.run(["umount", folder], check=True)


def test_on_a_full_disk_writes_get_503_and_reads_succeed(
    connection, database_url, small_disk, measure
):
    filler = small_disk / "filler"
    alice = TOKENS["alice"]
    with serving(database_url, **WEB) as server:
        port = server.port

        def write():
            # PostgreSQL cannot compress random text.
            text = os.urandom(30_000).hex()
            return call(port, "POST", "/api/tasks", alice, {"title": "x", "description": text})[0]

        assert write() == 201
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while file.write(b"x" * 8192):
                pass
        writes = Counter(write() for _ in range(40))
        reads = Counter(call(port, "GET", "/api/tasks?limit=1", alice)[0] for _ in range(40))
        filler.unlink()
        after = Counter(write() for _ in range(10))
    measure("writes with a full disk that are 503", writes[503], at_least=20)
    measure("writes other than 503 and 201", 40 - writes[503] - writes[201], exactly=0)
    measure("reads other than 200", 40 - reads[200], exactly=0)
    measure("writes other than 201 once there is room", 10 - after[201], exactly=0)


def test_with_four_times_as_many_clients_as_threads_every_client_gets_its_turn(
    connection, database_url, measure, rounds
):
    with (
        serving(database_url, **WEB) as server,
        Load(server.port, clients=32, limit=rounds(1000, 10_000)) as load,
    ):
        health = [get(server.port, "/healthz").status for _ in range(50)]
        load.wait_for(lambda load: len(load.replies) >= load.limit)
    measure("responses other than 201", load.other_than(201), exactly=0)
    measure("responses of /healthz other than 200", 50 - health.count(200), exactly=0)
    measure("p99", load.percentile(0.99), at_most=2, unit="s")


def test_rate_limits_survive_a_crash_of_postgresql(postgres, connection, database_url, measure):
    connection.execute("UPDATE workspaces SET plan = 'Starter'")
    with serving(database_url, **WEB) as server:
        for _ in range(20):
            before = int(get(server.port).headers["x-ratelimit-remaining"])
        # Counts are committed without waiting for the disk. PostgreSQL writes them a moment later.
        written = connection.execute("SELECT pg_current_wal_insert_lsn() AS lsn").fetchone()["lsn"]
        wait_until(
            lambda: connection.execute(
                "SELECT pg_current_wal_flush_lsn() >= %s::pg_lsn AS done", (written,)
            ).fetchone()["done"]
        )
        postgres.pg_ctl("restart", "-m", "immediate", "-l", str(postgres.log))
        # A request that finds PostgreSQL still in recovery gets 503 and is not counted.
        responses = iter(lambda: get(server.port), None)
        response = next(one for one in islice(responses, 100) if one.status == 200)
        after = int(response.headers["x-ratelimit-remaining"])
    measure("requests counted before the crash", 60 - before, at_least=20)
    measure("counts lost that had reached the log", after + 1 - before, exactly=0)
