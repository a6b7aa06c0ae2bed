"""Read the CPU time of a tree of processes from /proc."""

import os
from pathlib import Path

TICK = 1000 / os.sysconf("SC_CLK_TCK")


def milliseconds(*roots):
    """Return the CPU time of these processes and of all their descendants, ended ones included."""
    # utime, stime, cutime, cstime; the last two belong to children for which the parent has waited.
    return sum(sum(map(int, numbers[11:15])) for _, numbers in below(*roots)) * TICK


def below(*roots):
    """Yield the pid and the fields of /proc/PID/stat, for these processes and their descendants.

    The fields begin behind the name; proc(5) lists them.
    """
    children, known = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_text()
            except OSError:
                continue
            # The name in brackets may contain any character, so read behind the last bracket.
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
