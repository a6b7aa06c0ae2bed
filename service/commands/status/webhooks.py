"""Sections of ``status``: deliveries, webhooks with their keys, and rows to prune."""

from typing import NamedTuple

from service.api.webhooks import BY_MANAGER, BY_OPERATOR
from service.commands.status.section import Reader, Section
from service.webhooks.secrets import MissingKey, fingerprints

# A webhook that has failed for more than FAILING seconds is a problem, and so is a row that the
# worker should have pruned more than UNPRUNED seconds ago.
FAILING, UNPRUNED = 3600, 3600
STATES = "enabled", "failing", "disabled"
# The reasons of webhooks that a person has disabled.
ON_PURPOSE = BY_OPERATOR, BY_MANAGER


class Delivered(NamedTuple):
    """The numbers of deliveries. A delivery is overdue a minute after it became due."""

    waiting: int = 0
    failed: int = 0
    overdue: int = 0
    oldest_overdue_seconds: float = 0


class WebhookState(NamedTuple):
    id: str
    workspace: str
    # enabled, failing or disabled.
    state: str
    failing_since: str | None
    failing_seconds: float
    disabled_reason: str | None


class OldestRow(NamedTuple):
    kind: str
    seconds: float
    # The age at which the worker prunes it.
    kept_seconds: int


def read_deliveries(reader: Reader) -> Section:
    count = next(iter(reader.rows(Delivered, "status/deliveries")), Delivered())
    section = Section(
        {"deliveries": count},
        {
            "deliveries_waiting": count.waiting,
            "deliveries_failed": count.failed,
            "deliveries_overdue": count.overdue,
            "oldest_overdue_delivery_seconds": count.oldest_overdue_seconds,
        },
    )
    oldest = f"the oldest by {count.oldest_overdue_seconds:.0f} s"
    text = f"{count.waiting} waiting, {count.overdue} overdue ({oldest}), {count.failed} failed"
    section.line("deliveries", text)
    if count.overdue:
        text = f"{count.overdue} deliveries are overdue, {oldest}"
        section.problem(text, "is a worker with WEBHOOK_KEY running?")
    return section


def read_webhooks(reader: Reader) -> Section:
    found = reader.rows(WebhookState, "status/webhooks")
    counts = {state: sum(webhook.state == state for webhook in found) for state in STATES}
    metrics = {f"webhooks_{state}": count for state, count in counts.items()}
    section = Section({"webhooks": found}, {**metrics})
    section.line("webhooks", ", ".join(f"{count} {state}" for state, count in counts.items()))
    for webhook in found:
        name = f"webhook {webhook.id} of {webhook.workspace}"
        if webhook.state == "disabled" and webhook.disabled_reason not in ON_PURPOSE:
            text = f"{name} is disabled: {webhook.disabled_reason}"
            section.problem(text, "enable or delete it")
        if webhook.state == "failing" and webhook.failing_seconds > FAILING:
            text = f"{name} has failed since {webhook.failing_since}"
            section.problem(text, "the command webhook deliveries says why")
    return section


def read_keys(reader: Reader) -> Section:
    missing: list[MissingKey] = []
    # Without WEBHOOK_KEY, report nothing: the processes that have the key may run on another host.
    if reader.settings.webhook_keys:
        listed = fingerprints(reader.settings)
        missing = reader.rows(MissingKey, "webhooks/missing_keys", keys=listed)
    waiting = sum(key.webhooks for key in missing)
    section = Section({"missing_keys": missing}, {"webhooks_without_key": waiting})
    for key in missing:
        section.line("missing key", f"{key.key_fingerprint}: {key.webhooks} webhooks wait")
        remedy = "add that key at the end of WEBHOOK_KEY, or rotate the secrets of these webhooks"
        section.problem(str(key), remedy, "tolerable")
    return section


def read_oldest(reader: Reader) -> Section:
    found = reader.rows(OldestRow, "status/oldest", keep=reader.settings.webhook_keep)
    section = Section({"oldest": found})
    for kind, seconds, kept_seconds in found:
        hours, kept = seconds / 3600, kept_seconds // 3600
        section.line("oldest", f"{kind} {hours:.1f} h, pruned after {kept} h")
        section.metrics[f"oldest_{kind.replace(' ', '_')}_seconds"] = seconds
        if seconds > kept_seconds + UNPRUNED:
            late = f"is {hours:.0f} h old, and should have been pruned after {kept} h"
            section.problem(f"the oldest {kind} {late}", "is a worker running?")
    return section
