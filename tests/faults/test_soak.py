"""A long run with a fault now and then."""

import os
import re
import signal
from contextlib import ExitStack
from pathlib import Path
from random import Random
from threading import Event
from time import monotonic

import pytest
from faults.load import Load, compare_events, compare_tasks, read
from receivers import WEBHOOK_SETTINGS
from server import children, serving, wait_until, working

pytestmark = pytest.mark.faults

SETTINGS = {**WEBHOOK_SETTINGS, "WEBHOOK_SCHEDULE": ",".join(["5"] * 100), "WEBHOOK_LEASE": "5"}


def usage(server, worker):
    """Megabytes and file descriptors of the web processes and the worker."""
    pids = [*children(server.pid), worker.pid]
    texts = [Path(f"/proc/{pid}/status").read_text() for pid in pids]
    memory = sum(int(re.search(r"VmRSS:\s+(\d+)", text)[1]) for text in texts) // 1024
    return memory, sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids)


def test_nothing_grows_in_a_long_run_with_faults(
    postgres, database_url, proxy, receiver, subscribed, reconnect, measure, request
):
    if not request.config.option.soak:
        pytest.skip("--soak was not given")
    end = monotonic() + 60 * request.config.option.soak
    random, faults, first = Random(1), 0, None
    with ExitStack() as stack:
        server = stack.enter_context(serving(proxy.url, **SETTINGS))
        worker = stack.enter_context(working(proxy.url, **SETTINGS))
        # Half of what two cores can do.
        writers = stack.enter_context(Load(server.port, clients=2, pause=0.02, limit=10**9))
        readers = stack.enter_context(
            Load(server.port, clients=2, request=read, pause=0.02, limit=10**9)
        )
        while monotonic() < end:
            Event().wait(random.uniform(5, 15))
            fault = random.randrange(3)
            if fault == 0:
                os.kill(random.choice(children(server.pid)), signal.SIGKILL)
            elif fault == 1:
                postgres.pg_ctl("restart", "-m", "immediate", "-l", str(postgres.log))
            else:
                proxy.reset()
            faults += 1
            writers.wait_for_replies(20)
            readers.wait_for_replies(20)
            receiver.take_all()
            # Compare with a state in which each process has served all kinds of requests.
            if first is None and faults == 5:
                wait_until(lambda: len(children(server.pid)) == 2, server)
                first = usage(server, worker)
        wait_until(lambda: len(children(server.pid)) == 2, server)
        last = usage(server, worker)
        connection = reconnect()
        idle = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'"
        ).fetchone()["count"]
        connections = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
            " AND pid <> pg_backend_pid()"
        ).fetchone()["count"]
    measure("minutes", request.config.option.soak)
    measure("kills, restarts and resets", faults)
    measure("requests", len(writers.replies) + len(readers.replies))
    measure(
        "responses other than 200, 201 and 503, beside kills and resets",
        writers.other_than(201, 503, None) + readers.other_than(200, 503, None),
        exactly=0,
    )
    compare_tasks(measure, connection, writers)
    compare_events(measure, connection)
    measure(
        "memory at the end, of that after five faults",
        round(100 * last[0] / first[0]),
        at_most=110,
        unit="%",
    )
    measure(
        "file descriptors at the end, beyond those after five faults",
        last[1] - first[1],
        at_most=16,
    )
    measure("connections to PostgreSQL", connections, at_most=12)
    measure("connections idle in a transaction", idle, exactly=0)
