"""Commands for webhooks, which the specification has in the product's settings."""

import json
from collections.abc import Iterable
from importlib import import_module
from typing import NamedTuple

import click

from service.commands.base import (
    Id,
    confirm,
    echo_row,
    echo_rows,
    json_option,
    one_row,
    query,
    report_errors,
    settings,
    yes_option,
)
from service.commands.load.insert import FoundWorkspace
from service.fields import uuid_or_nil
from service.settings import Settings
from service.webhooks import EVENTS, delivery
from service.webhooks.outbound import BlockedURL, NotPublic, resolve
from service.webhooks.secrets import current_secret, derive_secret, fingerprint


class Numbered(NamedTuple):
    """The row of a webhook with the number that its secret is derived from."""

    id: str
    secret_number: int


class Enabled(NamedTuple):
    """The row of a webhook that is enabled again."""

    id: str
    # How many deliveries are due again.
    caught_up: int


class ListedWebhook(NamedTuple):
    """The row of a webhook in the list."""

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


class Target(NamedTuple):
    """The row of a webhook for a test message to it."""

    workspace_id: str
    webhook_id: str
    url: str
    # The secrets that sign, newest first: their numbers, and the fingerprints of their keys.
    secret_numbers: list[int]
    key_fingerprints: list[str]
    message_id: str
    timestamp: str


@click.group("webhook")
def webhook() -> None:
    """Create webhooks, list their deliveries, and deliver again."""


@webhook.command("create")
@click.argument("slug")
@click.argument("url")
@click.option(
    "--event",
    "events",
    multiple=True,
    type=click.Choice(EVENTS),
    help="Send this type of event; may be given several times.",
    show_default="all",
)
@report_errors
def create_webhook(slug: str, url: str, events: tuple[str, ...]) -> None:
    """Send the events of the workspace SLUG to URL; prints the webhook's id and its secret."""
    try:
        resolve(url, settings().webhook_allow)
    except NotPublic as error:
        allow = "to allow it, add its host or network to WEBHOOK_ALLOW of all processes"
        raise click.ClickException(f"URL {error}; {allow}") from None
    except BlockedURL as error:
        raise click.ClickException(f"URL {error}") from None
    for value in new_webhook(slug, url, events, absent=f"there is no workspace {slug}"):
        click.echo(value)


def new_webhook(slug: str, url: str, events: Iterable[str], *, absent: str) -> tuple[str, str]:
    """Return the id and the secret of a new webhook; the database never stores the secret."""
    key = settings().require_webhook_key()
    row = one_row(
        Numbered,
        "webhooks/create",
        absent,
        slug=slug,
        url=url,
        events=[*dict.fromkeys(events)],
        key_fingerprint=fingerprint(key),
    )
    return row.id, derive_secret(key, row.id, row.secret_number)


@webhook.command("list")
@click.argument("slug")
@json_option
@report_errors
def list_webhooks(slug: str, as_json: bool) -> None:
    """List the webhooks of the workspace SLUG, oldest first.

    Columns: id, state, URL, events, failing since, why disabled, number of waiting deliveries,
    next attempt, backs off until, last attempt, its status or error.
    """
    one_row(FoundWorkspace, "workspaces/find", f"there is no workspace {slug}", slugs=[slug])
    echo_rows(query(ListedWebhook, "webhooks/list", slug=slug), as_json=as_json)


def require_webhook(id: str) -> Target:
    """Return the webhook; raises ClickException if there is none."""
    return one_row(Target, "webhooks/get", f"there is no webhook {id}", id=uuid_or_nil(id))


@webhook.command("ping")
@click.argument("id")
@report_errors
def ping(id: str) -> None:
    """Post a signed test event to the webhook ID; prints status, milliseconds, error and answer."""
    own = settings()
    own.require_webhook_key()
    outcome = post_ping(own, require_webhook(id))
    echo_row((outcome.status, outcome.milliseconds, outcome.error, outcome.answer))
    if not outcome.success:
        raise SystemExit(1)


def post_ping(settings: Settings, target: Target) -> delivery.Outcome:
    """Post a signed test event to a webhook and return the outcome, which is not recorded."""
    body = {
        "id": target.message_id,
        "type": "ping",
        "timestamp": target.timestamp,
        "workspaceId": target.workspace_id,
        "data": {},
    }
    claim = delivery.Claim(
        workspace_id=target.workspace_id,
        id="",
        number=1,
        webhook_id=target.webhook_id,
        url=target.url,
        secret_numbers=target.secret_numbers,
        key_fingerprints=target.key_fingerprints,
        message_id=target.message_id,
        body=json.dumps(body),
        age=0,
    )
    return delivery.attempt(claim, settings, timeout=settings.webhook_timeout)


@webhook.command("rotate")
@click.argument("id")
@report_errors
def rotate(id: str) -> None:
    """Give the webhook ID a new secret; prints the secret. The old one signs for 24 hours too."""
    key = settings().require_webhook_key()
    row = one_row(
        Numbered,
        "webhooks/rotate",
        f"there is no webhook {id}",
        id=uuid_or_nil(id),
        key_fingerprint=fingerprint(key),
    )
    click.echo(derive_secret(key, row.id, row.secret_number))


@webhook.command("secret")
@click.argument("id")
@report_errors
def print_secret(id: str) -> None:
    """Print the current secret of the webhook ID."""
    click.echo(current_secret(settings(), require_webhook(id)))


@webhook.command("disable")
@click.argument("id")
@report_errors
def disable(id: str) -> None:
    """Stop sending to the webhook ID until it is enabled; prints the id.

    Due deliveries wait. Events that occur while the webhook is disabled are never sent to it.
    """
    click.echo(one_row(Id, "webhooks/disable", f"there is no webhook {id}", id=uuid_or_nil(id)).id)


@webhook.command("enable")
@click.argument("id")
@report_errors
def enable(id: str) -> None:
    """Send to the webhook ID again, its waiting deliveries first; prints the id."""
    click.echo(
        one_row(Enabled, "webhooks/enable", f"there is no webhook {id}", id=uuid_or_nil(id)).id
    )


@webhook.command("remove")
@click.argument("id")
@yes_option
@report_errors
def remove(id: str, yes: bool) -> None:
    """Remove the webhook ID with all its deliveries, waiting ones too; prints the id."""
    target = require_webhook(id)
    confirm(f"Remove the webhook to {target.url} with all its deliveries?", yes=yes)
    click.echo(one_row(Id, "webhooks/delete", f"there is no webhook {id}", id=uuid_or_nil(id)).id)


# That module adds its commands to the group above.
import_module("service.commands.deliveries")
