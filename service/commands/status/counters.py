"""Section of ``status``: the counters of all processes."""

from typing import NamedTuple

from service.commands.status.section import Problem, Reader, Section
from service.database.remedies import CORRUPTED

# A process that met corruption within this many seconds is a problem.
HOUR = 3600


class Count(NamedTuple):
    # The name and the labels, as Prometheus writes them.
    series: str
    value: float
    # Seconds since the counter last grew.
    seconds: float


def read_counters(reader: Reader) -> Section:
    found = reader.rows(Count, "status/counters")
    corrupted = [
        count
        for count in found
        if count.series.startswith("corruption_total") and count.seconds < HOUR
    ]
    return Section(
        figures={},
        metrics={
            "database_corrupted": len(corrupted),
            **{count.series: count.value for count in found},
        },
        problems=[
            Problem(
                f"an index or a table is corrupted ({sqlstate_of(count)}, last met"
                f" {count.seconds / 60:.0f} min ago; the log has the error)",
                CORRUPTED,
            )
            for count in corrupted
        ],
    )


def sqlstate_of(count: Count) -> str:
    return count.series.split('"')[1]
