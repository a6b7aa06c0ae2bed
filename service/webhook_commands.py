"""Commands for webhooks: the specification has them in the product's settings, outside REST."""

import json
from types import SimpleNamespace

import click
from flask import current_app
from flask.cli import AppGroup

from service import webhooks
from service.commands import only, run, told
from service.destinations import Refused, resolve
from service.fields import as_id
from service.worker import Worker

EVENTS = (
    "task.created",
    "task.updated",
    "task.deleted",
    "meeting.created",
    "meeting.completed",
    "ai.suggestion.created",
)

webhook = AppGroup("webhook", help="Make webhooks, look after them, and deliver what is due.")


def settings_with_key():
    settings = current_app.config["SETTINGS"]
    if not settings.webhook_key:
        raise click.ClickException(
            "WEBHOOK_KEY is not set: the secrets of the webhooks are derived from it;"
            " make one with: openssl rand -hex 32"
        )
    return settings


@webhook.command("create")
@click.argument("slug")
@click.argument("url")
@click.option("--event", "events", multiple=True, type=click.Choice(EVENTS), help="[default: all]")
@told
def create_webhook(slug, url, events):
    """Send the events of the workspace SLUG to URL; prints id and secret, the secret this once."""
    settings = settings_with_key()
    try:
        resolve(url, settings.webhook_allow)
    except Refused as refused:
        raise click.ClickException(f"URL {refused}") from None
    rows = run("webhooks/create", slug=slug, url=url, events=list(events))
    made = only(rows, f"there is no workspace {slug}")
    click.echo(made.id)
    click.echo(webhooks.make_secret(settings.webhook_key, made.id, made.secret_number))


@webhook.command("list")
@click.argument("slug")
@told
def list_webhooks(slug):
    """List the webhooks of the workspace SLUG, tab-separated.

    Columns: id, state, URL, events, failing since, why disabled.
    """
    only(run("load/find_workspaces", slugs=[slug]), f"there is no workspace {slug}")
    for row in run("webhooks/list", slug=slug):
        echo(row)


@webhook.command("deliveries")
@click.argument("id")
@click.option("--limit", type=click.IntRange(1, 10000), default=50, show_default=True)
@told
def list_deliveries(id, limit):
    """List the latest deliveries of a webhook, newest first.

    A line an attempt, tab-separated.

    Columns: delivery, event, state, attempt, when, status, milliseconds, error, answer.
    """
    only(run("webhooks/get", id=as_id(id)), f"there is no webhook {id}")
    for row in run("webhooks/deliveries", id=as_id(id), limit=limit):
        echo(row)


def echo(row):
    """Print a row in one line: tabs between values, those within them written as JSON does."""
    values = ("-" if value is None else json.dumps(str(value))[1:-1] for value in row)
    click.echo("\t".join(values))


@webhook.command("redeliver")
@click.argument("id")
@told
def redeliver(id):
    """Have a delivery attempted again by the worker, with the same bytes; prints its id."""
    click.echo(only(run("webhooks/redeliver", id=as_id(id)), f"there is no delivery {id}").id)


@webhook.command("ping")
@click.argument("id")
@told
def ping(id):
    """Post a signed test event to a webhook now; prints status, milliseconds, error and answer."""
    settings = settings_with_key()
    target = only(run("webhooks/get", id=as_id(id)), f"there is no webhook {id}")
    body = {
        "id": target.message_id,
        "type": "ping",
        "timestamp": target.timestamp,
        "workspaceId": str(target.workspace_id),
        "data": {},
    }
    claim = SimpleNamespace(**target._asdict(), id=None, number=1, body=json.dumps(body))
    outcome = webhooks.attempt(claim, settings, timeout=settings.webhook_timeout)
    echo(outcome[name] for name in ("status", "milliseconds", "error", "answer"))
    if not outcome["success"]:
        raise SystemExit(1)


@webhook.command("rotate")
@click.argument("id")
@told
def rotate(id):
    """Give a webhook a new secret; prints it, this once. For 24 hours the old one signs too."""
    settings = settings_with_key()
    row = only(run("webhooks/rotate", id=as_id(id)), f"there is no webhook {id}")
    click.echo(webhooks.make_secret(settings.webhook_key, row.id, row.secret_number))


@webhook.command("disable")
@click.argument("id")
@told
def disable(id):
    """Send a webhook nothing more until it is enabled; prints its id.

    What it has not received waits; what happens from now on is not kept for it.
    """
    click.echo(only(run("webhooks/disable", id=as_id(id)), f"there is no webhook {id}").id)


@webhook.command("enable")
@click.argument("id")
@told
def enable(id):
    """Send to a webhook again, beginning with what has waited; prints its id."""
    click.echo(only(run("webhooks/enable", id=as_id(id)), f"there is no webhook {id}").id)


@webhook.command("deliver")
@click.option("--once", is_flag=True, help="Deliver what is due now and end; for cron.")
@told
def deliver(once):
    """Attempt what is due, until SIGTERM; any number of these may run."""
    worker = Worker(settings_with_key())
    if once:
        click.echo(worker.run_once())
    else:
        worker.run()
