"""The last release and its successor on one database, behind one port, while it is upgraded.

The predecessor is the last release, built from its commit, or this code if nothing is released yet.
The successor is a later release: this code with one more migration of each kind, and a member that
only its responses have. The migrations that are new in this code run first, one after the other,
and then the functions: the predecessor serves every kind of request while each of them runs.

Both listen on one socket, which the test holds as systemd does for the units. The clients send what
the predecessor's document shows, and compare each response with one that the predecessor gave
before the upgrade. When only the successor serves, they also send its new operations. Others
create, change and delete objects, and know what must be left and what events must say.
"""

import http.client
import json
import socket
import subprocess
import sys
import time
from collections import Counter, defaultdict
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from threading import Event, Lock, Thread
from typing import NamedTuple
from uuid import uuid4

import psycopg
import pytest
from psycopg.rows import dict_row
from support.examples import (
    credential_of,
    example_of,
    insert_settings,
    needs_settings,
    operations,
    path_with_examples,
    success_of,
)
from support.openapi_check import LOGIN_KEY
from support.processes import ending, wait_until
from support.project import PROJECT, copy_project, environment, run
from support.receivers import environment as receiving
from support.receivers import subscribe
from support.recipes import NEXT, add_a_field, create
from support.releases import read_json, releases
from support.rows import TOKENS, insert_token, restore_cast

from service.devkit.local import OWNER

# It counts each request of its clients, so it runs alone, as the scenarios of faults do.
pytestmark = [pytest.mark.faults, pytest.mark.nodatabase]

ALICE = {"Authorization": f"Bearer {TOKENS['alice']}"}
# Credentials of the owner of the demo workspace, by the schemes of the document.
CREDENTIALS = {
    "bearer": {"Authorization": "Bearer tmw_api_ada"},
    "session": {"Cookie": "session=tmw_session_ada"},
    "loginKey": {"Authorization": f"Bearer {LOGIN_KEY}"},
}
WEB = {"WEB_CONCURRENCY": "1", "WEB_THREADS": "4"}

# The migrations that the successor has after the migrations of the recipe. Together they are one of
# each kind.
INDEX = f"{NEXT + 2:04}-meetings-by-location"
BACKFILL = f"{NEXT + 3:04}-old-locations"
ROWS_BEFORE = 20_000
MIGRATIONS = {
    INDEX: "-- migrate: without a transaction\n"
    "CREATE INDEX CONCURRENTLY IF NOT EXISTS meetings_by_location"
    " ON meetings (workspace_id, location);\n",
    BACKFILL: "-- migrate: in batches\n"
    "-- left: SELECT count(*) FROM meetings WHERE title LIKE 'Meeting %' AND location IS NULL\n"
    "UPDATE meetings SET location = 'Online' WHERE id IN (\n"
    "    SELECT id FROM meetings WHERE title LIKE 'Meeting %' AND location IS NULL LIMIT 200\n"
    ");\n",
}


MEETING = {"startTime": "2036-05-05T09:00:00Z", "endTime": "2036-05-05T10:00:00Z"}


class Release(NamedTuple):
    """The code of a release in a folder, and the Python that has its libraries."""

    folder: Path
    python: str
    # Whether responses of this release have the new member.
    is_new: bool

    def start(self, url, *words, **options):
        variables = environment(**receiving(url, **WEB))
        command = [self.python, "-m", *words]
        return subprocess.Popen(command, cwd=self.folder, env=variables, text=True, **options)

    def run(self, url, *words):
        """Run a command of the service; return its exit status and what it printed."""
        pipe = subprocess.PIPE
        process = self.start(url, "service", *words, stdout=pipe, stderr=subprocess.STDOUT)
        printed, _ = process.communicate(timeout=120)
        return process.returncode, printed

    def must_run(self, url, *words):
        status, printed = self.run(url, *words)
        assert status == 0, printed
        return printed


@pytest.fixture(scope="module")
def predecessor(tmp_path_factory):
    folder, python, released = (
        tmp_path_factory.mktemp("predecessor"),
        sys.executable,
        (releases() or [None])[-1],
    )
    if not (PROJECT / ".git").exists():
        pytest.skip("there is no history of git, and so no code of the last release")
    if released is None:
        copy_project(folder)
        return Release(folder, python, is_new=False)
    commit = (released / "commit").read_text().strip()
    archive = subprocess.run(["git", "archive", commit], cwd=PROJECT, capture_output=True)
    if archive.returncode:
        pytest.skip(f"the history lacks {commit}, the commit of {released.name}: git fetch --tags")
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
    locked = "requirements.txt"
    if (folder / locked).read_bytes() != (PROJECT / locked).read_bytes():
        python = str(folder / ".venv/bin/python")
        run(sys.executable, "-m", "venv", ".venv", cwd=folder)
        run(python, "-m", "pip", "install", "-q", "--require-hashes", "-r", locked, cwd=folder)
    return Release(folder, python, is_new=False)


@pytest.fixture(scope="module")
def successor(tmp_path_factory):
    folder = tmp_path_factory.mktemp("successor")
    copy_project(folder)
    add_a_field(folder)
    for name, text in MIGRATIONS.items():
        create(folder / f"sql/schema/{name}.sql", text)
    # Python finds this before the package that is installed.
    metadata = "Metadata-Version: 2.1\nName: task-meeting-workspace-service\nVersion: 9999.0.0\n"
    create(folder / "task_meeting_workspace_service-9999.0.0.dist-info/METADATA", metadata)
    return Release(folder, sys.executable, is_new=True)


@pytest.fixture(scope="module")
def document(predecessor):
    """Return the OpenAPI document that the predecessor published."""
    if releases():
        return read_json(releases()[-1], "openapi.json")
    return json.loads(predecessor.must_run("postgresql:///unused", "openapi"))


@dataclass(frozen=True)
class Reply:
    # What was requested: an operation of the document.
    kind: str
    # What the test did meanwhile.
    stage: str
    # refused, failed or lost; empty for a response as it should be.
    fault: str
    detail: object = None
    seconds: float = 0.0


class Clients:
    """The threads of clients, what they were answered, and what they know of the objects."""

    def __init__(self, port, url, document, predecessor):
        self.port, self.url, self.document = port, url, document
        self.demo = predecessor.folder / "service/devkit/demo.jsonl"
        # The release whose command loads the demo data.
        self.stage, self.release = "recorded", predecessor
        self.replies, self.rounds, self.errors = [], Counter(), []
        # How often the first reader of a feed was told to try again.
        self.repeated = 0
        # By stage: whether the documents that the port served have the new member.
        self.served = defaultdict(set)
        # By id: the title of each object that was acknowledged, or None if it was deleted.
        self.known = {}
        # By id: the stage in which the object was changed, and its title before that.
        self.changed = {}
        # The operations that only the successor has, and the stage in which to send them.
        self.new_operations, self.new_stage = [], None
        self.created = set()
        self.recorded = {}
        self._lock, self._stop, self._numbers = Lock(), Event(), count()

    # Sending and counting.

    def send(self, kind, method, path, body=None, *, status, credential=ALICE):
        """Send a request on a connection of its own; return the body, or None after a fault."""
        stage, began = self.stage, time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        fields = {"Connection": "close", "Content-Type": "application/json", **credential}
        text = None if body is None else json.dumps(body)
        fault = detail = answer = retry_after = None
        try:
            connection.request(method, path, text, fields)
            response = connection.getresponse()
            answer = json.loads(response.read() or b"null")
            if response.status == 503 and kind == "listEvents":
                retry_after = int(response.headers["Retry-After"])
            elif response.status != status:
                fault = "refused" if response.status in (429, 503) else "failed"
                detail = (response.status, answer)
        except (OSError, http.client.HTTPException, ValueError) as error:
            fault, detail = "lost", repr(error)
        finally:
            connection.close()
        if retry_after:
            # The first reader of a feed waits up to 50 ms for transactions that write, such as a
            # batch of a migration. Then the document asks the client to try again.
            self.repeated += 1
            self._stop.wait(retry_after)
            return self.send(kind, method, path, body, status=status, credential=credential)
        seconds = time.monotonic() - began
        self.count(Reply(kind, stage, fault or "", detail, seconds))
        return None if fault else answer

    def count(self, reply):
        with self._lock:
            self.replies.append(reply)

    def faults(self):
        return [reply for reply in self.replies.copy() if reply.fault]

    # The examples of the document.

    def send_examples(self, connection):
        """Send all examples to fresh demo data; yield operation and response of each."""
        self.restore_demo(connection)
        for operation in operations(self.document):
            yield self.send_example(connection, *operation)
        if self.stage == self.new_stage:
            for operation in self.new_operations:
                # The examples before this one have removed members and tasks.
                self.restore_demo(connection)
                yield self.send_example(connection, *operation)

    def send_example(self, connection, path, method, operation):
        if needs_settings(path, operation):
            insert_settings(connection, self.document)
        credential = CREDENTIALS[credential_of(operation)]
        id, path = operation["operationId"], f"/api{path_with_examples(path, operation)}"
        body = example_of(operation.get("requestBody", {}))
        status = success_of(operation)
        return id, self.send(id, method.upper(), path, body, status=status, credential=credential)

    def restore_demo(self, connection):
        cast = ["acme", "globex", "initech"]
        connection.execute("DELETE FROM workspaces WHERE slug <> ALL (%s)", [cast])
        known = [f"{name}@example.com" for name in TOKENS]
        connection.execute("DELETE FROM users WHERE email <> ALL (%s)", [known])
        connection.execute("DELETE FROM deleted_users")
        self.release.must_run(self.url, "load", str(self.demo))
        sql = "SELECT id FROM users WHERE email = %s"
        owner = connection.execute(sql, [OWNER]).fetchone()["id"]
        insert_token(connection, owner, "tmw_api_ada")
        insert_token(connection, owner, "tmw_session_ada", kind="session")

    def record(self, connection):
        """Keep what the responses to the examples have in common if they are sent twice."""
        first, second = (dict(self.send_examples(connection)) for _ in range(2))
        assert not self.faults(), self.faults()
        self.recorded = {id: pattern(first[id], second[id]) for id in first}

    def compare(self, connection):
        while not self._stop.is_set():
            stage = self.stage
            for id, answer in self.send_examples(connection):
                # No response of the predecessor shows what a new operation must return.
                found = [*differences(self.recorded[id], answer, id)] if id in self.recorded else []
                if found and answer is not None:
                    self.count(Reply(id, stage, "failed", found))
            if stage == self.stage:
                self.rounds[stage] += 1

    # Objects with a life of their own.

    def live(self, connection):
        """Create, read, change and delete tasks and meetings; read every list in between."""
        lists = [
            (operation["operationId"], f"/api{path}")
            for path, method, operation in operations(self.document)
            if method == "get" and "{" not in path and credential_of(operation) == "bearer"
        ]
        while not self._stop.is_set():
            number = next(self._numbers)
            meeting = {**MEETING, "title": f"Meeting {number}"}
            self.live_one("Task", "tasks", {"title": f"Task {number}"}, number)
            self.live_one("Meeting", "meetings", meeting, number)
            kind, path = lists[number % len(lists)]
            self.send(kind, "GET", path, status=200)
            stage, document = (
                self.stage,
                self.send("getOpenapi", "GET", "/openapi.json", status=200),
            )
            if document and stage == self.stage:
                self.served[stage].add(has_new_member(document))
            self.send("checkHealth", "GET", "/healthz", status=200)
            self._stop.wait(0.02)

    def create_what_only_the_successor_can(self):
        """Create objects with an id, and many at once; return the path of a meeting with a room."""
        meeting = {**MEETING, "title": "In a room", "location": "Room 5"}
        created = self.send("createMeeting", "POST", "/api/meetings", meeting, status=201)
        assert created["location"] == "Room 5"
        chosen = str(uuid4())
        body = {"id": chosen, "title": "Task with an id"}
        assert self.send("createTask", "POST", "/api/tasks", body, status=201)["id"] == chosen
        self.known[chosen] = body["title"]
        parent, child = str(uuid4()), str(uuid4())
        create = [
            {"id": parent, "title": "Parent"},
            {"id": child, "title": "Child", "parentId": parent},
        ]
        batch = {"create": create, "delete": [{"id": chosen}]}
        assert self.send("changeTasks", "POST", "/api/tasks/batch", batch, status=200)
        self.known |= {parent: "Parent", child: "Child", chosen: None}
        return f"/api/meetings/{created['id']}"

    def live_one(self, name, plural, body, number):
        created = self.send(f"create{name}", "POST", f"/api/{plural}", body, status=201)
        if created is None:
            return
        path, title = f"/api/{plural}/{created['id']}", body["title"]
        self.created.add(created["id"])
        self.known[created["id"]] = title
        self.read(f"get{name}", path, title)
        changes, stage = {"title": f"{title}, changed"}, self.stage
        if self.send(f"update{name}", "PATCH", path, changes, status=200):
            self.changed[created["id"]] = stage, title
            self.known[created["id"]] = title = changes["title"]
            self.read(f"get{name}", path, title)
        if number % 3 == 0:
            self.known[created["id"]] = None
            self.send(f"delete{name}", "DELETE", path, status=204)
            self.send(f"get{name}", "GET", path, status=404)

    def read(self, kind, path, title):
        found = self.send(kind, "GET", path, status=200)
        if found and found["title"] != title:
            self.count(Reply(kind, self.stage, "lost", (title, found)))

    # Threads.

    @contextmanager
    def running(self):
        works = [self.compare, self.live, self.live, self.live]
        threads = [Thread(target=self._run, args=(work,)) for work in works]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()
        assert not self.errors, self.errors

    def _run(self, work):
        options = {"autocommit": True, "row_factory": dict_row}
        try:
            with psycopg.connect(self.url, **options) as connection:
                work(connection)
        except Exception as error:
            self.errors.append(error)

    def wait_for_round(self):
        """Return once all examples were sent and compared within this stage."""
        stage = self.stage
        # A round takes seconds; on a machine that is busy with other tests, a minute.
        wait_until(lambda: self.errors or self.rounds[stage] > 0, seconds=300)
        assert not self.errors, self.errors


# Members whose values differ in each response; the recordings may agree by chance.
VOLATILE = {
    *("createdAt", "updatedAt", "completedAt", "lastUsedAt", "remaining", "resetsAt", "timestamp"),
    *("token", "secret", "nextAttemptAt", "attempts", "nextCursor", "generatedAt", "milliseconds"),
}


class Varying(NamedTuple):
    """Stands for a value that differs from response to response, of one of these types."""

    types: frozenset


def pattern(first, second, name=""):
    """Return what two responses to one request have in common."""
    if isinstance(first, dict) and isinstance(second, dict) and first.keys() == second.keys():
        return {name: pattern(first[name], second[name], name) for name in first}
    if isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        return [pattern(one, other) for one, other in zip(first, second, strict=True)]
    if first == second and name not in VOLATILE:
        return first
    return Varying(frozenset({type(first), type(second)}))


def differences(expected, found, where):
    """Yield where a response lacks a member, or has another value. It may have more members."""
    match expected:
        case Varying(types):
            if type(found) not in types:
                yield f"{where}: {found!r} is none of {types}"
        case dict():
            if not isinstance(found, dict):
                yield f"{where}: {found!r} is no object"
                return
            for name, value in expected.items():
                if name in found:
                    yield from differences(value, found[name], f"{where}.{name}")
                else:
                    yield f"{where} lacks {name}"
        case list():
            if not isinstance(found, list) or len(found) != len(expected):
                yield f"{where}: {found!r} is no list of {len(expected)}"
                return
            for number, (value, item) in enumerate(zip(expected, found, strict=True)):
                yield from differences(value, item, f"{where}[{number}]")
        case _ if expected != found or type(expected) is not type(found):
            yield f"{where}: {found!r} instead of {expected!r}"


def has_new_member(document):
    return "location" in document["components"]["schemas"]["Meeting"]["properties"]


class Host:
    """A machine with one port, on which the web processes of one or two releases listen."""

    def __init__(self, url, listener):
        self.url, self.listener, self.port = url, listener, listener.getsockname()[1]
        self.stacks = {}

    def begin(self, release):
        """Start web and worker of a release; return once it answers at the port."""
        descriptor = self.listener.fileno()
        stack = self.stacks[release] = ExitStack()
        bind = ("--bind", f"fd://{descriptor}")
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        web = release.start(self.url, "gunicorn", "app:app", *bind, pass_fds=[descriptor], **quiet)
        stack.enter_context(ending(web))
        stack.enter_context(ending(release.start(self.url, "service", "worker", **quiet)))
        wait_until(lambda: self.answers_as(release), web)

    def end(self, release):
        """Send SIGTERM to the processes of a release; return once they have ended."""
        self.stacks.pop(release).close()

    def answers_as(self, release):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        with closing(connection), suppress(OSError, http.client.HTTPException):
            connection.request("GET", "/openapi.json", headers={"Connection": "close"})
            found = has_new_member(json.loads(connection.getresponse().read()))
            return found == release.is_new
        return False

    def close(self):
        for stack in self.stacks.values():
            stack.close()


@pytest.fixture
def database(empty, predecessor):
    """Yield a connection to a database that the predecessor made, with the cast and old rows."""
    predecessor.must_run(empty, "migrate")
    with psycopg.connect(empty, autocommit=True, row_factory=dict_row) as connection:
        cast = restore_cast(connection)
        connection.execute("INSERT INTO plans (name, per_minute) VALUES ('Unlimited', 1000000)")
        connection.execute("UPDATE workspaces SET plan = 'Unlimited'")
        connection.execute(
            "INSERT INTO workspaces (name, slug, plan) VALUES ('I', 'initech', 'Team')"
        )
        connection.execute(
            "INSERT INTO meetings (workspace_id, created_by, title, platform, start_time, end_time)"
            " SELECT id, id, 'Meeting ' || number, 'teams', now(), now() + interval '1 hour'"
            " FROM workspaces, generate_series(1, %s) AS number WHERE slug = 'initech'",
            [ROWS_BEFORE],
        )
        connection.execute(
            "INSERT INTO tasks (workspace_id, created_by, title) SELECT id, id, 'Task ' || number"
            "  FROM workspaces, generate_series(1, %s) AS number WHERE slug = 'initech'",
            [ROWS_BEFORE],
        )
        yield connection, cast


@pytest.fixture
def host(empty, database):
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listener:
        host = Host(empty, listener)
        yield host
        host.close()


@pytest.fixture
def clients(host, empty, document, predecessor):
    return Clients(host.port, empty, document, predecessor)


# While a transaction that has read the tables keeps its snapshot, a migration waits that locks a
# table or builds an index. The transaction locks no row: the first reader of a feed waits for each
# transaction that may be changing a task or a meeting.
HOLD = "SELECT FROM tasks, meetings LIMIT 1"
WAITING = """
    SELECT FROM pg_stat_activity
     WHERE application_name LIKE '%% migrate %%' AND %s = ANY (pg_blocking_pids(pid))
"""


def upgrade(successor, clients, connection):
    """Apply the successor's migrations one by one; return their kinds by name.

    While each of them runs, or at least between it and the next, every kind of request is sent.
    """
    schema, later = successor.folder / "sql/schema", successor.folder / "later"
    pending = successor.must_run(clients.url, "migrate", "--dry-run").split()
    files = [name for name in pending if name.startswith("functions/")]
    names = pending[: len(pending) - len(files)]
    later.mkdir()
    (successor.folder / "sql/functions").rename(later / "functions")
    # Before the last migration, the database lacks parts that the catalogue names.
    catalogue = successor.folder / "sql/catalogue.json"
    complete = catalogue.read_text()
    catalogue.write_text('{"tables": {}, "sequences": []}')
    for name in names:
        (schema / f"{name}.sql").rename(later / f"{name}.sql")
    kinds = {}
    for name in names:
        (later / f"{name}.sql").rename(schema / f"{name}.sql")
        first, _, _ = (schema / f"{name}.sql").read_text().partition("\n")
        kinds[name] = first if first.startswith("-- migrate: ") else "in a transaction"
        clients.stage = f"old code, {name}"
        apply(successor, clients, connection, [name])
    (later / "functions").rename(successor.folder / "sql/functions")
    catalogue.write_text(complete)
    clients.stage = "old code, functions"
    apply(successor, clients, connection, files)
    return kinds


def apply(successor, clients, connection, names):
    pipe = subprocess.PIPE
    with psycopg.connect(clients.url) as holder:
        holder.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        holder.execute(HOLD)
        process = successor.start(clients.url, "service", "migrate", stdout=pipe, stderr=pipe)
        pid = [holder.info.backend_pid]
        wait_until(lambda: process.poll() is not None or connection.execute(WAITING, pid).rowcount)
        clients.wait_for_round()
        holder.rollback()
    printed, errors = process.communicate(timeout=120)
    assert (process.returncode, printed.split()) == (0, names), errors


def wrong_events(clients, events, stages):
    """Yield the events of changes in these stages that do not say what the object was before."""
    updates = {event["data"]["id"]: event for event in events if event["type"].endswith(".updated")}
    for id, (stage, title) in clients.changed.items():
        if stage in stages:
            event = updates.get(id, {})
            said = event.get("changed"), event.get("previous")
            if said != (["title"], {"title": title}):
                yield stage, title, event


def test_a_release_and_its_successor_serve_every_request_during_an_upgrade_and_a_rollback(
    predecessor, successor, host, clients, database, receiver
):
    connection, cast = database
    url = clients.url
    subscribe(connection, cast["acme"], receiver.url)

    def enter(stage, release):
        clients.release, clients.stage = release, stage
        clients.wait_for_round()

    host.begin(predecessor)
    clients.record(connection)
    status, printed = successor.run(url, "check", "--start")
    assert (status, INDEX in printed) == (1, True), printed
    with clients.running():
        enter("old code, old schema", predecessor)
        kinds = upgrade(successor, clients, connection)
        assert [*kinds][-2:] == [INDEX, BACKFILL]
        assert len({*kinds.values()}) == 3, kinds
        enter("old code, new schema", predecessor)
        successor.must_run(url, "check", "--start")
        clients.stage = "the new code starts"
        host.begin(successor)
        enter("both", successor)
        host.end(predecessor)
        clients.new_operations = new_operations(clients.document, successor)
        clients.new_stage = "new code, new schema"
        enter(clients.new_stage, successor)
        path = clients.create_what_only_the_successor_can()
        predecessor.must_run(url, "check", "--start")
        clients.stage = "the old code starts again"
        host.begin(predecessor)
        enter("both again", predecessor)
        host.end(successor)
        enter("old code again", predecessor)
        clients.send("updateMeeting", "PATCH", path, {"title": "Renamed"}, status=200)
    due = "SELECT FROM deliveries WHERE state = 'waiting' AND workspace_id = %s LIMIT 1"
    wait_until(lambda: not connection.execute(due, [cast["acme"]]).rowcount)
    show(clients)
    assert not clients.faults(), clients.faults()[:5]
    assert clients.served["both"] == clients.served["both again"] == {False, True}
    assert clients.served["new code, new schema"] == {True}
    assert clients.served["old code again"] == {False}
    rows = "SELECT id::text, title FROM tasks UNION ALL SELECT id::text, title FROM meetings"
    left = {row["id"]: row["title"] for row in connection.execute(rows)}
    lost = {id: title for id, title in clients.known.items() if left.get(id) != title}
    assert not lost
    events = [json.loads(received.body) for received in receiver.take_all()]
    announced = {event["data"]["id"] for event in events if event["type"].endswith(".created")}
    assert not clients.created - announced
    # announce() is in the database, so events of the old code say what the object was before, too.
    stages = {"old code, new schema", "both", "new code, new schema", "old code again"}
    assert stages <= {stage for stage, _ in clients.changed.values()}
    assert not [*wrong_events(clients, events, stages)]
    # The old code has changed a meeting, and kept the value of a column that it does not know.
    renamed = "SELECT location FROM meetings WHERE title = 'Renamed'"
    assert connection.execute(renamed).fetchone() == {"location": "Room 5"}


def new_operations(document, successor):
    """Return the operations that the successor's document has and this document lacks."""
    new = json.loads(successor.must_run("postgresql:///unused", "openapi"))
    known = {operation["operationId"] for _, _, operation in operations(document)}
    return [item for item in operations(new) if item[2]["operationId"] not in known]


def show(clients):
    """Print the numbers of requests by stage and kind, for those who run pytest with -s."""
    stages = Counter(reply.stage for reply in clients.replies)
    slowest = {
        stage: max(reply.seconds for reply in clients.replies if reply.stage == stage)
        for stage in stages
    }
    for stage, number in stages.items():
        kinds = len({reply.kind for reply in clients.replies if reply.stage == stage})
        faults = Counter(reply.fault for reply in clients.replies if reply.stage == stage)
        print(
            f"{stage}: {number} requests of {kinds} kinds, slowest {slowest[stage]:.2f} s,"
            f" {faults['refused']} refused, {faults['failed']} failed, {faults['lost']} lost"
        )
    print(f"{clients.repeated} first readers of a feed were told to try again")
    print(Counter(reply.kind for reply in clients.replies))
