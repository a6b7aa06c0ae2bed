"""Instructions a request: what the CPU of one web process executes, counted by callgrind.

The counts with the speedups and without them are the columns of one table.

Time differs from run to run on a machine that others use too; a count of instructions repeats to
2 %. One worker runs under ``valgrind --tool=callgrind`` and answers one client, one request after
the other, over one kept connection. Counted is all that the worker executes outside the kernel;
PostgreSQL is not counted, nor is what several clients cost by waiting for each other.
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

# Requests of each case before the first count, for connections, plans and caches; and of a count.
WARM_UP, REQUESTS = 60, 200
# Counts of one case that are kept; the count of a case is their median, once they agree.
COUNTS, AGREE, ATTEMPTS = 3, 1.02, 9


def count_instructions(cases, *, tasks, say, keep=None):
    """Return a Markdown table, in thousands; callgrind's files go to the folder ``keep``."""
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
    """Count each case on a service with these settings; return pairs of count and spread."""
    command = (
        *("valgrind", "--quiet", "--tool=callgrind", "--trace-children=yes"),
        f"--callgrind-out-file={files}/%p",
    )
    say(f"starting gunicorn under valgrind: {settings}")
    # A fixed seed of hashes, so that lookups in dictionaries cost the same in each run.
    settings = {"WEB_CONCURRENCY": "1", "PYTHONHASHSEED": "0", **settings}
    with gunicorn(url, under=command, **settings) as (port, pid):
        client = Client(port)
        for case in cases:
            send(client, case, WARM_UP)
        (worker,) = (one for one, _ in processes.below(pid) if one != pid)
        counter = dumps(worker, files)
        return [agreed(case, client, counter, say) for case in cases]


def agreed(case, client, counter, say):
    """Count until the last counts agree; return their median, and the highest by the lowest."""
    counts = []
    while len(counts) < ATTEMPTS:
        next(counter)
        send(client, case, REQUESTS)
        counts.append(next(counter) / REQUESTS)
        say(f"{case.name}: {counts[-1]:,.0f}")
        last = counts[-COUNTS:]
        if len(last) == COUNTS and max(last) <= AGREE * min(last):
            return median(last), max(last) / min(last)
    sys.exit(f"Error: {case.name}: no {COUNTS} counts within 2 %: {counts}")


def send(client, case, times):
    for _ in range(times):
        client.send(case)


def dumps(pid, folder):
    """Yield the instructions of a process since the last dump, at each request for one."""
    for number in count(1):
        command = (shutil.which("callgrind_control"), "--dump", str(pid))
        subprocess.run(command, check=True, capture_output=True, timeout=120)  # noqa: S603
        text = (folder / f"{pid}.{number}").read_text(errors="replace")
        yield int(re.search(r"^totals: (\d+)", text, re.MULTILINE)[1])
