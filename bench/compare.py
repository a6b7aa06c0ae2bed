"""The comparison: service, bare callable and pgbench in turn, round after round."""

import json
from contextlib import ExitStack
from importlib.util import find_spec
from itertools import product
from statistics import median

from bench import drive
from bench.cases import CASES
from bench.servers import SERVERS, ask, gunicorn
from bench.stage import READERS, cluster

CONNECTIONS = 8
RUNNERS = "service", "floor", "pgbench"


class WrongAnswer(Exception):
    """The service or the floor gave another response than the one to be timed."""


def compare(names, *, tasks, seconds, rounds, say):
    """Return medians of all rounds: {case name: {runner: Run}}."""
    cases = [case for case in CASES if not names or case.name in names]
    runs = {case.name: {runner: [] for runner in RUNNERS} for case in cases}
    with cluster() as postgres:
        say(f"seeding {tasks:,} tasks")
        url = postgres.database("bench", tasks)
        with gunicorn(url) as service, gunicorn(url, app="bench.floor:app") as floor:
            ports = {"service": service[0], "floor": floor[0]}
            pids = {"service": service[1], "floor": floor[1]}
            for case in cases:
                check(case, **ports)
                for runner in ports:
                    # Warm up: connections, plans, and the first minute of every token.
                    drive.wrk(case, ports[runner], [pids[runner]], seconds=1, connections=8)
            for number in range(rounds):
                say(f"round {number + 1} of {rounds}")
                for case in cases:
                    for runner in RUNNERS:
                        options = {"seconds": seconds, "connections": CONNECTIONS}
                        if runner == "pgbench":
                            found = drive.pgbench(case, postgres, url, **options)
                        else:
                            both = [pids[runner], postgres.pid]
                            found = drive.wrk(case, ports[runner], both, **options)
                        runs[case.name][runner].append(found)
    return {
        name: {runner: middle(found) for runner, found in runners.items()}
        for name, runners in runs.items()
    }


def compare_servers(names, *, tasks, seconds, rounds, say):
    """Return all rounds of the service on each web server: {(case name, server): [Run, …]}."""
    cases = [case for case in CASES if case.name in (names or ("list 50", "list 1", "create"))]
    servers = {name: words for name, (needs, *words) in SERVERS.items() if find_spec(needs)}
    with cluster() as postgres, ExitStack() as up:
        say(f"seeding {tasks:,} tasks for {'; '.join(servers)}")
        url = postgres.database("bench", tasks)
        ports = {name: up.enter_context(gunicorn(url, words)) for name, words in servers.items()}
        runs = {(case.name, name): [] for case in cases for name in ports}
        # The first round, of a second each, warms up.
        for number in range(rounds + 1):
            for case, (name, (port, pid)) in product(cases, ports.items()):
                options = {"seconds": seconds if number else 1, "connections": CONNECTIONS}
                found = drive.wrk(case, port, [pid, postgres.pid], **options)
                runs[case.name, name].append(found)
    return {key: found[1:] for key, found in runs.items()}


def middle(runs):
    columns = zip(*((run.cpu, run.rate, run.p50, run.p99, run.p999) for run in runs), strict=True)
    return drive.Run(*(None if None in column else median(column) for column in columns))


def check(case, *, service, floor):
    """Require the same response of both; bodies of reads must have the same bytes."""
    for index in range(0, len(READERS), 7):
        status, body = ask(service, case, index)
        other_status, other_body = ask(floor, case, index)
        content = json.loads(body)
        same = body == other_body or case.method != "GET" or case.name == "dashboard"
        alike = same and keys(content) == keys(json.loads(other_body))
        if status != other_status or status not in (200, 201) or not alike:
            raise WrongAnswer(
                f"{case.name}: {status} {body[:200]}, {other_status} {other_body[:200]}"
            )
        if "limit" in case.values and len(content["data"]) != case.values["limit"]:
            raise WrongAnswer(f"{case.name}: {len(content['data'])} items")


def keys(content):
    return [sorted(item) for item in content] if isinstance(content, list) else sorted(content)
