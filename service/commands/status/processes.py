"""Sections of ``status``: web processes and workers, and sessions that wait."""

from typing import NamedTuple

from service.commands.status.section import Problem, Reader, Section
from service.version import build

# Seconds from which a figure is a problem.
STANDBY, SILENT = 5, 120


class Wait(NamedTuple):
    process: int
    name: str
    # lock, or SyncRep: a synchronous standby.
    waits_for: str
    seconds: float
    # Process id, name and state of the sessions that hold the lock.
    blocked_by: list[str]


def read_processes(reader: Reader) -> Section:
    web = reader.count("web")
    workers = [process for process in reader.processes if process.program == "worker"]
    metrics: dict[str, float] = {"web_processes": web, "workers": len(workers)}
    lines, problems = [], []
    if not web:
        text = "no web process is connected, so no request is answered"
        problems.append(Problem(text, "start web"))
    if workers:
        metrics["worker_silent_seconds"] = min(worker.silent_seconds for worker in workers)
    else:
        text = "no worker is connected, so deliveries wait and nothing is pruned"
        problems.append(Problem(text, "start a worker"))
    for process in reader.processes:
        text = (
            f"{process.process} version {process.version}, {process.connections} connections"
            f" since {process.connected_at}, last statement {process.silent_seconds:.1f} s ago"
        )
        lines.append((process.program, text))
        if process.program == "worker" and process.silent_seconds > SILENT:
            silent = f"has not used the database for {process.silent_seconds:.0f} s"
            remedy = "look into its log, or restart it"
            problems.append(Problem(f"the worker {process.process} {silent}", remedy))
        if process.version != build():
            runs = f"runs version {process.version}, and this is {build()}"
            text = f"the {process.program} process {process.process} {runs}"
            problems.append(Problem(text, "restart it"))
    return Section({"processes": reader.processes}, metrics, problems, lines)


def read_waits(reader: Reader) -> Section:
    found = reader.rows(Wait, "status/waits")
    metrics: dict[str, float] = {}
    lines, problems = [], []
    for kind in ("lock", "SyncRep"):
        seconds = [wait.seconds for wait in found if wait.waits_for == kind]
        metrics[f"waiting_for_{kind.lower()}"] = len(seconds)
        metrics[f"longest_wait_for_{kind.lower()}_seconds"] = max(seconds, default=0)
    for wait in found:
        session = f"{wait.process} {wait.name}"
        holders = f" of {', '.join(wait.blocked_by)}" if wait.blocked_by else ""
        text = f"{session} for {wait.waits_for}{holders}, {wait.seconds:.1f} s"
        lines.append(("waiting", text))
        # The section of locks has those who hold one.
        if wait.waits_for == "SyncRep" and wait.seconds > STANDBY:
            text = f"{session} has waited {wait.seconds:.0f} s for a synchronous standby"
            problems.append(Problem(text))
    return Section({"waits": found}, metrics, problems, lines)
