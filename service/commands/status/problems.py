"""The checks of ``task-service status``: each problem is a sentence that names its remedy."""

from collections.abc import Iterator

from service.commands.status.figures import Figures

# Seconds from which a figure is a problem.
CLOCK, WAITING, SILENT, FAILING, UNPRUNED = 5, 5, 120, 3600, 3600
# The share of the allowed connections.
CONNECTIONS = 0.8


def problems(figures: Figures) -> Iterator[str]:
    """Yield all problems, the most urgent first."""
    if figures.server.standby:
        yield "the database is a standby and takes no writes: DATABASE_URL must name the primary"
    if figures.pending:
        yield f"migrations are pending: {', '.join(figures.pending)}; run the command migrate"
    if figures.newer:
        yield f"the database has migrations of a newer release: {', '.join(figures.newer)}"
    if figures.locked:
        yield f"a lock of a table hides the figures of {', '.join(figures.locked)}"
    yield from of_processes(figures)
    yield from of_connections(figures)
    yield from of_webhooks(figures)
    for oldest in figures.oldest:
        if oldest.seconds > oldest.kept_seconds + UNPRUNED:
            yield (
                f"the oldest {oldest.kind} is {oldest.seconds / 3600:.0f} h old, and should have"
                f" been pruned after {oldest.kept_seconds // 3600} h: is a worker running?"
            )
    if abs(figures.clock_ahead_seconds) > CLOCK:
        yield (
            f"the clock of the database differs by {figures.clock_ahead_seconds:.1f} s from that"
            " of this host: tokens and signatures expire at wrong times"
        )


def of_processes(figures: Figures) -> Iterator[str]:
    """Yield what is wrong with the web processes and workers."""
    if not figures.count("worker"):
        yield "no worker is connected: deliveries wait and nothing is pruned; start a worker"
    for process in figures.processes:
        if process.program == "worker" and process.silent_seconds > SILENT:
            yield (
                f"the worker {process.process} has not used the database for"
                f" {process.silent_seconds:.0f} s"
            )
        if process.version != figures.version:
            yield (
                f"the {process.program} process {process.process} runs version {process.version},"
                f" and this is {figures.version}: restart it"
            )


def of_connections(figures: Figures) -> Iterator[str]:
    """Yield what is wrong with connections and locks."""
    server = figures.server
    if server.connections_used > CONNECTIONS * server.connections_allowed:
        yield (
            f"{server.connections_used} of {server.connections_allowed} connections are in use:"
            " raise max_connections, or lower WEB_CONCURRENCY or WEB_THREADS"
        )
    if figures.connections_needed > server.connections_allowed:
        yield (
            f"the processes may open {figures.connections_needed} connections, and the server"
            f" allows {server.connections_allowed}: raise max_connections, or lower WEB_THREADS"
        )
    for wait in figures.waits:
        if wait.seconds > WAITING:
            cause = (
                "for a synchronous standby"
                if wait.waits_for == "SyncRep"
                else f"for a lock of {', '.join(wait.blocked_by) or 'a session that has ended'}"
            )
            yield f"{wait.process} {wait.name} has waited {wait.seconds:.0f} s {cause}"


def of_webhooks(figures: Figures) -> Iterator[str]:
    """Yield what is wrong with webhooks and deliveries."""
    late = figures.deliveries
    if late.overdue:
        yield (
            f"{late.overdue} deliveries are overdue, the oldest by"
            f" {late.oldest_overdue_seconds:.0f} s: is a worker with WEBHOOK_KEY running?"
        )
    for key in figures.missing_keys:
        yield (
            f"WEBHOOK_KEY does not list the key {key.key_fingerprint}: {key.webhooks} webhook(s)"
            f" wait, {key.example} among them; add that key at the end, or rotate their secrets"
        )
    for webhook in figures.webhooks:
        name = f"webhook {webhook.id} of {webhook.workspace}"
        if webhook.state == "disabled" and webhook.disabled_reason != "by an operator":
            yield f"{name} is disabled: {webhook.disabled_reason}; enable or remove it"
        if webhook.state == "failing" and webhook.failing_seconds > FAILING:
            yield f"{name} has failed since {webhook.failing_since}; webhook deliveries says why"
