"""``python -m bench``: run the benchmark, and print its table."""

import os
import shutil
import sys
from pathlib import Path

import click

from bench.cases import CASES
from bench.instructions import count_instructions
from bench.load import measure

AUTOGROUP = Path("/proc/sys/kernel/sched_autogroup_enabled")


@click.command(context_settings={"show_default": True})
@click.option(
    "--tasks",
    type=click.IntRange(4000, 10_000_000),
    default=None,
    show_default="100000; --instructions 20000",
    help="The number of tasks in the database.",
)
@click.option("--seconds", type=click.IntRange(1, 60), default=3, help="The duration of each run.")
@click.option(
    "--rounds",
    type=click.IntRange(1, 20),
    default=3,
    help="The number of rounds; the table has the medians of all rounds.",
)
@click.option(
    "--only",
    "names",
    multiple=True,
    type=click.Choice([case.name for case in CASES]),
    help="Only this case; may be given more than once.",
)
@click.option(
    "--instructions",
    is_flag=True,
    help="Instead count the instructions per request of one worker under valgrind. These counts"
    " repeat to 2 %.",
)
@click.option(
    "--keep",
    type=click.Path(path_type=Path, file_okay=False),
    help="With --instructions: keep callgrind's files in this folder, for callgrind_annotate.",
)
def main(tasks, seconds, rounds, names, instructions, keep):
    """Measure CPU per request of service and PostgreSQL, latencies, and requests per second."""
    program = "valgrind" if instructions else "wrk"
    if not shutil.which(program):
        sys.exit(f"Error: {program} is missing; install it, with: apt-get install {program}")
    cases = [case for case in CASES if not names or case.name in names]
    if instructions:
        click.echo(count_instructions(cases, tasks=tasks or 20_000, say=tell, keep=keep))
        return
    if AUTOGROUP.exists() and AUTOGROUP.read_text().strip() != "0":
        page = "docs/operations/benchmark.md"
        tell(f"autogroup is on: some statements will wait long for a CPU ({page})")
    load = os.getloadavg()[0]
    tasks = tasks or 100_000
    click.echo(measure(cases, tasks=tasks, seconds=seconds, rounds=rounds, say=tell))
    click.echo(f"\n{tasks:,} tasks, {rounds} rounds of {seconds} s, 8 connections")
    after = os.getloadavg()[0]
    click.echo(f"\n{os.cpu_count()} cores; load average before {load:.1f}, after {after:.1f}")


def tell(text):
    click.echo(text, err=True)


main(prog_name="python -m bench")
