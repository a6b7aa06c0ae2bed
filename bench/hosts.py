"""One host, then two hosts, on one PostgreSQL: which part of a request does each add?"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

from bench import drive, processes
from bench.cases import CASES
from bench.servers import gunicorn
from bench.stage import cluster

MEASURED = "list 50", "get", "create", "patch"
# Connections of one host, as many as it has threads.
CONNECTIONS = 4


@dataclass(frozen=True)
class Shares:
    """Requests a second, and CPU milliseconds a request of all hosts and of PostgreSQL."""

    rate: float
    hosts: float
    database: float


def hosts(tasks, *, seconds, say):
    """{(case name, number of hosts): Shares}, each host one process of four threads."""
    found = {}
    with cluster() as postgres:
        say(f"seeding {tasks:,} tasks")
        url = postgres.database("hosts", tasks)
        for number in (1, 2):
            with ExitStack() as stack:
                settings = {"WEB_CONCURRENCY": "1", "WEB_THREADS": str(CONNECTIONS)}
                servers = [stack.enter_context(gunicorn(url, **settings)) for _ in range(number)]
                for case in CASES:
                    if case.name in MEASURED:
                        say(f"{number}: {case.name}")
                        # The first run connects and plans.
                        drive_all(case, servers, postgres.pid, 1)
                        shares = drive_all(case, servers, postgres.pid, seconds)
                        found[case.name, number] = shares
    return found


def drive_all(case, servers, database_pid, seconds):
    """One wrk for each host, all at once."""
    before = processes.milliseconds(database_pid)
    with ThreadPoolExecutor(len(servers)) as threads:
        options = {"seconds": seconds, "connections": CONNECTIONS}
        runs = list(
            threads.map(lambda server: drive.wrk(case, server[0], [server[1]], **options), servers)
        )
    used = processes.milliseconds(database_pid) - before
    requests = sum(run.requests for run in runs)
    return Shares(
        rate=sum(run.rate for run in runs),
        hosts=sum(run.cpu * run.requests for run in runs) / requests,
        database=used / requests,
    )


def hosts_table(found):
    """A line for each case and number of hosts."""
    lines = [
        "| request | hosts | requests/s | hosts, ms CPU | PostgreSQL, ms CPU |",
        "|---|---|---|---|---|",
    ]
    for name in MEASURED:
        for number in (1, 2):
            one = found[name, number]
            figures = f"{one.rate:,.0f} | {one.hosts:.2f} | {one.database:.2f}".replace(",", " ")
            lines.append(f"| {name} | {number} | {figures} |")
    return "\n".join(lines)
