"""Sections of ``status``: deliveries, webhooks with their keys, and rows to prune."""

from typing import NamedTuple

from service.api.webhooks import BY_MANAGER, BY_OPERATOR
from service.commands.status.section import Problem, Reader, Section
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
    oldest = f"the oldest by {count.oldest_overdue_seconds:.0f} s"
    problems = []
    if count.overdue:
        remedy = "is a worker with WEBHOOK_KEY running?"
        problems.append(Problem(f"{count.overdue} deliveries are overdue, {oldest}", remedy))
    text = f"{count.waiting} waiting, {count.overdue} overdue ({oldest}), {count.failed} failed"
    return Section(
        figures={"deliveries": count},
        lines=[("deliveries", text)],
        metrics={
            "deliveries_waiting": count.waiting,
            "deliveries_failed": count.failed,
            "deliveries_overdue": count.overdue,
            "oldest_overdue_delivery_seconds": count.oldest_overdue_seconds,
        },
        problems=problems,
    )


def read_webhooks(reader: Reader) -> Section:
    found = reader.rows(WebhookState, "status/webhooks")
    counts = {state: sum(webhook.state == state for webhook in found) for state in STATES}
    problems = []
    for webhook in found:
        name = f"webhook {webhook.id} of {webhook.workspace}"
        if webhook.state == "disabled" and webhook.disabled_reason not in ON_PURPOSE:
            text = f"{name} is disabled: {webhook.disabled_reason}"
            problems.append(Problem(text, "enable or delete it"))
        if webhook.state == "failing" and webhook.failing_seconds > FAILING:
            text = f"{name} has failed since {webhook.failing_since}"
            problems.append(Problem(text, "the command webhook deliveries says why"))
    return Section(
        figures={"webhooks": found},
        lines=[("webhooks", ", ".join(f"{counts[state]} {state}" for state in STATES))],
        metrics={f"webhooks_{state}": counts[state] for state in STATES},
        problems=problems,
    )


def read_keys(reader: Reader) -> Section:
    missing: list[MissingKey] = []
    # Without WEBHOOK_KEY, report nothing: the processes that have the key may run on another host.
    if reader.settings.webhook_keys:
        listed = fingerprints(reader.settings)
        missing = reader.rows(MissingKey, "webhooks/missing_keys", keys=listed)
    return Section(
        figures={"missing_keys": missing},
        lines=[
            ("missing key", f"{key.key_fingerprint}: {key.webhooks} webhooks wait")
            for key in missing
        ],
        metrics={"webhooks_without_key": sum(key.webhooks for key in missing)},
        problems=[
            Problem(
                str(key),
                "add that key at the end of WEBHOOK_KEY, or rotate the secrets of these webhooks",
                "tolerable",
            )
            for key in missing
        ],
    )


def read_oldest(reader: Reader) -> Section:
    found = reader.rows(OldestRow, "status/oldest", keep=reader.settings.webhook_keep)
    lines, metrics, problems = [], {}, []
    for row in found:
        hours, kept = row.seconds / 3600, row.kept_seconds // 3600
        lines.append(("oldest", f"{row.kind} {hours:.1f} h, pruned after {kept} h"))
        metrics[f"oldest_{row.kind.replace(' ', '_')}_seconds"] = row.seconds
        if row.seconds > row.kept_seconds + UNPRUNED:
            late = f"is {hours:.0f} h old, and should have been pruned after {kept} h"
            problems.append(Problem(f"the oldest {row.kind} {late}", "is a worker running?"))
    return Section({"oldest": found}, metrics, problems, lines)
