"""An upgrade, a rollback and a second upgrade, under load, on two hosts behind nginx.

Each host has a gunicorn and a worker. To replace them, an operator restarts the units: the old
processes end before the new ones begin, while systemd holds the listening socket. Here, this
program holds it.
"""

import http.client
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from statistics import median
from time import monotonic, sleep
from typing import NamedTuple

import psycopg

from bench.servers import ROOT
from bench.visitors import Extras, pause

TEMPORARY = "client_body", "proxy", "fastcgi", "uwsgi", "scgi"


class Release(NamedTuple):
    """The code of a release in a folder, and the OpenAPI document that it serves."""

    name: str
    folder: Path
    document: dict

    @classmethod
    def recorded(cls, name, folder):
        """Return a release of tests/releases, whose code comes from the history of git."""
        commit = (ROOT / "tests/releases" / name / "commit").read_text().strip()
        archive = ["git", "archive", commit]
        git = subprocess.run(archive, cwd=ROOT, capture_output=True, check=True)  # noqa: S603
        unpack = ["tar", "-x", "-C", folder]
        subprocess.run(unpack, input=git.stdout, check=True)  # noqa: S603
        if (folder / "requirements.txt").read_bytes() != (ROOT / "requirements.txt").read_bytes():
            raise SystemExit(f"{name} needs other libraries than this checkout: requirements.txt")
        return cls.of(name, folder)

    @classmethod
    def of(cls, name, folder):
        printed = start(folder, "", "-m", "service", "openapi", stdout=subprocess.PIPE)
        return cls(name, folder, json.loads(printed.communicate()[0]))

    def run(self, url, *words):
        """Run a command of the service; return what it printed."""
        pipe = subprocess.PIPE
        process = start(self.folder, url, "-m", "service", *words, stdout=pipe, stderr=pipe)
        printed, errors = process.communicate()
        if process.returncode:
            raise SystemExit(f"{self.name}, {' '.join(words)}: {printed.decode()}{errors.decode()}")
        return printed.decode()


def start(folder, url, *words, **options):
    environment = {**os.environ, "DATABASE_URL": url or "postgresql:///unused"}
    environment |= {"TRUSTED_PROXIES": "1"}
    return subprocess.Popen([sys.executable, *words], cwd=folder, env=environment, **options)  # noqa: S603


def end(process):
    process.terminate()
    process.wait(60)


class Host:
    """A machine with one port, on which the web processes of one release listen at a time."""

    def __init__(self, url, listener):
        self.url, self.listener, self.port = url, listener, listener.getsockname()[1]
        self.release, self.web, self.worker = None, None, None

    def end(self):
        for process in filter(None, (self.web, self.worker)):
            end(process)

    def switch(self, release):
        """Restart web and worker with another release; return once it answers.

        Both get SIGTERM at the same time, and each begins again as soon as it has ended, as with
        ``systemctl restart``.
        """
        for process in filter(None, (self.web, self.worker)):
            process.terminate()
        lines = (release.folder / "Procfile").read_text().splitlines()
        (line,) = (line.partition(":")[2] for line in lines if line.startswith("web:"))
        descriptor = self.listener.fileno()
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        words = ["-m", *shlex.split(line[line.index("gunicorn") :]), "--bind", f"fd://{descriptor}"]
        if self.web:
            self.web.wait(60)
        self.web = start(release.folder, self.url, *words, pass_fds=[descriptor], **quiet)
        if self.worker:
            self.worker.wait(60)
        self.worker = start(release.folder, self.url, "-m", "service", "worker", **quiet)
        deadline = monotonic() + 120
        while self.send("GET", "/openapi.json")[1] != release.document:
            if self.web.poll() is not None or monotonic() > deadline:
                raise SystemExit(f"{release.name} does not serve its document")
            sleep(0.1)
        self.release = release

    def send(self, method, path, body=None, user=1, **headers):
        """Send a request to this host; return status and JSON of the response."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers |= {"Authorization": f"Bearer bench-{user}", "Connection": "close"}
        headers |= {"Content-Type": "application/json"}
        text = None if body is None else json.dumps(body)
        with closing(connection), suppress(OSError, http.client.HTTPException):
            connection.request(method, path, text, headers)
            response = connection.getresponse()
            return response.status, json.loads(response.read() or b"{}")
        return 0, {}


@contextmanager
def two_hosts(url):
    with ExitStack() as stack:
        hosts = []
        for _ in range(2):
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=2048))
            hosts.append(Host(url, listener))
            stack.callback(hosts[-1].end)
        yield hosts


class Nginx:
    """nginx with the project's configuration in front of the hosts."""

    def __init__(self, folder, hosts):
        self.folder, self.hosts = Path(folder), hosts
        self.folder.chmod(0o755)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        (self.folder / "task-service").mkdir()
        self.list(*hosts)
        server = f"listen 127.0.0.1:{self.port};\n"
        (self.folder / "task-service/server.conf").write_text(server)
        site = (ROOT / "docs/deploy/nginx.conf").read_text()
        (self.folder / "site.conf").write_text(site.replace("/var/log/nginx/", f"{folder}/"))
        own = "".join(f"{name}_temp_path {folder}/{name};\n" for name in TEMPORARY)
        (self.folder / "nginx.conf").write_text(
            f"daemon off; pid {folder}/pid; error_log {folder}/error.log;\nevents {{}}\nhttp {{"
            f" access_log off; {own if os.geteuid() else ''} include {folder}/site.conf; }}\n"
        )

    def list(self, *hosts):
        lines = "".join(f"server 127.0.0.1:{host.port} max_fails=0;\n" for host in hosts)
        (self.folder / "task-service/hosts.conf").write_text(lines)

    @contextmanager
    def running(self):
        command = ["nginx", "-c", self.folder / "nginx.conf", "-e", self.folder / "error.log"]
        self.process = subprocess.Popen(command)  # noqa: S603
        try:
            while not self.listens():
                sleep(0.1)
            yield
        finally:
            end(self.process)

    def listens(self):
        if self.process.poll() is not None:
            raise SystemExit(f"nginx has ended: {self.folder}/error.log")
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            return True
        return False

    @contextmanager
    def without(self, host):
        """Send no requests to a host, until the body of ``with`` has run."""
        self.list(*(other for other in self.hosts if other is not host))
        self.process.send_signal(signal.SIGHUP)
        # The old workers of nginx finish their requests.
        sleep(2)
        yield
        self.list(*self.hosts)
        self.process.send_signal(signal.SIGHUP)
        # Clients whose idle connections were closed notice it with their next request.
        sleep(2)


class Story:
    """The upgrade of two hosts, one step after the other; each step is a row of the table."""

    def __init__(self, url, front, load, say):
        self.url, self.front, self.load, self.say = url, front, load, say
        self.hosts = front.hosts
        self.lines = [
            "| step | seconds | requests | refused | failed | lost | longest | pause | dashboard |",
            "|---|" + "--:|" * 8,
        ]
        self.notes = []

    @contextmanager
    def step(self, words):
        """Add a row for the requests that begin while the body of ``with`` runs."""
        began = monotonic()
        yield
        ended = monotonic()
        # Requests that waited for the step end after it.
        sleep(3)
        replies = self.load.between(began, ended)
        faults = [reply for reply in replies if reply.fault]
        for reply in faults[:10]:
            self.say(f"{words}: {reply.fault}: {reply.kind}: {reply.detail}")
        longest = max(replies, key=lambda reply: reply.seconds)
        kinds = len({reply.kind for reply in replies})
        self.say(f"{words}: {kinds} kinds of requests, the longest was {longest.kind}")
        counts = [
            sum(reply.fault == fault for reply in faults) for fault in ("refused", "failed", "lost")
        ]
        cells = (words, f"{ended - began:.1f}", len(replies), *counts, f"{longest.seconds:.2f} s")
        cells += (f"{pause(replies):.2f} s", self.dashboard())
        self.lines.append(f"| {' | '.join(map(str, cells))} |")
        self.say(self.lines[-1])

    def dashboard(self):
        """Return the median time of a dashboard, and the longest, each after another host."""
        seconds = []
        for number in range(20):
            began = monotonic()
            status, found = self.hosts[number % 2].send("GET", "/api/dashboard/stats")
            if status != 200:
                raise SystemExit(f"the dashboard: {status} {found}")
            seconds.append(monotonic() - began)
        return f"{1000 * median(seconds):.0f} ms, {1000 * max(seconds):.0f} ms"

    def migrate(self, release):
        """Run ``migrate`` of a release; add a line for each migration that it applied."""
        before, began = self.sizes(), monotonic()
        with self.step(f"`migrate` of {release.name}, old code serves"):
            names = release.run(self.url, "migrate").split()
        self.notes.append(f"migrate: {monotonic() - began:.1f} s with the start of the command")
        sql = (
            "SELECT name, extract(epoch FROM applied_at - lag(applied_at) OVER (ORDER BY name))"
            "  FROM schema_migrations"
        )
        with psycopg.connect(self.url) as connection:
            seconds = dict(connection.execute(sql).fetchall())
            (self.migrated_at,) = connection.execute("SELECT now()").fetchone()
        # The first migration of a run begins with the command.
        self.notes += [
            f"{name}: {seconds[name]:.1f} s after the one before"
            for name in names[1:]
            if name in seconds
        ]
        for words, old, new in zip(("tasks", "WAL"), before, self.sizes(), strict=True):
            self.notes.append(f"{words}: {(new - old) / 1e6:,.0f} MB more".replace(",", " "))

    def sizes(self):
        with psycopg.connect(self.url) as connection:
            return connection.execute(
                "SELECT pg_total_relation_size('tasks'), (pg_current_wal_lsn() - '0/0')::bigint"
            ).fetchone()

    def restart(self, number, release):
        with self.step(f"host {number + 1} restarts with {release.name}"):
            self.hosts[number].switch(release)

    def replace(self, number, release):
        words = f"host {number + 1}, which nginx leaves out, restarts with {release.name}"
        with self.step(words), self.front.without(self.hosts[number]):
            self.hosts[number].switch(release)

    def serve(self, words, minute):
        with self.step(words):
            sleep(minute)

    def tell(self, old, new, minute):
        """Upgrade, go back, and upgrade again."""
        extras, self.load.extras = (Extras.known_to(one.document) for one in (new, old))
        self.serve(f"{old.name} on both hosts", minute)
        self.migrate(new)
        self.serve(f"{old.name} on both hosts, new schema", minute)
        self.replace(0, new)
        self.serve("one host new, one old", minute)
        self.replace(1, new)
        self.load.extras = extras
        self.serve(f"{new.name} on both hosts", minute)
        task, other = self.make(self.hosts[0])
        self.load.extras = Extras.known_to(old.document)
        # Visits with requests that only the new release knows end before the old one starts.
        sleep(2 + 6 * self.load.interval)
        for number in range(2):
            self.replace(number, old)
        self.serve(f"back: {old.name} on both hosts", minute)
        self.look(self.hosts[0], task, other)
        new.run(self.url, "migrate")
        for number in range(2):
            self.restart(number, new)
        self.load.extras = extras
        self.serve(f"again {new.name} on both hosts", minute)
        self.look(self.hosts[0], task, other)

    def without_previous(self):
        """Return how many updates since ``migrate`` have an event without the values before it.

        The second number is that of all updates since then.
        """
        sql = """
            SELECT count(*) FILTER (
                       WHERE ARRAY(SELECT json_object_keys(body::json -> 'previous'))
                          <> ARRAY(SELECT json_array_elements_text(body::json -> 'changed'))
                   ),
                   count(*)
              FROM events
             WHERE type LIKE '%%.updated' AND created_at > %s
        """
        with psycopg.connect(self.url) as connection:
            return connection.execute(sql, [self.migrated_at]).fetchone()

    # What a release shows of the objects of the other one.

    def make(self, host):
        """Create two tasks with the new code, as users 1 and 21 of one workspace; return both."""
        _, task = host.send("POST", "/api/tasks", {"title": "By the new code"})
        path = f"/api/tasks/{task['id']}"
        host.send("PATCH", path, {"title": "Changed by the new code", "status": "done"}, user=21)
        _, other = host.send("POST", "/api/tasks", {"title": "To be changed by the old code"}, 21)
        return path, f"/api/tasks/{other['id']}"

    def look(self, host, task, other):
        """Print what the host shows of the tasks, and what it says to requests of 1.1.0."""

        def note(words, status, found):
            self.say(f"{host.release.name} shows: {words}: {status} {json.dumps(found)[:900]}")

        note("a task that the new code has made and changed", *host.send("GET", task))
        _, page = host.send("GET", "/api/events")
        title = f"Changed with {host.release.name}, {monotonic()}"
        note("a task that this code changes", *host.send("PATCH", other, {"title": title}, user=1))
        status, page = host.send("GET", f"/api/events?after={page.get('nextCursor')}")
        mine = [item for item in page.get("data", []) if item["data"].get("title") == title]
        note("the event of this change", status, mine)
        stale = {"If-Match": '"1"'}
        found = host.send("PATCH", other, {"title": "Too late"}, **stale)
        note("412 of a change that comes too late", *found)
        for query in ("completedAfter=2026-01-01&limit=1", "sort=completedAt&limit=1"):
            status, found = host.send("GET", f"/api/tasks?{query}")
            note(f"GET /api/tasks?{query}", status, found if status != 200 else "a page")
        new = "c0ffee00-0000-4000-8000-" + f"{int(monotonic() * 1000):012}"
        status, found = host.send("POST", "/api/tasks", {"id": new, "title": "With an id"})
        note("POST with an id", status, found.get("message") or found.get("id") == new)
        status, found = host.send("POST", "/api/tasks/batch", {"create": [{"title": "Many"}]})
        note("POST /api/tasks/batch", status, found.get("message") or [*found])
