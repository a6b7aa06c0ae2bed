"""Section of ``status``: the counters of all processes."""

from typing import NamedTuple

from service.commands.status.section import Reader, Section
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
    section = Section({})
    corrupted = 0
    for series, value, seconds in reader.rows(Count, "status/counters"):
        section.metrics[series] = value
        if series.startswith("corruption_total") and seconds < HOUR:
            corrupted += 1
            sqlstate = series.split('"')[1]
            section.problem(
                f"an index or a table is corrupted ({sqlstate}, last met {seconds / 60:.0f} min"
                " ago; the log has the error)",
                CORRUPTED,
            )
    section.metrics["database_corrupted"] = corrupted
    return section
