"""The figures as a table and as a picture."""

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


def draw(found, path):
    import matplotlib as mpl

    mpl.use("svg")
    # Text stays text, and two runs differ by their figures only.
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "bench", "font.size": 9})
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 0.7 + 0.55 * len(found)), layout="constrained")
    colours = {"service": "#1f6feb", "floor": "#9a6700", "pgbench": "#8c959f"}
    labels = {"service": "service", "floor": "bare WSGI callable", "pgbench": "pgbench"}
    for index, (runner, colour) in enumerate(colours.items()):
        places = [place + (index - 1) * 0.27 for place in range(len(found))]
        bars = axes.barh(
            places,
            [runs[runner].cpu for runs in found.values()],
            0.25,
            color=colour,
            label=labels[runner],
        )
        axes.bar_label(bars, fmt="%.2f", padding=2, fontsize=7)
    axes.set_yticks(range(len(found)), list(found))
    axes.invert_yaxis()
    axes.set_xlabel("CPU milliseconds a request, server and PostgreSQL")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right")
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
