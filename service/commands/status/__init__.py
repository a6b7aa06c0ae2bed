"""``task-service status``: the state of database, processes and webhooks on one page."""

import json

import click
import psycopg

from service.commands.base import connect, describe, report_errors, settings
from service.commands.status import figures, output
from service.commands.status.problems import problems


@click.command("status")
@click.option("--json", "form", flag_value="json", help="Print one JSON object.")
@click.option(
    "--metrics",
    "form",
    flag_value="metrics",
    help="Print a line for each number, as Prometheus' textfile collector reads them.",
)
@report_errors
def show_status(form: str | None) -> None:
    """Show the state of database, processes and webhooks; exits with 1 if something is wrong.

    Each problem is a line at the end of the page, and a member of "problems" in JSON. With
    --metrics the exit status is 0, and task_service_problems says how many there are.
    """
    own = settings()
    found, wrong = None, []
    try:
        with connect() as connection:
            found = figures.read(connection, own)
        wrong = list(problems(found))
    except psycopg.OperationalError as error:
        if form is None:
            raise
        wrong = [f"the database does not answer: {describe(error)}"]
    if form == "metrics":
        click.echo("\n".join(output.metrics(found, wrong)))
        return
    if form == "json":
        click.echo(output.document(found, wrong) if found else json.dumps({"problems": wrong}))
    elif found:
        click.echo("\n".join(output.page(found, wrong)))
    if wrong:
        raise SystemExit(1)
