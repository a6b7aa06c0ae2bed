"""Commands for webhooks: the specification has them in the product's settings, outside REST."""

import json
from collections.abc import Iterable
from types import SimpleNamespace

import click
from flask import current_app
from flask.cli import AppGroup

from service.commands.base import echo_row, one_row, query, report_errors
from service.fields import uuid_or_nil
from service.settings import Settings
from service.webhooks import EVENTS, delivery
from service.webhooks.outbound import BlockedURL, resolve
from service.webhooks.worker import Worker

webhook = AppGroup("webhook", help="Make webhooks, look after them, and deliver what is due.")


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
    row = one_row("webhooks/create", absent, slug=slug, url=url, events=[*dict.fromkeys(events)])
    return str(row.id), delivery.derive_secret(key, row.id, row.secret_number)


@webhook.command("list")
@click.argument("slug")
@report_errors
def list_webhooks(slug: str) -> None:
    """List the webhooks of the workspace SLUG, tab-separated.

    Columns: id, state, URL, events, failing since, why disabled.
    """
    one_row("workspaces/find", f"there is no workspace {slug}", slugs=[slug])
    for row in query("webhooks/list", slug=slug):
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
    one_row("webhooks/get", f"there is no webhook {id}", id=uuid_or_nil(id))
    for row in query("webhooks/deliveries", id=uuid_or_nil(id), limit=limit):
        echo_row(row)


@webhook.command("redeliver")
@click.argument("id")
@report_errors
def redeliver(id: str) -> None:
    """Have a delivery attempted again by the worker, with the same bytes; prints its id.

    A disabled webhook gets it once it is enabled.
    """
    click.echo(one_row("webhooks/redeliver", f"there is no delivery {id}", id=uuid_or_nil(id)).id)


@webhook.command("ping")
@click.argument("id")
@report_errors
def ping(id: str) -> None:
    """Post a signed test event to a webhook now; prints status, milliseconds, error and answer."""
    settings: Settings = current_app.config["SETTINGS"]
    settings.require_webhook_key()
    target = one_row("webhooks/get", f"there is no webhook {id}", id=uuid_or_nil(id))
    body = {
        "id": target.message_id,
        "type": "ping",
        "timestamp": target.timestamp,
        "workspaceId": str(target.workspace_id),
        "data": {},
    }
    claim = SimpleNamespace(**target._asdict(), id=None, number=1, age=0, body=json.dumps(body))
    outcome = delivery.attempt(claim, settings, timeout=settings.webhook_timeout)
    echo_row(outcome[name] for name in ("status", "milliseconds", "error", "answer"))
    if not outcome["success"]:
        raise SystemExit(1)


@webhook.command("rotate")
@click.argument("id")
@report_errors
def rotate(id: str) -> None:
    """Give a webhook a new secret; prints it, this once. For 24 hours the old one signs too."""
    key = current_app.config["SETTINGS"].require_webhook_key()
    row = one_row("webhooks/rotate", f"there is no webhook {id}", id=uuid_or_nil(id))
    click.echo(delivery.derive_secret(key, row.id, row.secret_number))


@webhook.command("disable")
@click.argument("id")
@report_errors
def disable(id: str) -> None:
    """Send a webhook nothing more until it is enabled; prints its id.

    What it has not received waits; what happens from now on is not kept for it.
    """
    click.echo(one_row("webhooks/disable", f"there is no webhook {id}", id=uuid_or_nil(id)).id)


@webhook.command("enable")
@click.argument("id")
@report_errors
def enable(id: str) -> None:
    """Send to a webhook again, beginning with what has waited; prints its id."""
    click.echo(one_row("webhooks/enable", f"there is no webhook {id}", id=uuid_or_nil(id)).id)


@webhook.command("deliver")
@click.option("--once", is_flag=True, help="Deliver what is due now and end; for cron.")
@report_errors
def deliver(once: bool) -> None:
    """Deliver what is due, until SIGTERM, and prune nothing; the command worker does both."""
    settings: Settings = current_app.config["SETTINGS"]
    settings.require_webhook_key()
    worker = Worker(settings)
    if once:
        click.echo(worker.run_once(prune=False))
    else:
        worker.run(prune=False)
