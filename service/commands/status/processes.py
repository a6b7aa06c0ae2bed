"""Sections of ``status``: web processes and workers, their counters, and sessions that wait."""

from typing import NamedTuple

from service.commands.status.section import SILENT, Process, Reader, Section
from service.database.remedies import CORRUPTED
from service.process import own_host
from service.version import build, numbers_of

# A process that met corruption within this many seconds is a problem.
HOUR = 3600
# A session that waits longer than this many seconds for a standby is a problem.
STANDBY = 5
SILENT_REMEDY = "its log says why; end a frozen process with kill -9, and systemd starts another"
GONE_REMEDY = (
    "start its host again; if the host was a container, or the row came from a backup, this line"
    " disappears an hour after the last sign of life"
)


class Count(NamedTuple):
    # The name and the labels, as Prometheus writes them.
    series: str
    value: float
    # Seconds since the counter last grew.
    seconds: float


class Wait(NamedTuple):
    process: int
    name: str
    # lock, or SyncRep: a synchronous standby.
    waits_for: str
    seconds: float
    # Process id, name and state of the sessions that hold the lock.
    blocked_by: list[str]


def read_processes(reader: Reader) -> Section:
    section = Section({"processes": reader.processes})
    if not reader.knows_processes:
        # Another section says why. Do not report that no process runs, because some may.
        return section
    web, workers = reader.count("web"), reader.count("worker")
    silent = [process for process in reader.processes if process.silent_seconds > SILENT]
    # A silent process is frozen if its host gives other signs of life. Otherwise the host is gone,
    # like a container that was replaced or the host of a restored backup.
    alive = {host_of(process) for process in reader.processes if process not in silent}
    frozen = [process for process in silent if host_of(process) in alive]
    section.metrics = {
        "web_processes": web,
        "workers": workers,
        "processes_silent": len(frozen),
    }
    if not web:
        section.problem("no web process is running, so no request is answered", "start web")
    if not workers:
        text = "no worker is running, so deliveries wait and nothing is pruned"
        section.problem(text, "start a worker")
    for process in reader.processes:
        section.line(process.program, process_in_words(process))
        if process in silent:
            remedy = SILENT_REMEDY if process in frozen else GONE_REMEDY
            section.problem(silence_in_words(process), remedy)
        elif process.version != build():
            text = (
                f"the {process.program} process {process.process} runs version {process.version},"
                f" but this command is {build()}"
            )
            # During an upgrade, two releases serve side by side. Only a process that an operator
            # has forgotten to restart after the upgrade of its host is a problem.
            is_own = host_of(process) == own_host()
            if is_own and numbers_of(process.version) <= numbers_of(build()):
                section.problem(text, "restart it")
            else:
                section.notes.append(text)
    return section


def host_of(process: Process) -> str:
    return process.process.rpartition(":")[0]


def process_in_words(process: Process) -> str:
    speedups = {True: " speedups on,", False: " speedups off,", None: ""}[process.speedups]
    return (
        f"{process.process} version {process.version} since {process.started_at},{speedups}"
        f" {process.connections} connections, last sign of life {process.silent_seconds:.1f} s ago"
    )


def silence_in_words(process: Process) -> str:
    return (
        f"the {process.program} process {process.process} has given no sign of life for"
        f" {process.silent_seconds:.0f} s"
    )


def read_counters(reader: Reader) -> Section:
    section = Section({})
    corrupted = 0
    for series, value, seconds in reader.rows(Count, "status/counters"):
        section.metrics[series] = value
        if series.startswith("corruption_total") and seconds < HOUR:
            corrupted += 1
            sqlstate = series.split('"')[1]
            section.problem(
                f"an index or a table is corrupted ({sqlstate}, last met {seconds / 60:.0f} min"
                " ago; the log has the error)",
                CORRUPTED,
            )
    section.metrics["database_corrupted"] = corrupted
    return section


def read_waits(reader: Reader) -> Section:
    found = reader.rows(Wait, "status/waits")
    section = Section({"waits": found})
    for kind in ("lock", "SyncRep"):
        seconds = [wait.seconds for wait in found if wait.waits_for == kind]
        section.metrics[f"waiting_for_{kind.lower()}"] = len(seconds)
        section.metrics[f"longest_wait_for_{kind.lower()}_seconds"] = max(seconds, default=0)
    for wait in found:
        session = f"{wait.process} {wait.name}"
        holders = f" of {', '.join(wait.blocked_by)}" if wait.blocked_by else ""
        section.line("waiting", f"{session} for {wait.waits_for}{holders}, {wait.seconds:.1f} s")
        # The section of locks reports the sessions that hold a lock.
        if wait.waits_for == "SyncRep" and wait.seconds > STANDBY:
            section.problem(f"{session} has waited {wait.seconds:.0f} s for a synchronous standby")
    return section
