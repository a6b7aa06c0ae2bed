"""Read the CPU time of a tree of processes from /proc."""

import os
from pathlib import Path

TICK = 1000 / os.sysconf("SC_CLK_TCK")


def milliseconds(*roots):
    """Return the CPU time of these processes and all their descendants, even of ended ones."""
    # The fields utime, stime, cutime and cstime. The last two are the times of children that have
    # ended and for which the process has waited.
    return sum(sum(map(int, numbers[11:15])) for _, numbers in below(*roots)) * TICK


def below(*roots):
    """Yield pid and fields of these processes and of all their descendants.

    The fields are the ones after the name in /proc/PID/stat; proc(5) lists them.
    """
    children, known = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_text()
            except OSError:
                continue
            # The name in brackets may contain any character, so the fields begin after the last
            # bracket.
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
