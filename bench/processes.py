"""The process table: the CPU time of a tree of processes."""

import os
from pathlib import Path

TICK = 1000 / os.sysconf("SC_CLK_TCK")


def milliseconds(*roots):
    """Return the CPU time of these processes and all below; parents count ended children."""
    # utime, stime, and those of the children that were waited for
    return sum(sum(map(int, numbers[11:15])) for _, numbers in below(*roots)) * TICK


def below(*roots):
    """Yield these processes and all below: pid, and numbers of /proc/pid/stat (proc(5))."""
    children, known = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_text()
            except OSError:
                continue
            # The name in brackets may hold any character: read behind the last bracket.
            numbers = stat.rpartition(")")[2].split()
            pid = int(folder.name)
            children.setdefault(int(numbers[1]), []).append(pid)
            known[pid] = numbers
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        if pid in known:
            yield pid, known[pid]
        waiting += children.get(pid, [])
