"""The figures as a table."""

from bench.cases import CASES

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
