"""Commands that repair webhooks. Owners and admins create and delete webhooks over HTTP."""

import json
from datetime import datetime
from typing import NamedTuple

import click

from service.api.deliveries import Redelivered
from service.api.webhooks import BY_OPERATOR, ListedWebhook, MatchedWebhook
from service.callers import OPERATOR
from service.commands.base import (
    current_settings,
    echo_ids,
    echo_rows,
    json_option,
    one_row,
    query,
    slug_argument,
    timestamp,
)
from service.commands.workspaces import find_workspace
from service.output import echo_secret
from service.values.types import camel_case, uuid_or_nil
from service.web.safe_writes import ANY_VERSION
from service.webhooks.secrets import RotatedWebhook, derive_secret, fingerprint


class WebhookLine(NamedTuple):
    id: str
    # enabled, failing or disabled.
    state: str
    url: str
    # Types of events. Null means all; lines then show the word all.
    events: list[str] | None
    failing_since: str | None
    disabled_reason: str | None
    # The number of waiting deliveries.
    waiting: int
    # Null if nothing waits, or while the webhook is disabled.
    next_attempt_at: str | None
    backoff_until: str | None
    last_attempt_at: str | None
    # A status, or the error of an attempt without one.
    last_status: str | None


class FoundWebhook(NamedTuple):
    workspace_id: str
    id: str


class FoundDelivery(NamedTuple):
    workspace_id: str
    webhook_id: str
    id: str


class ListedAttempt(NamedTuple):
    """One attempt. A delivery without an attempt has one row, in which the attempt is null."""

    id: str
    type: str
    state: str
    number: int | None
    at: str | None
    status: int | None
    milliseconds: int | None
    error: str | None
    answer: str | None
    next_attempt_at: str | None
    webhook_id: str
    # The id of the task, meeting or suggestion.
    about: str | None


webhook = click.Group("webhook")
id_argument = click.argument("id")


@webhook.command("list")
@slug_argument
@json_option
def list_webhooks(slug: str, as_json: bool) -> None:
    """List the webhooks of the workspace SLUG, oldest first.

    Columns: id, state, URL, events, failing since, why disabled, number of waiting deliveries,
    next attempt, end of the pause after failures, last attempt, status or error of that attempt.
    """
    workspace_id = find_workspace(slug).id
    lines = []
    for row in query(ListedWebhook, "webhooks/list", workspace_id=workspace_id, **OPERATOR):
        shown = json.loads(row.body)
        if shown["events"] is None and not as_json:
            shown["events"] = ["all"]
        names = WebhookLine._fields[: -len(row[1:])]
        shared = [shown[camel_case(name)] for name in names]
        lines.append(WebhookLine._make([*shared, *row[1:]]))
    echo_rows(lines, as_json=as_json)


def find_webhook(id: str) -> FoundWebhook:
    return one_row(FoundWebhook, "webhooks/find", f"there is no webhook {id}", id=uuid_or_nil(id))


def values_of(id: str) -> dict[str, object]:
    """Return the parameters of a statement about a webhook; no role is checked for an operator."""
    return {**OPERATOR, **find_webhook(id)._asdict()}


@webhook.command("rotate")
@id_argument
def rotate(id: str) -> None:
    """Give the webhook ID a new secret; prints the secret.

    For 24 hours, events are signed with the old secret as well.
    """
    key = current_settings().require_webhook_key()
    values = {**values_of(id), "key_fingerprint": fingerprint(key)}
    row = one_row(RotatedWebhook, "webhooks/rotate", f"there is no webhook {id}", **values)
    echo_secret(
        derive_secret(key, *row),
        "the webhook has a new secret that nobody has, and the old one is valid for 24 hours more:"
        " rotate again, which ends the old one immediately",
    )


@webhook.command("disable")
@id_argument
def disable(id: str) -> None:
    """Stop sending to the webhook ID; prints the id.

    Waiting deliveries stay until the webhook is enabled again. Events that occur while the webhook
    is disabled are never sent to it.
    """
    set_enabled(id, False)


@webhook.command("enable")
@id_argument
def enable(id: str) -> None:
    """Send to the webhook ID again; prints the id.

    The deliveries that wait are sent first.
    """
    set_enabled(id, True)


def set_enabled(id: str, enabled: bool) -> None:
    values = {**values_of(id), "changes": "{}", "reason": BY_OPERATOR, "versions": ANY_VERSION}
    absent = f"there is no webhook {id}"
    click.echo(one_row(MatchedWebhook, "webhooks/update", absent, **values, enabled=enabled).id)


@webhook.command("deliveries")
@click.argument("id", required=False)
@click.option("--about", metavar="ID", help="Only events about this task, meeting or suggestion.")
@click.option(
    "--limit",
    type=click.IntRange(1, 10000),
    default=50,
    show_default=True,
    help="The most deliveries to list.",
)
@json_option
def list_deliveries(id: str | None, about: str | None, limit: int, as_json: bool) -> None:
    """List the latest deliveries, newest first.

    Lists the deliveries of one webhook (ID), or of one object (--about). Each line is an attempt,
    or a delivery that has not been attempted yet.

    Columns: delivery, event, state, attempt, when, status, milliseconds, error, response body, next
    attempt, webhook, id of the task, meeting or suggestion.
    """
    if id is None and about is None:
        raise click.UsageError("give the ID of a webhook, or --about the id of a task")
    webhook_id = None if id is None else find_webhook(id).id
    about = about and about.lower()
    rows = query(ListedAttempt, "deliveries/attempts", id=webhook_id, about=about, limit=limit)
    echo_rows(rows, as_json=as_json)


@webhook.command("redeliver")
@id_argument
@click.option(
    "--failed", is_flag=True, help="Attempt all failed deliveries of the webhook ID again."
)
@click.option(
    "--since",
    type=timestamp,
    metavar="TIMESTAMP",
    help="With --failed: only deliveries that failed since this time, like 2026-11-20T11:00:00Z.",
)
def redeliver(id: str, failed: bool, since: datetime | None) -> None:
    """Attempt the delivery ID again; prints the id.

    The worker posts the same bytes again. With --failed, ID is the id of a webhook: the worker
    attempts all failed deliveries of this webhook again, except those of a type that the webhook no
    longer gets, and the command prints their ids. If the webhook is disabled, the deliveries wait
    until it is enabled.
    """
    if failed:
        echo_ids("deliveries/redeliver_failed", id=find_webhook(id).id, since=since)
    elif since is not None:
        raise click.UsageError("--since needs --failed")
    else:
        absent = f"there is no delivery {id}"
        found = one_row(FoundDelivery, "deliveries/find", absent, id=uuid_or_nil(id))
        values = {**OPERATOR, **found._asdict()}
        click.echo(one_row(Redelivered, "deliveries/redeliver", absent, **values).id)
