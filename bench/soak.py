"""100 000 requests in one run, with webhooks: the growth of memory and of tables."""

import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import monotonic, sleep

import psycopg

from bench import drive, processes
from bench.cases import CASES
from bench.servers import ROOT, gunicorn
from bench.stage import WORKSPACES, WRITERS, cluster, run

SETTINGS = {"WEBHOOK_KEY": "of no use to anybody but this run", "WEBHOOK_ALLOW": "127.0.0.1"}
CONNECTIONS, STEPS = 8, 5


class Receiver(BaseHTTPRequestHandler):
    """Takes every webhook."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *words):
        pass


def soak(requests, tasks, *, say):
    """Yield after one round of cases, after each fifth, and once the dead rows are cleared away.

    Each time: requests sent so far, megabytes of each worker, and the tables.
    """
    with cluster() as postgres, receiver() as hook:
        say(f"seeding {tasks:,} tasks")
        url = postgres.database("soak", tasks)
        for workspace in {user % WORKSPACES for user in WRITERS}:
            task_service(url, "webhook", "create", f"workspace-{workspace}", hook)
        with gunicorn(url, **SETTINGS) as (port, pid), worker(url):
            sent = 0
            for step in range(STEPS + 1):
                # At least one round: the workers start to work at the first request.
                goal = max(requests * step / STEPS, sent + 1)
                while sent < goal:
                    for case in CASES:
                        options = {"seconds": 1, "connections": CONNECTIONS}
                        sent += drive.wrk(case, port, [pid], **options).requests
                say(f"{sent:,} requests")
                yield sent, processes.megabytes(pid), sizes(url)
            say("until autovacuum has been there")
            deadline = monotonic() + 130
            while monotonic() < deadline and max(dead for *_, dead in sizes(url)) > 2000:
                sleep(1)
            yield sent, processes.megabytes(pid), sizes(url)


def sizes(url):
    with psycopg.connect(url) as connection:
        return run(connection, "sizes", {}).fetchall()


@contextmanager
def receiver():
    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@contextmanager
def worker(url):
    process = task_service(url, "worker", wait=False)
    try:
        yield
    finally:
        process.terminate()
        process.wait(40)


def task_service(url, *words, wait=True):
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "service", *words],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": url, **SETTINGS},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    if wait and process.wait(60):
        raise RuntimeError(f"task-service {' '.join(words)} failed")
    return process


def soak_table(steps):
    """A line a step; of each table its megabytes and, in brackets, its dead rows."""
    lines = []
    for sent, workers, tables in steps:
        if not lines:
            names = [name for name, *_ in tables]
            head = f"| requests | workers, MB | {' | '.join(names)} | events sent |"
            lines = [head, "|---" * (len(names) + 3) + "|"]
        cells = [f"{megabytes:.1f} ({dead:,})" for _, megabytes, _, dead in tables]
        events = next(alive for name, _, alive, _ in tables if name == "events")
        memory = ", ".join(f"{megabytes:.0f}" for megabytes in workers)
        lines.append(f"| {sent:,} | {memory} | {' | '.join(cells)} | {events:,} |")
    return "\n".join(lines)
