"""One run of one case: requests by wrk or bare statements by pgbench, and the CPU they took."""

import json
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench import processes
from bench.stage import USERS, WORKSPACES
from service.database.statements import STATEMENTS

LUA = Path(__file__).with_name("wrk.lua")

# A user and the task of theirs that :func:`bench.cases.own_task` names.
SOMEBODY = r"""
\set workspace random({first}, {last})
\set circle random(0, {circles})
\set number random(1, 2000000000)
"""
USER = f"(:workspace + {WORKSPACES} * :circle)"
HASH = f"sha256(('bench-' || {USER})::bytea)"
OWN_TASK = f"bench_id(2 * (:workspace + {WORKSPACES} * (5 + :circle)))"


class NoAnswer(Exception):
    """A run in which requests failed."""


@dataclass(frozen=True)
class Run:
    """The figures of one run; ``cpu`` in milliseconds a request, latencies in milliseconds."""

    cpu: float
    rate: float
    p50: float | None = None
    p99: float | None = None
    p999: float | None = None


def wrk(case, port, pids, *, seconds, connections):
    """Send requests without a pause."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.writelines(f"{token} {path}\n" for token, path in case.requests())
        file.flush()
        before = processes.milliseconds(*pids)
        output = command(
            *("wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", LUA),
            *(f"http://127.0.0.1:{port}", "--", case.method, case.text(), file.name),
        )
        used = processes.milliseconds(*pids) - before
    found = json.loads(output.splitlines()[-1])
    if found["failed"] or not found["requests"]:
        raise NoAnswer(f"{case.name}: {found['failed']} of {found['requests']} requests failed")
    requests = found["requests"]
    latencies = (found[name] for name in ("p50", "p99", "p999"))
    return Run(used / requests, requests / found["seconds"], *latencies)


def pgbench(case, cluster, url, *, seconds, connections):
    """Run only the statements of the gate and of the case, prepared."""
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
        file.write(script(case))
        file.flush()
        arguments = (cluster.bin / "pgbench", "--no-vacuum", "--protocol=prepared")
        arguments += (f"--client={connections}", f"--file={file.name}")
        # Subtract the cost of connections and plans: one transaction for each client.
        started = processes.milliseconds(cluster.pid)
        command(*arguments, "--transactions=1", url)
        before = processes.milliseconds(cluster.pid)
        output = command(*arguments, f"--time={seconds}", url)
        used = processes.milliseconds(cluster.pid) - before - (before - started)
    requests = int(re.search(r"actually processed: (\d+)", output)[1])
    failed = re.search(r"failed transactions: (\d+)", output)
    if not requests or (failed and int(failed[1])):
        raise NoAnswer(f"{case.name}: pgbench failed\n{output}")
    rate = float(re.search(r"tps = ([\d.]+)", output)[1])
    return Run(used / requests, rate, connections * 1000 / rate)


def script(case):
    """Return both statements for pgbench; columns of the first are variables of the second."""
    spaces = [user % WORKSPACES for user in case.users]
    somebody = SOMEBODY.format(first=min(spaces), last=max(spaces), circles=USERS // WORKSPACES - 1)
    caller = {"hash": HASH, "kind": "'api'", "address": "'127.0.0.1'"}
    gate = inserted("gate/authenticate_and_count", {**caller, "requested_workspace_id": "NULL"})
    values = {name: literal(value) for name, value in case.values.items()}
    ids = {"user_id": ":user_id", "workspace_id": ":workspace_id", "token_workspace_id": "NULL"}
    work = inserted(case.statement, {**ids, **values})
    return f"{somebody}{gate} \\gset\n{work};\n"


def literal(value):
    if value == "own task":
        return OWN_TASK
    if value is None:
        return "NULL"
    if isinstance(value, int):
        return str(value)
    quoted = "'" + value.replace("'", "''") + "'"
    return f"({quoted})".replace("#", "' || :number || '")


def inserted(name, values):
    # Remove comments: pgbench takes a colon before a name for a variable.
    lines = (line.partition("-- ")[0] for line in STATEMENTS[name].source.decode().splitlines())
    text = "\n".join(line for line in lines if line.strip()).rstrip("; \n")
    return re.sub(r"%\((\w+)\)s", lambda match: values[match[1]], text).replace("%%", "%")


def command(*words):
    words = [str(word) for word in words]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
    if ended.returncode:
        raise NoAnswer(f"{words[0]} failed:\n{ended.stdout}{ended.stderr}")
    return ended.stdout
