"""The figures as a table."""

from bench.cases import CASES
from bench.compare import middle

TARGETS = {case.name: case.target for case in CASES}


def table(found):
    """Return a Markdown table; CPU in milliseconds a request, latency in milliseconds."""
    lines = [
        "| request | CPU | target | p50 | p99 | p99.9 | requests/s | floor's CPU | p99 | requests/s"
        " | pgbench's CPU | requests/s | CPU of floor | of pgbench |",
        "|---" + "|--:" * 13 + "|",
    ]
    for name, runs in found.items():
        service, floor, bare = (runs[runner] for runner in ("service", "floor", "pgbench"))
        lines.append(
            f"| {name} | {service.cpu:.3f} | {f'{TARGETS[name]:.2f}' if TARGETS[name] else ''}"
            f" | {latencies(service)} | {service.rate:.0f}"
            f" | {floor.cpu:.3f} | {floor.p99:.1f} | {floor.rate:.0f}"
            f" | {bare.cpu:.3f} | {bare.rate:.0f}"
            f" | {service.cpu / floor.cpu:.2f} | {service.cpu / bare.cpu:.2f} |"
        )
    return "\n".join(lines)


def servers_table(found):
    """Return a Markdown table of medians, and the p99 of each run as a multiple of its p50."""
    lines = [
        "| request | server | CPU | p50 | p99 | p99.9 | requests/s | p99 ÷ p50 of each run |",
        "|---|---" + "|--:" * 5 + "|---|",
    ]
    for (case, server), runs in found.items():
        run, ratios = middle(runs), " ".join(f"{run.p99 / run.p50:.1f}" for run in runs)
        figures = f"{run.cpu:.3f} | {latencies(run)} | {run.rate:.0f} | {ratios}"
        lines.append(f"| {case} | {server} | {figures} |")
    return "\n".join(lines)


def latencies(run):
    return f"{run.p50:.1f} | {run.p99:.1f} | {run.p999:.1f}"
