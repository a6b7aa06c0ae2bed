"""The figures of ``task-service status``, each a row of a statement."""

from time import time
from typing import NamedTuple

from psycopg import errors

from service.commands.base import UNMIGRATED
from service.commands.migrate import compare
from service.process import version
from service.settings import Settings
from service.statements import Connection, Row
from service.webhooks.secrets import MissingKey, fingerprints


class Server(NamedTuple):
    """The row of the server and the database."""

    name: str
    version: str
    # True for a standby, which takes no writes.
    standby: bool
    # A Unix time.
    clock: float
    bytes: int
    # Connections of all databases; those reserved for superusers are not counted.
    connections_used: int
    connections_allowed: int
    oldest_transaction_seconds: float


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


class Deliveries(NamedTuple):
    """The row that counts the deliveries; one is overdue a minute after it became due."""

    waiting: int = 0
    failed: int = 0
    overdue: int = 0
    oldest_overdue_seconds: float = 0


class Webhook(NamedTuple):
    """The row of a webhook."""

    id: str
    workspace: str
    # enabled, failing or disabled.
    state: str
    failing_since: str | None
    failing_seconds: float
    disabled_reason: str | None


class Oldest(NamedTuple):
    """The row of the oldest row of a kind that the worker prunes."""

    kind: str
    seconds: float
    # The age at which the worker prunes it.
    kept_seconds: int


class Table(NamedTuple):
    """The row of a table's size with its indexes."""

    name: str
    bytes: int


class Figures(NamedTuple):
    """All figures; the last ones are empty as long as migrations are pending."""

    version: str
    # The address of the server as the connection has it.
    host: str
    server: Server
    # Seconds by which the server's clock is ahead of this host's clock.
    clock_ahead_seconds: float
    applied: int
    pending: list[str]
    newer: list[str]
    # How many connections the running processes may open together, by the settings of this host.
    connections_needed: int
    processes: list[Process]
    waits: list[Wait]
    tables: list[Table]
    deliveries: Deliveries
    webhooks: list[Webhook]
    # Empty without WEBHOOK_KEY: the processes that have the key may run on another host.
    missing_keys: list[MissingKey]
    oldest: list[Oldest]
    # The figures that are missing because a table is locked.
    locked: list[str]

    def count(self, program: str) -> int:
        """Return how many processes of a program have a connection."""
        return sum(process.program == program for process in self.processes)

    def count_webhooks(self, state: str) -> int:
        """Return how many webhooks are in a state."""
        return sum(webhook.state == state for webhook in self.webhooks)


class Reader:
    """Reads rows; notes the statements whose tables are locked."""

    def __init__(self, connection: Connection) -> None:
        connection.run("status/configure", {})
        self.connection = connection
        self.migrations = compare(connection)
        self.locked: list[str] = []

    def rows(self, kind: type[Row], name: str, **values: object) -> list[Row]:
        """Return all rows; none if a table is locked, or missing because migrations are pending."""
        try:
            return self.connection.rows(kind, name, values)
        except errors.LockNotAvailable:
            self.locked.append(name.partition("/")[2])
        except UNMIGRATED:
            if not self.migrations.pending:
                raise
        return []


def read(connection: Connection, settings: Settings) -> Figures:
    """Read all figures; raises psycopg.Error."""
    reader = Reader(connection)
    before = time()
    (server,) = reader.rows(Server, "status/server")
    clock_ahead = server.clock - (before + time()) / 2
    processes = reader.rows(Process, "status/processes")
    web = sum(process.program == "web" for process in processes)
    running = max(web, settings.web_concurrency) + max(len(processes) - web, 1)
    return Figures(
        version=version(),
        host=f"{connection.info.host}:{connection.info.port}",
        server=server,
        clock_ahead_seconds=clock_ahead,
        applied=reader.migrations.applied,
        pending=reader.migrations.pending,
        newer=reader.migrations.newer,
        connections_needed=running * settings.web_threads,
        processes=processes,
        waits=reader.rows(Wait, "status/waits"),
        tables=reader.rows(Table, "status/tables"),
        deliveries=next(iter(reader.rows(Deliveries, "status/deliveries")), Deliveries()),
        webhooks=reader.rows(Webhook, "status/webhooks"),
        missing_keys=reader.rows(MissingKey, "status/missing_keys", keys=fingerprints(settings))
        if settings.webhook_keys
        else [],
        oldest=reader.rows(Oldest, "status/oldest", keep=settings.webhook_keep),
        locked=reader.locked,
    )
