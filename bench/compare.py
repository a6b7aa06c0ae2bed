"""The comparison of the service and the floor, in turn, round after round, under wrk."""

import json
import subprocess
import tempfile
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench import processes
from bench.servers import Client, gunicorn
from bench.stage import READERS, database

LUA = Path(__file__).with_name("wrk.lua")
CONNECTIONS = 8
RUNNERS = "service", "floor"
COLUMNS = "CPU", "of PostgreSQL", "p50", "p99", "p99.9", "requests/s"


class WrongAnswer(Exception):
    """A request failed, or service and floor responded differently."""


class Run(NamedTuple):
    """The figures of one run; milliseconds of CPU for one request, latencies in milliseconds."""

    cpu: float
    postgres: float
    p50: float
    p99: float
    p999: float
    rate: float

    def __str__(self):
        cpu = f"{self.cpu:.3f} | {self.postgres:.3f}"
        return f"{cpu} | {self.p50:.1f} | {self.p99:.1f} | {self.p999:.1f} | {self.rate:.0f}"


def compare(cases, *, tasks, seconds, rounds, say):
    """Return a Markdown table of the medians of all rounds."""
    runs = {(case, runner): [] for case in cases for runner in RUNNERS}
    say(f"seeding {tasks:,} tasks")
    with (
        database(tasks) as (url, postgres),
        gunicorn(url) as service,
        gunicorn(url, app="bench.floor:app") as floor,
    ):
        for case in cases:
            check(case, service[0], floor[0])
        # The first round, of a second each, warms up: connections, plans, minutes of tokens.
        for number in range(rounds + 1):
            say(f"round {number} of {rounds}" if number else "warming up")
            for case, runner in runs:
                port, pid = service if runner == "service" else floor
                found = run(case, port, pid, postgres, seconds if number else 1)
                runs[case, runner].append(found)
    medians = {key: Run(*map(median, zip(*found[1:], strict=True))) for key, found in runs.items()}
    return "\n".join(table(cases, medians))


def table(cases, medians):
    """Yield the lines of the table."""
    yield f"| request | target | {' | '.join(COLUMNS)} | floor's {' | '.join(COLUMNS)} | ÷ floor |"
    yield "|---" + "|--:" * (2 + 2 * len(COLUMNS)) + "|"
    for case in cases:
        service, floor = (medians[case, runner] for runner in RUNNERS)
        target = f"{case.target:.2f}" if case.target else ""
        ratio = f"{service.cpu / floor.cpu:.2f}"
        yield f"| {case.name} | {target} | {service} | {floor} | {ratio} |"


def run(case, port, web, postgres, seconds):
    """Send requests without a pause; return the figures."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.writelines(f"{token} {path}\n" for token, path in case.requests())
        file.flush()
        before = [processes.milliseconds(pid) for pid in (web, postgres)]
        ended = subprocess.run(  # noqa: S603
            [
                *("wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "-s", str(LUA)),
                *(f"http://127.0.0.1:{port}", "--", case.method, case.text(), file.name),
            ],
            capture_output=True,
            text=True,
            check=True,
        )
        after = [processes.milliseconds(pid) for pid in (web, postgres)]
    found = json.loads(ended.stdout.splitlines()[-1])
    requests = found["requests"]
    if found["failed"] or not requests:
        raise WrongAnswer(f"{case.name}: {found['failed']} of {requests} requests failed")
    of_web, of_postgres = ((b - a) / requests for a, b in zip(before, after, strict=True))
    latencies = (found[name] for name in ("p50", "p99", "p999"))
    return Run(of_web + of_postgres, of_postgres, *latencies, requests / found["seconds"])


def check(case, service, floor):
    """Require the same response of both; bodies of reads must have the same bytes."""
    clients = Client(service), Client(floor)
    for caller in range(0, len(READERS), 7):
        body, other = (client.send(case, caller) for client in clients)
        same = body == other or case.method != "GET" or case.name == "dashboard"
        if not same or keys(json.loads(body)) != keys(json.loads(other)):
            raise WrongAnswer(f"{case.name}: {body[:200]}, {other[:200]}")
        if "limit" in case.values and len(json.loads(body)["data"]) != case.values["limit"]:
            raise WrongAnswer(f"{case.name}: {body[:200]} has another number of items")


def keys(content):
    return [sorted(item) for item in content] if isinstance(content, list) else sorted(content)
