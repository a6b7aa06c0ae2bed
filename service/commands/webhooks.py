"""Commands for incidents of webhooks; owners and admins create and delete them by the API."""

import json
from typing import NamedTuple

import click

from service.commands.base import (
    current_settings,
    echo_rows,
    json_option,
    one_row,
    query,
    row_or_none,
)
from service.commands.deliveries import list_deliveries, redeliver
from service.commands.lookup import find_webhook, find_workspace
from service.webhooks import secrets
from service.webhooks.rows import BY_OPERATOR, NO_USER, ListedWebhook, MatchedWebhook


class WebhookLine(NamedTuple):
    """The line of a webhook in the list."""

    id: str
    # enabled, failing or disabled.
    state: str
    url: str
    # Types of events, or all.
    events: list[str]
    failing_since: str | None
    disabled_reason: str | None
    # How many deliveries wait.
    waiting: int
    # Null if nothing waits, or while the webhook is disabled.
    next_attempt_at: str | None
    backoff_until: str | None
    last_attempt_at: str | None
    # A status, or the error of an attempt without one.
    last_status: str | None


@click.group("webhook")
def webhook() -> None:
    """List webhooks and deliveries, deliver again, stop and resume, rotate secrets."""


webhook.add_command(list_deliveries)
webhook.add_command(redeliver)


@webhook.command("list")
@click.argument("slug")
@json_option
def list_webhooks(slug: str, as_json: bool) -> None:
    """List the webhooks of the workspace SLUG, oldest first.

    Columns: id, state, URL, events, failing since, why disabled, number of waiting deliveries,
    next attempt, backs off until, last attempt, its status or error.
    """
    workspace_id = find_workspace(slug).id
    rows = query(ListedWebhook, "webhooks/list", workspace_id=workspace_id, user_id=NO_USER)
    echo_rows(map(line_of, rows), as_json=as_json)


def line_of(row: ListedWebhook) -> WebhookLine:
    """Join what the API shows of a webhook and the columns for operators."""
    shown = json.loads(row.body)
    return WebhookLine(
        id=shown["id"],
        state=shown["state"],
        url=shown["url"],
        events=shown["events"] or ["all"],
        failing_since=shown["failingSince"],
        disabled_reason=shown["disabledReason"],
        waiting=shown["waiting"],
        next_attempt_at=shown["nextAttemptAt"],
        backoff_until=row.backoff_until,
        last_attempt_at=row.last_attempt_at,
        last_status=row.last_status,
    )


def values_of(id: str) -> dict[str, object]:
    """Return what names a webhook in a statement, which then asks for no role.

    Raises ClickException if there is no webhook with this id.
    """
    found = find_webhook(id)
    return {"workspace_id": found.workspace_id, "id": found.id, "user_id": NO_USER}


@webhook.command("rotate")
@click.argument("id")
def rotate(id: str) -> None:
    """Give the webhook ID a new secret; prints the secret. The old one signs for 24 hours too."""
    key = current_settings().require_webhook_key()
    rotated = secrets.rotate(row_or_none, key, **values_of(id))
    if rotated is None:
        raise click.ClickException(f"there is no webhook {id}")
    click.echo(rotated.secret)


@webhook.command("disable")
@click.argument("id")
def disable(id: str) -> None:
    """Stop sending to the webhook ID until it is enabled; prints the id.

    Due deliveries wait. Events that occur while the webhook is disabled are never sent to it.
    """
    click.echo(set_enabled(id, False))


@webhook.command("enable")
@click.argument("id")
def enable(id: str) -> None:
    """Send to the webhook ID again, its waiting deliveries first; prints the id."""
    click.echo(set_enabled(id, True))


def set_enabled(id: str, enabled: bool) -> str:
    """Enable or disable a webhook and return its id."""
    change = {"enabled": enabled, "changes": "{}", "reason": BY_OPERATOR, "versions": None}
    absent = f"there is no webhook {id}"
    return one_row(MatchedWebhook, "webhooks/update", absent, **values_of(id), **change).id
