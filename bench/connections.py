"""How a request grows with the connections: 8, 64 and 256 active ones, and 8 beside 5 000 idle."""

import http.client
import resource
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from select import POLLIN, poll
from statistics import median

from bench import drive, processes
from bench.cases import CASES
from bench.servers import ask, gunicorn
from bench.stage import cluster

(MEASURED,) = (case for case in CASES if case.name == "list 1")
# Active connections, and idle ones beside them; the last ones end while the next round warms up.
SHAPES = (8, 0), (64, 0), (256, 0), (8, 5000)
# File descriptors of a process, and those that this one needs besides idle connections.
FILES, OTHER_FILES = 8192, 100


@dataclass(frozen=True)
class Figures:
    """``server`` and ``database``: CPU milliseconds a request; latencies in milliseconds.

    ``idle`` is the number of idle connections that the service still keeps at the end of the run.
    """

    idle: float
    rate: float
    server: float
    database: float
    p50: float
    p99: float


def connections(tasks, *, seconds, rounds, say):
    """Return medians of all rounds: {(active connections, idle ones opened, load): Figures}.

    At full load each connection sends its next request at once; at half load all together send
    half of the requests per second that they sent at full load just before.
    """
    limit = raise_limit()
    runs = {}
    with cluster() as postgres:
        say(f"seeding {tasks:,} tasks")
        url = postgres.database("connections", tasks)
        with gunicorn(url) as (port, pid):
            # Until a worker is up, which takes seconds on a busy machine.
            ask(port, MEASURED)
            for number in range(rounds):
                say(f"round {number + 1} of {rounds}")
                # Warm up: connections, plans, and the first minute of every token.
                drive.wrk(MEASURED, port, [pid], seconds=1, connections=8)
                for active, opened in SHAPES:
                    idle = min(opened, limit - OTHER_FILES)
                    with idle_connections(port, idle) as kept:
                        server = port, pid, postgres.pid, kept
                        full = measure(*server, seconds=seconds, connections=active)
                        half = measure(
                            *server, seconds=seconds, connections=active, rate=full.rate / 2
                        )
                    runs.setdefault((active, idle, "full"), []).append(full)
                    runs.setdefault((active, idle, "half"), []).append(half)
    return {key: middle(found) for key, found in runs.items()}


def raise_limit():
    """Let this process and the service open more files, if they may; return how many each."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = max(soft, min(FILES, hard))
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return limit


@contextmanager
def idle_connections(port, number):
    """Open connections that send one request each, and no more; yields a count of those kept.

    The service ends them after ``keepalive`` seconds, and earlier where it has too many.
    """
    clients = [http.client.HTTPConnection("127.0.0.1", port, timeout=10) for _ in range(number)]
    poller = poll()
    try:
        for client in clients:
            client.request("GET", "/")  # A response without the database.
            client.getresponse().read()
            if client.sock:
                poller.register(client.sock, POLLIN)
        # What an idle connection has to read is its end.
        yield lambda: sum(bool(client.sock) for client in clients) - len(poller.poll(0))
    finally:
        for client in clients:
            client.close()


def measure(port, server_pid, database_pid, kept, **options):
    before = processes.milliseconds(database_pid)
    run = drive.wrk(MEASURED, port, [server_pid], **options)
    used = processes.milliseconds(database_pid) - before
    return Figures(kept(), run.rate, run.cpu, used / run.requests, run.p50, run.p99)


def middle(runs):
    return Figures(*(median(column) for column in zip(*map(astuple, runs), strict=True)))


def connections_table(found):
    """Return a Markdown table: a line for each number of connections and load."""
    lines = [
        "| active | idle, kept | load | requests/s | server, ms CPU | PostgreSQL, ms CPU"
        " | together | p50 | p99 |",
        "|--:|--:|---|--:|--:|--:|--:|--:|--:|",
    ]
    for (active, opened, load), one in found.items():
        idle = f"{one.idle:.0f} of {opened:,}" if opened else "0"
        lines.append(
            f"| {active} | {idle} | {load} | {one.rate:.0f} | {one.server:.3f}"
            f" | {one.database:.3f} | {one.server + one.database:.3f}"
            f" | {one.p50:.1f} | {one.p99:.1f} |"
        )
    return "\n".join(lines)
