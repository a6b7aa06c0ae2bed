"""Measure CPU, latencies and rate of the service while wrk sends requests, in rounds."""

import json
import subprocess
import tempfile
from pathlib import Path
from statistics import median

from bench import processes
from bench.servers import Client, gunicorn
from bench.stage import database

LUA = Path(__file__).with_name("wrk.lua")
CONNECTIONS = 8


def measure(cases, *, tasks, seconds, rounds, say):
    """Return a Markdown table with the median of all rounds for each figure."""
    runs = {case: [] for case in cases}
    say(f"seeding {tasks:,} tasks")
    with database(tasks) as (url, postgres), gunicorn(url) as (port, web):
        client = Client(port)
        for case in cases:
            client.send(case)
        # Round 0 takes a second for each case, and its figures are not counted. It opens
        # connections, lets PostgreSQL plan the statements, and lets the service record the use of
        # the tokens, which happens once a minute.
        for number in range(rounds + 1):
            say(f"round {number} of {rounds}" if number else "warming up")
            for case in cases:
                runs[case].append(run(case, port, (web, postgres), seconds if number else 1))
    lines = [
        "| request | target | CPU | of PostgreSQL | p50 | p99 | p99.9 | requests/s |",
        "|---" + "|--:" * 7 + "|",
    ]
    for case, figures in runs.items():
        cpu, postgres, p50, p99, p999, rate = map(median, zip(*figures[1:], strict=True))
        target = f"{case.target:.2f}" if case.target else ""
        latencies = f"{p50:.1f} | {p99:.1f} | {p999:.1f}"
        lines.append(
            f"| {case.name} | {target} | {cpu:.3f} | {postgres:.3f} | {latencies} | {rate:.0f} |"
        )
    return "\n".join(lines)


def run(case, port, pids, seconds):
    """Send requests without a pause, and return the figures of the run.

    The figures are, in this order: the CPU per request of the service and PostgreSQL together, the
    CPU per request of PostgreSQL alone, the latencies p50, p99 and p99.9, all in milliseconds, and
    the requests per second.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.writelines(f"{token} {path}\n" for token, path in case.requests())
        file.flush()
        before = [processes.milliseconds(pid) for pid in pids]
        ended = subprocess.run(  # noqa: S603
            [
                *("wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "-s", str(LUA)),
                *(f"http://127.0.0.1:{port}", "--", case.method, case.text(), file.name),
            ],
            capture_output=True,
            text=True,
            check=True,
        )
        after = [processes.milliseconds(pid) for pid in pids]
    found = json.loads(ended.stdout.splitlines()[-1])
    requests = found["requests"]
    if found["failed"] or not requests:
        raise RuntimeError(f"{case.name}: {found['failed']} of {requests} requests failed")
    web, postgres = ((b - a) / requests for a, b in zip(before, after, strict=True))
    latencies = (found[name] for name in ("p50", "p99", "p999"))
    return (web + postgres, postgres, *latencies, requests / found["seconds"])
