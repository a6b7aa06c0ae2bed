"""The same requests on a small and on a large database."""

from bench import drive
from bench.cases import CASES, FIRST, Case
from bench.servers import ask, gunicorn
from bench.stage import WORKSPACES, cluster, row_id

# These callers are in workspace 0, which has more than half of all tasks.
GIANT = tuple(range(0, 200, WORKSPACES))
# One connection, so that a latency has no time in a queue.
CONNECTIONS = 1


def cases(tasks):
    """First and middle page, each filter with common and with rare values, and single tasks."""
    middle = row_id(tasks // 2).replace("-", "")
    lists = {
        "first page": "",
        "page in the middle": f"?cursor={middle}",
        "status, common": "?status=todo",
        "status, rare": "?status=in_progress",
        "priority, common": "?priority=high",
        "priority, rare": "?priority=urgent",
        "assignee, common": f"?assignee={row_id(WORKSPACES)}",
        "assignee, rare": f"?assignee={row_id(0)}",
        "projectId, common": "?projectId=common",
        "projectId, rare": "?projectId=rare",
        "parentId": f"?parentId={row_id(1)}",
        "status and assignee, rare": f"?status=in_progress&assignee={row_id(WORKSPACES)}",
    }
    for name, query in lists.items():
        yield Case(name, f"/api/tasks{query}", "tasks/filter", users=GIANT, values=dict(FIRST))
    for case in CASES:
        if case.name in ("get", "create", "patch", "dashboard"):
            yield Case(
                case.name, case.path, case.statement, case.method, case.body, GIANT, case.values
            )
    yield Case("knowledge, common", "/api/knowledge?q=release", "knowledge/search", users=GIANT)
    yield Case("knowledge, rare", "/api/knowledge?q=rollback", "knowledge/search", users=GIANT)


def scale(small, large, *, entries, seconds, say):
    """{case name: (Run on the small database, Run on the large one)}."""
    found = {}
    with cluster() as postgres:
        for name, tasks in (("small", small), ("large", large)):
            say(f"seeding {tasks:,} tasks")
            url = postgres.database(name, tasks, entries=entries * tasks // large)
            with gunicorn(url) as (port, pid):
                for case in cases(tasks):
                    status, body = ask(port, case)
                    if status not in (200, 201):
                        run = f"{status} {body[:80].decode()}"
                    else:
                        options = {"seconds": seconds, "connections": CONNECTIONS}
                        pids = [pid, postgres.pid]
                        run = drive.wrk(case, port, pids, **options)
                    found.setdefault(case.name, []).append(run)
    return found


def scale_table(found, small, large):
    """CPU and latencies of both, and how much more the large one costs."""
    lines = [
        f"| request | CPU ms, {small:,} | CPU ms, {large:,} | ratio | p50 | p50 | p99 | p99 |",
        "|---" * 8 + "|",
    ]
    for name, runs in found.items():
        if any(isinstance(run, str) for run in runs):
            lines.append(f"| {name} | " + " | ".join(map(str, runs)) + " |")
            continue
        one, other = runs
        lines.append(
            f"| {name} | {one.cpu:.2f} | {other.cpu:.2f} | {other.cpu / one.cpu:.2f}"
            f" | {one.p50:.1f} | {other.p50:.1f} | {one.p99:.1f} | {other.p99:.1f} |"
        )
    return "\n".join(lines)
