"""Count the instructions that one web process executes per request, with callgrind.

The table has the counts with the speedups and without them.

On a machine that others use as well, times differ from run to run, but a count of instructions
repeats to 2 %. One worker runs under ``valgrind --tool=callgrind`` and answers one client, one
request after the other, on one connection that stays open. callgrind counts everything that the
worker executes outside of the kernel. It does not count PostgreSQL, and it does not show what
several clients cost by waiting for each other.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from itertools import count
from pathlib import Path
from statistics import median

from bench import processes
from bench.servers import Client, gunicorn
from bench.stage import database

# How many requests of each case are sent before the first count, to warm up connections, plans and
# caches, and how many are sent for each count.
WARM_UP, REQUESTS = 60, 50
# Each case is counted until the highest of its COUNTS lowest counts is at most AGREE times the
# lowest. The result is their median. Threads that wake periodically can only add to a count, and on
# a busy machine they add more. Without a result after ATTEMPTS counts, the benchmark fails.
COUNTS, AGREE, ATTEMPTS = 3, 1.02, 9


def count_instructions(cases, *, tasks, say, keep=None):
    """Return a Markdown table, in thousands of instructions per request.

    callgrind writes its files to the folder ``keep``; without it, to a temporary folder.
    """
    with tempfile.TemporaryDirectory(prefix="service-instructions-") as folder:
        files = Path(keep or folder)
        files.mkdir(parents=True, exist_ok=True)
        say(f"seeding {tasks:,} tasks")
        with database(tasks) as (url, _):
            columns = [counted(cases, url, files, say, SPEEDUPS=switch) for switch in ("on", "off")]
    lines = ["| request | speedups on | spread | off | spread |", "|---|--:|--:|--:|--:|"]
    for case, *cells in zip(cases, *columns, strict=True):
        shown = (f"{found / 1000:,.0f} | {100 * (spread - 1):.1f} %" for found, spread in cells)
        lines.append(f"| {case.name} | {' | '.join(shown)} |")
    python = ".".join(map(str, sys.version_info[:3]))
    return "\n".join([*lines, "", f"Python {python}, {os.uname().machine}"])


def counted(cases, url, files, say, **settings):
    """Count each case on a service with these settings; return a count and a spread for each."""
    command = (
        *("valgrind", "--quiet", "--tool=callgrind", "--trace-children=yes"),
        f"--callgrind-out-file={files}/%p",
    )
    say(f"starting gunicorn under valgrind: {settings}")
    # The seed of hashes is fixed, so that a lookup in a dictionary costs the same in every run.
    settings = {"WEB_CONCURRENCY": "1", "PYTHONHASHSEED": "0", **settings}
    with gunicorn(url, under=command, **settings) as (port, pid):
        client = Client(port)
        for case in cases:
            send(client, case, WARM_UP)
        (worker,) = (one for one, _ in processes.below(pid) if one != pid)
        counter = dumps(worker, files)
        return [agreed(case, client, counter, say) for case in cases]


def agreed(case, client, counter, say):
    """Count until the lowest counts agree; return their median, and their spread.

    The spread is the highest of the counts, divided by the lowest.
    """
    counts = []
    while len(counts) < ATTEMPTS:
        next(counter)
        send(client, case, REQUESTS)
        counts.append(next(counter) / REQUESTS)
        say(f"{case.name}: {counts[-1]:,.0f}")
        lowest = sorted(counts)[:COUNTS]
        if len(lowest) == COUNTS and lowest[-1] <= AGREE * lowest[0]:
            return median(lowest), lowest[-1] / lowest[0]
    sys.exit(f"Error: {case.name}: no {COUNTS} counts within 2 %: {counts}")


def send(client, case, times):
    for _ in range(times):
        client.send(case)


def dumps(pid, folder):
    """At each step, yield the instructions that a process has executed since the last step."""
    for number in count(1):
        command = (shutil.which("callgrind_control"), "--dump", str(pid))
        subprocess.run(command, check=True, capture_output=True, timeout=120)  # noqa: S603
        text = (folder / f"{pid}.{number}").read_text(errors="replace")
        yield int(re.search(r"^totals: (\d+)", text, re.MULTILINE)[1])
