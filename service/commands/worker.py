"""``task-service worker``: the process that delivers webhooks and prunes old rows."""

import logging

import click

from service import logs
from service.commands.base import current_settings
from service.process import lifecycle_line
from service.webhooks.worker import Worker

log = logging.getLogger("service.worker")


@click.command("worker")
@click.option("--once", is_flag=True, help="Do what is due now, then exit; for cron.")
def worker(once: bool) -> None:
    """Without WEBHOOK_KEY the worker only prunes, and deliveries wait."""
    settings = current_settings()
    settings.require_database()
    logs.configure(settings.log_format)
    deliver = bool(settings.webhook_key)
    if not deliver:
        log.warning("WEBHOOK_KEY is not set: deliveries wait")
    worker = Worker(settings)
    if once:
        click.echo(worker.run_once(deliver=deliver))
        return
    log.info(lifecycle_line("worker", "starts", settings))
    worker.run(deliver=deliver)
    log.info(lifecycle_line("worker", "stops", settings))
