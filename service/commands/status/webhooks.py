"""Sections of ``status``: deliveries, webhooks with their keys, and rows to prune."""

from collections.abc import Iterator
from typing import NamedTuple

from service.commands.status.section import Line, Metric, Reader, Section
from service.webhooks.rows import BY_MANAGER, BY_OPERATOR
from service.webhooks.secrets import MissingKey, fingerprints

# Seconds from which a figure is a problem.
FAILING, UNPRUNED = 3600, 3600
STATES = "enabled", "failing", "disabled"
# The reasons of a webhook that somebody has disabled.
ON_PURPOSE = BY_OPERATOR, BY_MANAGER


class Delivered(NamedTuple):
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


class OldestRow(NamedTuple):
    """The row of the oldest row of a kind that the worker prunes."""

    kind: str
    seconds: float
    # The age at which the worker prunes it.
    kept_seconds: int


class Deliveries(Section):
    """Deliveries by their state."""

    def __init__(self, reader: Reader) -> None:
        self.deliveries = next(iter(reader.rows(Delivered, "status/deliveries")), Delivered())

    def lines(self) -> Iterator[Line]:
        count = self.deliveries
        yield (
            "deliveries",
            f"{count.waiting} waiting, {count.overdue} overdue"
            f" (the oldest by {count.oldest_overdue_seconds:.0f} s), {count.failed} failed",
        )

    def metrics(self) -> Iterator[Metric]:
        yield "deliveries_waiting", self.deliveries.waiting
        yield "deliveries_failed", self.deliveries.failed
        yield "deliveries_overdue", self.deliveries.overdue
        yield "oldest_overdue_delivery_seconds", self.deliveries.oldest_overdue_seconds

    def problems(self) -> Iterator[str]:
        if self.deliveries.overdue:
            yield (
                f"{self.deliveries.overdue} deliveries are overdue, the oldest by"
                f" {self.deliveries.oldest_overdue_seconds:.0f} s: is a worker with WEBHOOK_KEY"
                " running?"
            )


class Webhooks(Section):
    """Webhooks by their state, and the keys that they need."""

    def __init__(self, reader: Reader) -> None:
        self.webhooks = reader.rows(Webhook, "status/webhooks")
        # Not read without WEBHOOK_KEY: the processes that have the key may run on another host.
        self.missing_keys: list[MissingKey] = []
        if reader.settings.webhook_keys:
            keys = fingerprints(reader.settings)
            self.missing_keys = reader.rows(MissingKey, "status/missing_keys", keys=keys)

    def lines(self) -> Iterator[Line]:
        yield "webhooks", ", ".join(f"{self.count(state)} {state}" for state in STATES)
        for key in self.missing_keys:
            yield "missing key", f"{key.key_fingerprint}: {key.webhooks} webhooks wait"

    def metrics(self) -> Iterator[Metric]:
        for state in STATES:
            yield f"webhooks_{state}", self.count(state)
        yield "webhooks_without_key", sum(key.webhooks for key in self.missing_keys)

    def problems(self) -> Iterator[str]:
        yield from self.key_problems()
        for webhook in self.webhooks:
            name = f"webhook {webhook.id} of {webhook.workspace}"
            if webhook.state == "disabled" and webhook.disabled_reason not in ON_PURPOSE:
                yield f"{name} is disabled: {webhook.disabled_reason}; enable or remove it"
            if webhook.state == "failing" and webhook.failing_seconds > FAILING:
                since = webhook.failing_since
                yield f"{name} has failed since {since}; webhook deliveries says why"

    def key_problems(self) -> Iterator[str]:
        """Yield the keys that webhooks need and this process does not have."""
        for key in self.missing_keys:
            yield (
                f"WEBHOOK_KEY does not list the key {key.key_fingerprint}: {key.webhooks}"
                f" webhook(s) wait, {key.example} among them; add that key at the end, or rotate"
                " their secrets"
            )

    def count(self, state: str) -> int:
        """Return how many webhooks are in a state."""
        return sum(webhook.state == state for webhook in self.webhooks)


class Oldest(Section):
    """The oldest rows that the worker prunes."""

    def __init__(self, reader: Reader) -> None:
        self.oldest = reader.rows(OldestRow, "status/oldest", keep=reader.settings.webhook_keep)

    def lines(self) -> Iterator[Line]:
        for row in self.oldest:
            hours, kept = row.seconds / 3600, row.kept_seconds // 3600
            yield "oldest", f"{row.kind} {hours:.1f} h, pruned after {kept} h"

    def metrics(self) -> Iterator[Metric]:
        for row in self.oldest:
            yield f"oldest_{row.kind.replace(' ', '_')}_seconds", row.seconds

    def problems(self) -> Iterator[str]:
        for row in self.oldest:
            if row.seconds > row.kept_seconds + UNPRUNED:
                yield (
                    f"the oldest {row.kind} is {row.seconds / 3600:.0f} h old, and should have"
                    f" been pruned after {row.kept_seconds // 3600} h: is a worker running?"
                )
