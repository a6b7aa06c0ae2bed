"""The three forms of ``task-service status``: a page to read, JSON, and Prometheus metrics."""

import json
from collections.abc import Iterator
from typing import cast

from service.commands.base import printable
from service.commands.status.figures import Figures
from service.fields import camel_case

STATES = "enabled", "failing", "disabled"


def page(figures: Figures, problems: list[str]) -> Iterator[str]:
    """Yield the lines of the page: a name, and figures; at the end each problem in a line."""
    server, deliveries = figures.server, figures.deliveries
    yield line("version", figures.version)
    yield line(
        "database",
        f"{server.name} on {figures.host}, PostgreSQL {server.version}, {megabytes(server.bytes)}",
    )
    for table in figures.tables:
        yield line("table", f"{table.name} {megabytes(table.bytes)}")
    yield line(
        "migrations",
        f"{figures.applied} applied, {len(figures.pending)} pending, {len(figures.newer)} newer",
    )
    yield line("clock", f"{figures.clock_ahead_seconds:+.3f} s against this host")
    yield line(
        "connections",
        f"{server.connections_used} used of {server.connections_allowed} allowed;"
        f" the processes may open {figures.connections_needed}",
    )
    yield line("transactions", f"the oldest runs for {server.oldest_transaction_seconds:.1f} s")
    for process in figures.processes:
        yield line(
            process.program,
            f"{process.process} version {process.version}, {process.connections} connections"
            f" since {process.connected_at}, last statement {process.silent_seconds:.1f} s ago",
        )
    for wait in figures.waits:
        holders = f" of {', '.join(wait.blocked_by)}" if wait.blocked_by else ""
        yield line(
            "waiting",
            f"{wait.process} {wait.name} for {wait.waits_for}{holders}, {wait.seconds:.1f} s",
        )
    yield line(
        "deliveries",
        f"{deliveries.waiting} waiting, {deliveries.overdue} overdue"
        f" (the oldest by {deliveries.oldest_overdue_seconds:.0f} s), {deliveries.failed} failed",
    )
    states = (f"{figures.count_webhooks(state)} {state}" for state in STATES)
    yield line("webhooks", ", ".join(states))
    for key in figures.missing_keys:
        yield line("missing key", f"{key.key_fingerprint}: {key.webhooks} webhooks wait")
    for oldest in figures.oldest:
        yield line(
            "oldest",
            f"{oldest.kind} {oldest.seconds / 3600:.1f} h,"
            f" pruned after {oldest.kept_seconds // 3600} h",
        )
    for problem in problems:
        yield line("PROBLEM", problem)


def line(name: str, text: str) -> str:
    """Return a line of the page."""
    return f"{name:<14}{printable(text)}"


def megabytes(size: int) -> str:
    """Return a size in MiB, for the page."""
    return f"{size / 2**20:.1f} MiB"


def document(figures: Figures, problems: list[str]) -> str:
    """Return all figures and problems as a JSON object."""
    return json.dumps({**cast(dict[str, object], members(figures)), "problems": problems}, indent=1)


def members(value: object) -> object:
    """Return rows as dicts with camelCase names, at every depth."""
    if isinstance(value, list):
        return [members(item) for item in value]
    if isinstance(value, tuple):
        columns: dict[str, object] = value._asdict()  # type: ignore[attr-defined]
        return {camel_case(name): members(item) for name, item in columns.items()}
    return value


def metrics(figures: Figures | None, problems: list[str]) -> Iterator[str]:
    """Yield a line for each number, as Prometheus' textfile collector reads them.

    Without figures, ``task_service_up`` alone says that the database does not answer.
    """
    yield f"task_service_up {int(figures is not None)}"
    yield f"task_service_problems {len(problems)}"
    if figures is None:
        return
    for name, number in numbers(figures).items():
        yield f"task_service_{name} {number:.15g}"


def numbers(figures: Figures) -> dict[str, float]:
    """Return all figures that are one number."""
    server, deliveries = figures.server, figures.deliveries
    workers = [process for process in figures.processes if process.program == "worker"]
    named: dict[str, float] = {
        "migrations_pending": len(figures.pending),
        "migrations_newer": len(figures.newer),
        "clock_ahead_seconds": figures.clock_ahead_seconds,
        "database_bytes": server.bytes,
        "connections_used": server.connections_used,
        "connections_allowed": server.connections_allowed,
        "connections_needed": figures.connections_needed,
        "oldest_transaction_seconds": server.oldest_transaction_seconds,
        "web_processes": figures.count("web"),
        "workers": figures.count("worker"),
        "deliveries_waiting": deliveries.waiting,
        "deliveries_failed": deliveries.failed,
        "deliveries_overdue": deliveries.overdue,
        "oldest_overdue_delivery_seconds": deliveries.oldest_overdue_seconds,
    }
    if workers:
        named["worker_silent_seconds"] = min(worker.silent_seconds for worker in workers)
    for kind in ("lock", "SyncRep"):
        seconds = [wait.seconds for wait in figures.waits if wait.waits_for == kind]
        named[f"waiting_for_{kind.lower()}"] = len(seconds)
        named[f"longest_wait_for_{kind.lower()}_seconds"] = max(seconds, default=0)
    for state in STATES:
        named[f"webhooks_{state}"] = figures.count_webhooks(state)
    named["webhooks_without_key"] = sum(key.webhooks for key in figures.missing_keys)
    for oldest in figures.oldest:
        named[f"oldest_{oldest.kind.replace(' ', '_')}_seconds"] = oldest.seconds
    return named
