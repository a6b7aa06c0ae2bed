"""``python -m bench``: measure, print the table, draw it."""

import os
import shutil
import sys
from pathlib import Path

import click

from bench.cases import CASES
from bench.compare import compare
from bench.report import draw, table

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "benchmark.svg"


@click.command(context_settings={"show_default": True})
@click.option("--tasks", type=click.IntRange(4000, 10_000_000), default=100_000, help="Tasks seeded.")
@click.option("--seconds", type=click.IntRange(1, 60), default=3, help="Seconds of each run.")
@click.option("--rounds", type=click.IntRange(1, 20), default=3, help="Rounds, of which medians.")
@click.option(
    "--only",
    "names",
    multiple=True,
    type=click.Choice([case.name for case in CASES]),
    help="Only this case; may be given more than once.",
)
@click.option("--picture", type=click.Path(path_type=Path), default=PICTURE, help="Drawn to here.")
def main(tasks, seconds, rounds, names, picture):
    """CPU per request of the service, beside a bare WSGI callable and pgbench with the same SQL."""
    if not shutil.which("wrk"):
        sys.exit("Error: wrk is missing; install it, with: apt-get install wrk")
    load = os.getloadavg()
    found = compare(names, tasks=tasks, seconds=seconds, rounds=rounds, say=tell)
    click.echo(table(found))
    click.echo(
        f"\n{tasks:,} tasks, {rounds} rounds of {seconds} s, 8 connections, {os.cpu_count()} cores;"
        f" load average before {load[0]:.1f}, after {os.getloadavg()[0]:.1f}"
    )
    draw(found, picture)


def tell(text):
    click.echo(text, err=True)


main(prog_name="python -m bench")
