"""CPU from the process tables: what a tree of processes has used so far."""

import os
from pathlib import Path

TICK = 1000 / os.sysconf("SC_CLK_TCK")


def milliseconds(*roots):
    """What these processes and all below them have used; of those that ended, their parents keep count."""
    children, used = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_text()
            except OSError:
                continue
            # The name in brackets may hold anything, so what counts begins behind it.
            numbers = stat.rpartition(")")[2].split()
            pid = int(folder.name)
            children.setdefault(int(numbers[1]), []).append(pid)
            # utime, stime, and those of the children that were waited for
            used[pid] = sum(map(int, numbers[11:15]))
    waiting, total = list(roots), 0
    while waiting:
        pid = waiting.pop()
        total += used.get(pid, 0)
        waiting += children.get(pid, [])
    return total * TICK
