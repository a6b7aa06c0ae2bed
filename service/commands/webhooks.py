"""Commands for webhooks, which an operator configures as owners and admins do by the API."""

import json
from collections.abc import Iterable
from typing import NamedTuple

import click

from service.commands.base import (
    confirm,
    current_settings,
    echo_row,
    echo_rows,
    json_option,
    one_row,
    query,
    yes_option,
)
from service.commands.deliveries import list_deliveries, redeliver
from service.commands.lookup import find_webhook, find_workspace
from service.database.statements import Row
from service.webhooks import EVENT_TYPES
from service.webhooks.delivery import attempt
from service.webhooks.outbound import BlockedURL, NotPublic, resolve
from service.webhooks.rows import (
    BY_OPERATOR,
    OPERATOR,
    Claim,
    CreatedWebhook,
    ListedWebhook,
    MatchedWebhook,
    Numbered,
)
from service.webhooks.secrets import current_secret, derive_secret, fingerprint


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
    # How many deliveries are due.
    waiting: int
    # Null if nothing waits, or while the webhook is disabled.
    next_attempt_at: str | None
    backoff_until: str | None
    last_attempt_at: str | None
    # A status, or the error of an attempt without one.
    last_status: str | None


@click.group("webhook")
def webhook() -> None:
    """Create webhooks, list their deliveries, and deliver again."""


webhook.add_command(list_deliveries)
webhook.add_command(redeliver)


@webhook.command("create")
@click.argument("slug")
@click.argument("url")
@click.option(
    "--event",
    "events",
    multiple=True,
    type=click.Choice(EVENT_TYPES),
    help="Send this type of event; may be given several times.",
    show_default="all",
)
def create_webhook(slug: str, url: str, events: tuple[str, ...]) -> None:
    """Send the events of the workspace SLUG to URL; prints the webhook's id and its secret."""
    try:
        resolve(url, current_settings().webhook_allow)
    except NotPublic as error:
        allow = "to allow it, add its host or network to WEBHOOK_ALLOW of all processes"
        raise click.ClickException(f"URL {error}; {allow}") from None
    except BlockedURL as error:
        raise click.ClickException(f"URL {error}") from None
    for value in new_webhook(slug, url, events):
        click.echo(value)


def new_webhook(slug: str, url: str, events: Iterable[str]) -> tuple[str, str]:
    """Create a webhook; returns its id and its secret, which the database never stores."""
    key = current_settings().require_webhook_key()
    row = one_row(
        CreatedWebhook,
        "webhooks/create",
        f"the workspace {slug} has 20 webhooks, the maximum: remove one first",
        workspace_id=find_workspace(slug).id,
        user_id=OPERATOR,
        url=url,
        events=[*dict.fromkeys(events)],
        key_fingerprint=fingerprint(key),
    )
    return row.id, derive_secret(key, row.id, row.secret_number)


@webhook.command("list")
@click.argument("slug")
@json_option
def list_webhooks(slug: str, as_json: bool) -> None:
    """List the webhooks of the workspace SLUG, oldest first.

    Columns: id, state, URL, events, failing since, why disabled, number of waiting deliveries,
    next attempt, backs off until, last attempt, its status or error.
    """
    workspace_id = find_workspace(slug).id
    rows = query(ListedWebhook, "webhooks/list", workspace_id=workspace_id, user_id=OPERATOR)
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


def webhook_row(kind: type[Row], name: str, id: str, /, **values: object) -> Row:
    """Run a statement about one webhook, without asking for a role.

    Raises ClickException if there is no webhook with this id.
    """
    found = find_webhook(id)
    return one_row(
        kind,
        name,
        f"there is no webhook {id}",
        workspace_id=found.workspace_id,
        id=found.id,
        user_id=OPERATOR,
        **values,
    )


@webhook.command("ping")
@click.argument("id")
def ping(id: str) -> None:
    """Post a signed test event to the webhook ID; prints status, milliseconds, error and answer."""
    settings = current_settings()
    settings.require_webhook_key()
    target = webhook_row(Claim, "webhooks/target", id)
    outcome = attempt(target, settings, settings.webhook_timeout)
    echo_row((outcome.status, outcome.milliseconds, outcome.error, outcome.answer))
    if not outcome.success:
        raise SystemExit(1)


@webhook.command("rotate")
@click.argument("id")
def rotate(id: str) -> None:
    """Give the webhook ID a new secret; prints the secret. The old one signs for 24 hours too."""
    key = current_settings().require_webhook_key()
    row = webhook_row(Numbered, "webhooks/rotate", id, key_fingerprint=fingerprint(key))
    click.echo(derive_secret(key, row.id, row.secret_number))


@webhook.command("secret")
@click.argument("id")
def print_secret(id: str) -> None:
    """Print the current secret of the webhook ID."""
    click.echo(current_secret(current_settings(), webhook_row(Claim, "webhooks/target", id)))


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
    return webhook_row(MatchedWebhook, "webhooks/update", id, **change).id


@webhook.command("remove")
@click.argument("id")
@yes_option
def remove(id: str, yes: bool) -> None:
    """Remove the webhook ID with all its deliveries, waiting ones too; prints the id."""
    target = find_webhook(id)
    confirm(f"Remove the webhook to {target.url} with all its deliveries?", yes=yes)
    click.echo(webhook_row(MatchedWebhook, "webhooks/delete", id, versions=None).id)
