"""The figures as a table."""

from bench.cases import CASES
from bench.compare import middle

TARGETS = {case.name: case.target for case in CASES}


def table(found):
    """Return a Markdown table; CPU in milliseconds a request, latency in milliseconds."""
    lines = [
        "| request | service | floor | pgbench | of floor | of pgbench | target"
        " | service/s | floor/s | pgbench/s | p50 | p99 | floor p99 |",
        "|---" * 13 + "|",
    ]
    for name, runs in found.items():
        service, floor, bare = (runs[runner] for runner in ("service", "floor", "pgbench"))
        target = TARGETS[name]
        lines.append(
            f"| {name} | {service.cpu:.3f} | {floor.cpu:.3f} | {bare.cpu:.3f}"
            f" | {service.cpu / floor.cpu:.2f} | {service.cpu / bare.cpu:.2f}"
            f" | {f'{target:.2f}' if target else ''}"
            f" | {service.rate:.0f} | {floor.rate:.0f} | {bare.rate:.0f}"
            f" | {service.p50:.1f} | {service.p99:.1f} | {floor.p99:.1f} |"
        )
    return "\n".join(lines)


def servers_table(found):
    """Return a Markdown table of medians, and the highest p99."""
    lines = ["| request | server | CPU | requests/s | p50 | p99 | highest p99 |", "|---" * 7 + "|"]
    for (case, server), runs in found.items():
        run, highest = middle(runs), max(run.p99 for run in runs)
        figures = f"{run.cpu:.3f} | {run.rate:.0f} | {run.p50:.1f} | {run.p99:.1f} | {highest:.1f}"
        lines.append(f"| {case} | {server} | {figures} |")
    return "\n".join(lines)
