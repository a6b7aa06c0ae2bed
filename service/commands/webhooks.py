"""Commands for webhooks: the specification has them in the product's settings, outside REST."""

import json
from collections.abc import Iterable
from typing import NamedTuple

import click
from flask import current_app
from flask.cli import AppGroup

from service.commands.base import Id, echo_row, one_row, query, report_errors
from service.commands.load.insert import FoundWorkspace
from service.fields import uuid_or_nil
from service.settings import Settings
from service.webhooks import EVENTS, delivery
from service.webhooks.outbound import BlockedURL, resolve
from service.webhooks.secrets import derive_secret, fingerprint

webhook = AppGroup("webhook", help="Make webhooks, look after them, and deliver what is due.")


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
    state: str
    url: str
    events: str
    failing_since: str | None
    disabled_reason: str | None


class Attempt(NamedTuple):
    """The row of an attempt; a delivery without one is a row with nulls."""

    id: str
    type: str
    state: str
    number: int | None
    at: str | None
    status: int | None
    milliseconds: int | None
    error: str | None
    answer: str | None


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
    """Send the events of the workspace SLUG to URL; prints id and secret, the secret this once."""
    try:
        resolve(url, current_app.config["SETTINGS"].webhook_allow)
    except BlockedURL as error:
        raise click.ClickException(f"URL {error}") from None
    for value in new_webhook(slug, url, events, absent=f"there is no workspace {slug}"):
        click.echo(value)


def new_webhook(slug: str, url: str, events: Iterable[str], *, absent: str) -> tuple[str, str]:
    """Make a webhook; returns its id and its secret, which the database never has."""
    key = current_app.config["SETTINGS"].require_webhook_key()
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
@report_errors
def list_webhooks(slug: str) -> None:
    """List the webhooks of the workspace SLUG, tab-separated.

    Columns: id, state, URL, events, failing since, why disabled.
    """
    one_row(FoundWorkspace, "workspaces/find", f"there is no workspace {slug}", slugs=[slug])
    for row in query(ListedWebhook, "webhooks/list", slug=slug):
        echo_row(row)


@webhook.command("deliveries")
@click.argument("id")
@click.option(
    "--limit",
    type=click.IntRange(1, 10000),
    default=50,
    show_default=True,
    help="How many deliveries.",
)
@report_errors
def list_deliveries(id: str, limit: int) -> None:
    """List the latest deliveries of a webhook, newest first.

    A line an attempt, tab-separated.

    Columns: delivery, event, state, attempt, when, status, milliseconds, error, answer.
    """
    one_row(Target, "webhooks/get", f"there is no webhook {id}", id=uuid_or_nil(id))
    for row in query(Attempt, "webhooks/deliveries", id=uuid_or_nil(id), limit=limit):
        echo_row(row)


@webhook.command("redeliver")
@click.argument("id")
@report_errors
def redeliver(id: str) -> None:
    """Have a delivery attempted again by the worker, with the same bytes; prints its id.

    A disabled webhook gets it once it is enabled.
    """
    click.echo(
        one_row(Id, "webhooks/redeliver", f"there is no delivery {id}", id=uuid_or_nil(id)).id
    )


@webhook.command("ping")
@click.argument("id")
@report_errors
def ping(id: str) -> None:
    """Post a signed test event to a webhook now; prints status, milliseconds, error and answer."""
    settings: Settings = current_app.config["SETTINGS"]
    settings.require_webhook_key()
    target = one_row(Target, "webhooks/get", f"there is no webhook {id}", id=uuid_or_nil(id))
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
    outcome = delivery.attempt(claim, settings, timeout=settings.webhook_timeout)
    echo_row((outcome.status, outcome.milliseconds, outcome.error, outcome.answer))
    if not outcome.success:
        raise SystemExit(1)


@webhook.command("rotate")
@click.argument("id")
@report_errors
def rotate(id: str) -> None:
    """Give a webhook a new secret; prints it, this once. For 24 hours the old one signs too."""
    key = current_app.config["SETTINGS"].require_webhook_key()
    row = one_row(
        Numbered,
        "webhooks/rotate",
        f"there is no webhook {id}",
        id=uuid_or_nil(id),
        key_fingerprint=fingerprint(key),
    )
    click.echo(derive_secret(key, row.id, row.secret_number))


@webhook.command("disable")
@click.argument("id")
@report_errors
def disable(id: str) -> None:
    """Send a webhook nothing more until it is enabled; prints its id.

    What it has not received waits; what happens from now on is not kept for it.
    """
    click.echo(one_row(Id, "webhooks/disable", f"there is no webhook {id}", id=uuid_or_nil(id)).id)


@webhook.command("enable")
@click.argument("id")
@report_errors
def enable(id: str) -> None:
    """Send to a webhook again, beginning with what has waited; prints its id."""
    click.echo(
        one_row(Enabled, "webhooks/enable", f"there is no webhook {id}", id=uuid_or_nil(id)).id
    )
