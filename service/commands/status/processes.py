"""Sections of ``status``: web processes and workers, and sessions that wait."""

from collections.abc import Iterator
from typing import NamedTuple

from service.commands.status.section import Line, Metric, Reader, Section
from service.version import build

# Seconds from which a figure is a problem.
WAITING, SILENT = 5, 120


class Process(NamedTuple):
    """The row of a web process or a worker that has a connection."""

    # web or worker.
    program: str
    version: str
    # Host and process id, like host7:4711.
    process: str
    connections: int
    connected_at: str
    # Since the last statement began or ended.
    silent_seconds: float


class Wait(NamedTuple):
    """The row of a session that waits."""

    process: int
    name: str
    # lock, or SyncRep: a synchronous standby.
    waits_for: str
    seconds: float
    # Process id, name and state of the sessions that hold the lock.
    blocked_by: list[str]


class Processes(Section):
    """The web processes and workers that are connected."""

    def __init__(self, reader: Reader) -> None:
        self.processes = reader.rows(Process, "status/processes")
        self._workers = [process for process in self.processes if process.program == "worker"]

    def count(self, program: str) -> int:
        """Return how many processes of a program are connected."""
        return sum(process.program == program for process in self.processes)

    def lines(self) -> Iterator[Line]:
        for process in self.processes:
            yield (
                process.program,
                f"{process.process} version {process.version}, {process.connections} connections"
                f" since {process.connected_at}, last statement {process.silent_seconds:.1f} s ago",
            )

    def metrics(self) -> Iterator[Metric]:
        yield "web_processes", self.count("web")
        yield "workers", self.count("worker")
        if self._workers:
            yield "worker_silent_seconds", min(worker.silent_seconds for worker in self._workers)

    def problems(self) -> Iterator[str]:
        if not self.count("web"):
            yield "no web process is connected: no request is answered; start web"
        if not self._workers:
            yield "no worker is connected: deliveries wait and nothing is pruned; start a worker"
        for worker in self._workers:
            if worker.silent_seconds > SILENT:
                yield (
                    f"the worker {worker.process} has not used the database for"
                    f" {worker.silent_seconds:.0f} s: look into its log, or restart it"
                )
        for process in self.processes:
            if process.version != build():
                yield (
                    f"the {process.program} process {process.process} runs version"
                    f" {process.version}, and this is {build()}: restart it"
                )


class Waits(Section):
    """Sessions that wait for a lock or for a synchronous standby."""

    def __init__(self, reader: Reader) -> None:
        self.waits = reader.rows(Wait, "status/waits")

    def lines(self) -> Iterator[Line]:
        for wait in self.waits:
            holders = f" of {', '.join(wait.blocked_by)}" if wait.blocked_by else ""
            yield (
                "waiting",
                f"{wait.process} {wait.name} for {wait.waits_for}{holders}, {wait.seconds:.1f} s",
            )

    def metrics(self) -> Iterator[Metric]:
        for kind in ("lock", "SyncRep"):
            seconds = [wait.seconds for wait in self.waits if wait.waits_for == kind]
            yield f"waiting_for_{kind.lower()}", len(seconds)
            yield f"longest_wait_for_{kind.lower()}_seconds", max(seconds, default=0)

    def problems(self) -> Iterator[str]:
        for wait in self.waits:
            if wait.seconds > WAITING:
                cause = (
                    "for a synchronous standby"
                    if wait.waits_for == "SyncRep"
                    else f"for a lock of {', '.join(wait.blocked_by) or 'a session that has ended'}"
                )
                yield f"{wait.process} {wait.name} has waited {wait.seconds:.0f} s {cause}"
