"""``task-service worker``: the one process beside the web processes."""

import logging

import click
from flask import current_app

from service.commands.base import report_errors
from service.settings import Settings
from service.webhooks.worker import Worker

log = logging.getLogger("service.worker")


@click.command("worker")
@click.option("--once", is_flag=True, help="Do what is due now and end; for cron.")
@report_errors
def worker(once: bool) -> None:
    """Deliver webhooks and prune old rows, until SIGTERM; any number of these may run.

    Without WEBHOOK_KEY it prunes, and deliveries wait.
    """
    settings: Settings = current_app.config["SETTINGS"]
    settings.require_database()
    if not settings.webhook_key:
        log.warning("WEBHOOK_KEY is not set: deliveries wait")
    worker = Worker(settings)
    if once:
        click.echo(worker.run_once(deliver=bool(settings.webhook_key)))
    else:
        worker.run(deliver=bool(settings.webhook_key))
