"""``task-service status``: the state of database, processes and webhooks on one page."""

import click
import psycopg

from service.commands.base import connect, current_settings, describe
from service.commands.status import (
    certificate,
    database,
    output,
    processes,
    replication,
    schema,
    webhooks,
)
from service.commands.status.section import SILENT, Problem, Process, Reader, Section, joined
from service.process import short_host


@click.command("status")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option(
    "--metrics",
    "as_metrics",
    is_flag=True,
    help="Print the figures in the format of Prometheus' textfile collector.",
)
@click.option(
    "--process",
    metavar="HOST:PID",
    help="Print only the line of this process. Fails if it gave no sign of life for a minute.",
)
def show_status(as_json: bool, as_metrics: bool, process: str | None) -> None:
    """Prints each problem in a line at the end of the page, and says what to do. With --json, the
    member "problems" lists the problems. With --metrics, task_service_problems is their number, and
    the exit status is always 0. --process is for health checks: it asks only for that process.
    """
    if bool(as_json) + bool(as_metrics) + bool(process) > 1:
        raise click.UsageError("give one of --json, --metrics and --process")
    if process:
        show_process(process)
        return
    up = True
    try:
        with connect() as connection:
            status = read_status(Reader(connection, current_settings()))
    except psycopg.OperationalError as error:
        up = False
        status = replication.read_servers(current_settings())
        status.problems = [Problem("the database does not answer", describe(error))]
    if as_metrics:
        click.echo("\n".join(output.metrics(status, up=up)))
        return
    click.echo(output.document(status) if as_json else "\n".join(output.page(status)))
    if status.problems:
        raise SystemExit(1)


def show_process(name: str) -> None:
    """Print the line of a process; raises ClickException if it gives no sign of life."""
    host, _, pid = name.rpartition(":")
    shown = f"{short_host(host)}:{pid}"
    with connect() as connection, connection.transaction():
        connection.run("status/configure")
        running = connection.rows(Process, "status/processes")
    # A process that was killed may have left a row with the same name and another version.
    found = [process for process in running if process.process == shown]
    if not found:
        raise click.ClickException(f"no process has the name {shown}; the command status lists all")
    latest = min(found, key=lambda process: process.silent_seconds)
    if latest.silent_seconds > SILENT:
        raise click.ClickException(processes.silence_in_words(latest))
    click.echo(processes.process_in_words(latest))


def read_status(reader: Reader) -> Section:
    """Read all sections in the order of the page: the most urgent problems come first."""
    first = [
        database.read_database(reader),
        replication.read_servers(reader.settings),
        replication.read_standbys(reader),
        replication.read_archive(reader),
        processes.read_counters(reader),
        schema.read_rights(reader),
    ]
    last = [
        processes.read_processes(reader),
        database.read_connections(reader),
        database.read_transactions(reader),
        processes.read_waits(reader),
        webhooks.read_deliveries(reader),
        webhooks.read_webhooks(reader),
        webhooks.read_keys(reader),
        webhooks.read_oldest(reader),
        database.read_vacuum(reader),
        database.read_clock(reader),
        certificate.read_certificate(),
    ]
    # These two explain why figures of other sections could not be read, so they are read last.
    return joined([*first, schema.read_schema(reader), schema.read_locks(reader), *last])
