"""Instructions a request: what the CPU of one web process executes, counted by callgrind.

Time differs from run to run on a machine that others use too; a count of instructions repeats to
2 %. One worker runs under ``valgrind --tool=callgrind`` and answers one client, one request after
the other, over one kept connection. Counted is all that the worker executes outside the kernel;
PostgreSQL is not counted, nor is what several clients cost by waiting for each other.
"""

import http.client
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from bench import processes
from bench.cases import CASES
from bench.servers import gunicorn
from bench.stage import cluster

NAMES = "list 1", "list 50", "create", "workspaces", "patch", "get"
VALGRIND = ("valgrind", "callgrind_control")

# Requests before the first count: they open connections, make plans and fill caches.
WARM_UP = 60
# Counts of one case that are kept; the count of a case is their median, once they agree.
COUNTS, AGREE, ATTEMPTS = 3, 1.02, 9


class NotCounted(Exception):
    """Valgrind is missing, a request failed, or the counts never agreed."""


def missing():
    """Return the programs that are not installed."""
    return [program for program in VALGRIND if not shutil.which(program)]


def instructions(names, *, tasks, requests, say, keep=None):
    """{case name: (instructions a request, spread)}; callgrind's files go to the folder ``keep``.

    The spread is how much the largest of the counts exceeds the smallest, as a ratio.
    """
    cases = {case.name: case for case in CASES if case.name in (names or NAMES)}
    with tempfile.TemporaryDirectory(prefix="service-instructions-") as folder:
        files = Path(keep or folder)
        files.mkdir(parents=True, exist_ok=True)
        command = (
            *("valgrind", "--quiet", "--tool=callgrind", "--trace-children=yes"),
            f"--callgrind-out-file={files}/%p",
        )
        # A fixed seed of hashes, so that lookups in dictionaries cost the same in each run.
        settings = {"WEB_CONCURRENCY": "1", "PYTHONHASHSEED": "0"}
        with cluster() as postgres:
            say(f"seeding {tasks:,} tasks")
            url = postgres.database("instructions", tasks)
            say("starting gunicorn under valgrind")
            with gunicorn(url, under=command, **settings) as (port, pid):
                client = Client(port)
                client.send(cases.values(), WARM_UP)
                (worker,) = (one for one, _ in processes.below(pid) if one != pid)
                counter = Counter(worker, files)
                return {
                    name: agreed(case, client, counter, requests, say)
                    for name, case in cases.items()
                }


def agreed(case, client, counter, requests, say):
    """Count until the last counts agree."""
    counts = []
    while len(counts) < ATTEMPTS:
        counter.dump()
        client.send([case], requests)
        counts.append(counter.dump() / requests)
        say(f"{case.name}: {counts[-1]:,.0f}")
        last = counts[-COUNTS:]
        if len(last) == COUNTS and max(last) <= AGREE * min(last):
            return median(last), max(last) / min(last)
    raise NotCounted(f"{case.name}: no {COUNTS} counts within 2 %: {counts}")


class Client:
    """One client, which keeps its connection and sends one request after the other."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self.number = 0

    def send(self, cases, times):
        """Send each case so many times; raises NotCounted unless all succeed."""
        for case in cases:
            token, path = case.requests()[0]
            headers = {"Authorization": f"Bearer {token}"}
            if case.body:
                headers["Content-Type"] = "application/json"
            for _ in range(times):
                self.number += 1
                body = case.text().replace("#", f"{self.number:08}") or None
                self.connection.request(case.method, path, body, headers)
                response = self.connection.getresponse()
                content = response.read()
                if response.status not in (200, 201):
                    raise NotCounted(f"{case.name}: {response.status} {content[:200]!r}")


class Counter:
    """Reads the count of callgrind in one process."""

    def __init__(self, pid, folder):
        self.pid, self.folder = pid, folder
        self.dumps = 0

    def dump(self):
        """Return the instructions since the last dump."""
        self.dumps += 1
        command = (shutil.which("callgrind_control"), "--dump", str(self.pid))
        subprocess.run(command, check=True, capture_output=True, timeout=120)  # noqa: S603
        text = (self.folder / f"{self.pid}.{self.dumps}").read_text(errors="replace")
        return int(re.search(r"^totals: (\d+)", text, re.MULTILINE)[1])


def instructions_table(found):
    """Return a Markdown table, in thousands."""
    lines = ["| request | 1 000 instructions | spread |", "|---|--:|--:|"]
    for name, (count, spread) in found.items():
        lines.append(f"| {name} | {count / 1000:,.0f} | {100 * (spread - 1):.1f} % |")
    python = ".".join(map(str, sys.version_info[:3]))
    return "\n".join([*lines, "", f"Python {python}, {os.uname().machine}"])
