"""The commands of the group ``webhook`` for deliveries: list them, and repeat them."""

from typing import NamedTuple

import click

from service.commands.base import (
    echo_ids,
    echo_rows,
    json_option,
    one_row,
    query,
    validate,
)
from service.commands.lookup import find_webhook
from service.database.statements import IdRow
from service.values.fields import Timestamp, uuid_or_nil
from service.webhooks.rows import NO_USER, Redelivered


class FoundDelivery(NamedTuple):
    """The row of a delivery that a command names by its id alone."""

    workspace_id: str
    webhook_id: str
    id: str


class ListedAttempt(NamedTuple):
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
    next_attempt_at: str | None
    webhook_id: str
    # The id of the task, meeting or suggestion.
    about: str | None


@click.command("deliveries")
@click.argument("id", required=False)
@click.option("--about", metavar="ID", help="Only events about this task, meeting or suggestion.")
@click.option(
    "--limit",
    type=click.IntRange(1, 10000),
    default=50,
    show_default=True,
    help="How many deliveries.",
)
@json_option
def list_deliveries(id: str | None, about: str | None, limit: int, as_json: bool) -> None:
    """List the latest deliveries of the webhook ID, or those --about a task, newest first.

    Each line is an attempt, or a delivery that was not attempted yet.

    Columns: delivery, event, state, attempt, when, status, milliseconds, error, answer, next
    attempt, webhook, id of the task, meeting or suggestion.
    """
    if id is None and about is None:
        raise click.UsageError("give the ID of a webhook, or --about the id of a task")
    webhook_id = None if id is None else find_webhook(id).id
    about = None if about is None else about.lower()
    rows = query(ListedAttempt, "deliveries/attempts", id=webhook_id, about=about, limit=limit)
    echo_rows(rows, as_json=as_json)


@click.command("redeliver")
@click.argument("id")
@click.option(
    "--failed", is_flag=True, help="Attempt all failed deliveries of the webhook ID again."
)
@click.option(
    "--since",
    metavar="TIMESTAMP",
    help="With --failed: only deliveries that failed since this time, like 2026-11-20T11:00:00Z.",
)
def redeliver(id: str, failed: bool, since: str | None) -> None:
    """Make the worker attempt the delivery ID again, with the same bytes; prints the id.

    With --failed, ID is the id of a webhook; prints the id of each delivery that is attempted
    again. A disabled webhook gets its deliveries once the webhook is enabled.
    """
    if failed:
        webhook_id = find_webhook(id).id
        moment = None if since is None else validate(Timestamp(), "--since", since)
        ids = query(IdRow, "deliveries/redeliver_failed", id=webhook_id, since=moment)
    elif since is not None:
        raise click.UsageError("--since needs --failed")
    else:
        absent = f"there is no delivery {id}"
        found = one_row(FoundDelivery, "deliveries/find", absent, id=uuid_or_nil(id))
        values = {**found._asdict(), "user_id": NO_USER}
        ids = [IdRow(one_row(Redelivered, "deliveries/redeliver", absent, **values).id)]
    echo_ids(ids)
