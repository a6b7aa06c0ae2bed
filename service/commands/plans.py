"""Commands for plans, which limit how many requests each user may send in a workspace."""

import re
from typing import NamedTuple

import click

from service.commands.base import connect, echo_rows, json_option, query

MAX_QUOTA = 2**31 - 1


class ListedPlan(NamedTuple):
    name: str
    per_minute: int
    # Null means unlimited.
    per_day: int | None
    # How many workspaces are on this plan.
    workspace_count: int


def quota(text: str) -> int:
    """Parse a number of requests; raises BadParameter. The word unlimited is parsed as 0."""
    if text == "unlimited":
        return 0
    if re.fullmatch("[0-9]{1,10}", text) and 1 <= int(text) <= MAX_QUOTA:
        return int(text)
    raise click.BadParameter(f"must be an integer from 1 to {MAX_QUOTA}, or the word unlimited")


plan = click.Group("plan")


@plan.command("list")
@json_option
def list_plans(as_json: bool) -> None:
    """List all plans, the smallest first.

    Columns: name, requests per minute, requests per day (- is unlimited), number of workspaces.
    """
    echo_rows(query(ListedPlan, "plans/list"), as_json=as_json)


@plan.command("set")
@click.argument("name")
@click.option(
    "--per-minute",
    type=click.IntRange(1, MAX_QUOTA),
    metavar="NUMBER",
    help="Requests per user and minute.",
)
@click.option(
    "--per-day",
    type=quota,
    metavar="NUMBER",
    help="Requests per user and day, or the word unlimited.",
)
def set_plan(name: str, per_minute: int | None, per_day: int | None) -> None:
    """Change the limits of a plan.

    Takes effect with the next request. Prints the plan like plan list. If you omit an option, that
    limit keeps its value. If there is no plan NAME, give both options to create it.
    """
    if per_minute is None and per_day is None:
        raise click.UsageError("give --per-minute, --per-day, or both")
    with connect() as connection:
        connection.run("plans/set", name=name, per_minute=per_minute, per_day=per_day)
        rows = [row for row in connection.rows(ListedPlan, "plans/list") if row.name == name]
    if not rows:
        raise click.ClickException(
            f"there is no plan {name}, only {', '.join(names())}; a new one needs --per-minute and"
            " --per-day"
        )
    echo_rows(rows, as_json=False)


def names() -> list[str]:
    return [row.name for row in query(ListedPlan, "plans/list")]


def check_plan(name: str) -> None:
    if name not in (known := names()):
        raise click.ClickException(f"plan must be the name of a plan: {', '.join(known)}")
