"""Clients that send requests of every kind at a steady rate, and keep what they were told."""

import http.client
import json
import re
from contextlib import contextmanager
from itertools import pairwise
from random import Random
from threading import Event, Lock, Thread
from time import monotonic
from typing import NamedTuple
from uuid import UUID

import psycopg

from bench.cases import NEW
from bench.stage import WORKSPACES, row_id

CLIENTS = 32

MEETING = {
    "title": "Weekly",
    "startTime": "2036-05-05T09:00:00Z",
    "endTime": "2036-05-05T10:00:00Z",
}


class Ask(NamedTuple):
    """A request, and the status that its response must have."""

    method: str
    path: str
    body: dict | None = None
    status: int = 200
    headers: dict = {}

    @property
    def kind(self):
        """The request in words, without ids and with the names of its parameters."""
        path = re.sub("[0-9a-f]{8}-[0-9a-f-]{27}", "ID", self.path)
        path = re.sub("=[^&]*", "", path)
        conditions = "".join(f", {name}" for name in self.headers)
        return f"{self.method} {path}{conditions}"


class Reply(NamedTuple):
    kind: str
    began: float
    seconds: float
    # "refused", "failed" or "lost"; empty if the response is as it should be.
    fault: str
    detail: str


def another(random):
    """Return a body that changes the title of a task or meeting, whatever its title is."""
    return {"title": f"Another title, number {random.random()}"}


def visits(user, tasks, random, extras):
    """Yield the requests of one user without end; the caller sends back the JSON of a response.

    ``extras`` returns the requests that only some releases know, as :class:`Extras` names them; it
    is asked each time, because the release changes.
    """
    workspace = row_id(user % WORKSPACES)
    page = yield Ask("GET", "/api/events")
    cursor = page.get("nextCursor")
    lists = ["/api/tasks", "/api/tasks?status=todo&priority=high", "/api/tasks?sort=dueDate"]
    lists += ["/api/tasks?q=notes", "/api/tasks?dueAfter=2026-01-01&dueBefore=2026-02-01"]
    lists += ["/api/tasks?assignee=me", "/api/tasks?projectId=common", "/api/tasks?parentId=none"]
    lists += ["/api/meetings", "/api/meetings?upcoming=true", "/api/workspaces", "/api/me"]
    lists += ["/api/mail", "/api/knowledge", "/api/ai/suggestions", "/openapi.json"]
    lists += [f"/api/workspaces/{workspace}/members", f"/api/workspaces/{workspace}"]
    # Counting the million tasks of workspace 0 would take longer than a request may.
    lists += ["/api/dashboard/stats" if user % WORKSPACES else "/api/tasks", "/healthz"]
    while True:
        # An old task of this workspace, which the migrations change as well.
        number = user % WORKSPACES + WORKSPACES * random.randrange(tasks // 2 // WORKSPACES)
        old = f"/api/tasks/{row_id(2 * number)}"
        match random.randrange(8):
            case 0:
                found = yield Ask("GET", old)
                tag = {"If-None-Match": f'"{found.get("version")}"'}
                yield Ask("GET", old, status=304, headers=tag)
                yield Ask("PATCH", old, another(random))
            case 1 | 2:
                yield from life(*random.choice([("tasks", NEW), ("meetings", MEETING)]), random)
            case 3 if cursor:
                page = yield Ask("GET", f"/api/events?after={cursor}")
                cursor = page.get("nextCursor", cursor)
            case 4:
                query = random.choice(["limit=5", "limit=5&status=todo", "limit=5&sort=dueDate"])
                page = yield Ask("GET", f"/api/tasks?{query}")
                if page.get("nextCursor"):
                    yield Ask("GET", f"/api/tasks?{query}&cursor={page['nextCursor']}")
            case 5:
                yield from account(user, random)
            case 6 if extras():
                yield from getattr(Extras, random.choice(extras()))(random, old)
            case _:
                yield Ask("GET", random.choice(lists))


def life(plural, body, random):
    """Create an object, twice with one key, then read, change and perhaps delete it."""
    path, key = f"/api/{plural}", {"Idempotency-Key": f"bench-{random.random()}"}
    made = yield Ask("POST", path, body, 201, key)
    if "id" not in made:
        return
    again = yield Ask("POST", path, body, 201, key)
    if again.get("id", made["id"]) != made["id"]:
        raise AssertionError(f"two objects for one Idempotency-Key: {made}, {again}")
    path = f"{path}/{made['id']}"
    yield Ask("GET", path)
    yield Ask("PATCH", path, another(random), headers={"If-Match": '"1"'})
    yield Ask("PATCH", path, another(random), 412, {"If-Match": '"1"'})
    if plural == "tasks":
        subtask = yield Ask("POST", "/api/tasks", {"title": "A part", "parentId": made["id"]}, 201)
        if "id" in subtask:
            done = {"status": "done"}
            yield Ask("PATCH", f"/api/tasks/{subtask['id']}", done)
            yield Ask("GET", f"/api/tasks?parentId={made['id']}")
            # Deleting the parent would delete the subtask, too.
            yield Ask("DELETE", f"/api/tasks/{subtask['id']}", status=204)
    if random.random() < 0.5:
        yield Ask("DELETE", path, status=204)
        yield Ask("GET", path, status=404)


def account(user, random):
    yield Ask("PATCH", "/api/me", {"name": f"User {random.randrange(1000)}"})
    # Only a session manages tokens.
    session = {"Cookie": f"session=session-{user}"}
    yield Ask("GET", "/api/tokens", headers=session)
    new = {"name": f"of {user}", "scope": "read"}
    token = yield Ask("POST", "/api/tokens", new, 201, session)
    if "id" in token:
        yield Ask("DELETE", f"/api/tokens/{token['id']}", None, 204, session)
    yield Ask("POST", "/api/tasks", {"title": ""}, 400)
    yield Ask("POST", "/api/workspaces", {}, 405)


class Extras:
    """Requests that a release since 1.1.0 knows: each takes ``random`` and the path of a task."""

    @staticmethod
    def ids(random, _):
        new = str(UUID(int=random.getrandbits(128), version=4))
        yield Ask("POST", "/api/tasks", {"id": new, "title": "Made offline"}, 201)
        yield Ask("POST", "/api/tasks", {"id": new, "title": "Made offline"}, 409)
        new = str(UUID(int=random.getrandbits(128), version=4))
        yield Ask("POST", "/api/meetings", {"id": new, **MEETING}, 201)

    @staticmethod
    def batches(random, old):
        first, second = (str(UUID(int=random.getrandbits(128), version=4)) for _ in range(2))
        create = [{"id": first, "title": "All at once"}, {"id": second, "title": "A part"}]
        create[1]["parentId"] = first
        update = [{"id": old.rpartition("/")[2], **another(random)}]
        yield Ask("POST", "/api/tasks/batch", {"create": create, "update": update})
        yield Ask("POST", "/api/tasks/batch", {"delete": [{"id": second}]})

    @staticmethod
    def completed(_random, _):
        yield Ask("GET", "/api/tasks?completedAfter=2023-11-01&completedBefore=2024-01-01")
        page = yield Ask("GET", "/api/tasks?sort=completedAt&limit=5")
        if page.get("nextCursor"):
            yield Ask("GET", f"/api/tasks?sort=completedAt&limit=5&cursor={page['nextCursor']}")

    # Each change of an old task changes its title as well, so that each has an event.

    @staticmethod
    def metadata(random, old):
        place = {"metadata": {"place": f"{random.random()}"}}
        yield Ask("PATCH", old, another(random) | place)
        yield Ask("PATCH", old, another(random) | {"metadata": {"place": None}})
        yield Ask("POST", "/api/meetings", MEETING | place, 201)

    @staticmethod
    def completers(random, old):
        yield Ask("PATCH", old, another(random) | {"status": "done"})
        yield Ask("GET", "/api/tasks?completedBy=me&limit=5")
        yield Ask("PATCH", old, another(random) | {"status": "todo"})

    @staticmethod
    def dry_runs(random, old):
        new = str(UUID(int=random.getrandbits(128), version=4))
        create = {"id": new, "title": "Only tried"}
        yield Ask("POST", "/api/tasks?dryRun=true", create, 201)
        yield Ask("POST", "/api/tasks/batch?dryRun=true", {"create": [create]})
        yield Ask("GET", f"/api/tasks/{new}", status=404)
        yield Ask("PATCH", f"{old}?dryRun=true", another(random))
        yield Ask("DELETE", f"{old}?dryRun=true", status=204)
        yield Ask("GET", old)

    @staticmethod
    def known_to(document):
        """Return the names of the requests that this OpenAPI document describes."""
        paths, schemas = document["paths"], document["components"]["schemas"]
        parameters = [
            parameter.get("name") for parameter in paths["/api/tasks"]["get"].get("parameters", ())
        ]
        new_id = schemas["TaskInput"]["properties"].get("id", {"readOnly": True})
        found = {
            "ids": not new_id.get("readOnly"),
            "batches": "/api/tasks/batch" in paths,
            "completed": "completedAfter" in parameters,
            "metadata": "metadata" in schemas["TaskInput"]["properties"],
            "completers": "completedBy" in parameters,
            "dry_runs": "dryRun"
            in [
                parameter.get("name")
                for parameter in paths["/api/tasks"]["post"].get("parameters", ())
            ],
        }
        return [name for name, known in found.items() if known]


class Load:
    """Clients that together send requests of every kind at a steady rate."""

    def __init__(self, port, tasks, rate):
        self.port, self.tasks, self.interval = port, tasks, CLIENTS / rate
        # The names of further requests, which all hosts know at this moment.
        self.extras = []
        self.replies, self.errors = [], []
        # By table and id: the newest acknowledged version, with the title; None after a DELETE.
        self.known = {}
        # The id and the version of each acknowledged change.
        self.changes = set()
        # By user: the connection of a client that keeps it, as every second client does.
        self._kept = {}
        self._stop, self._lock = Event(), Lock()
        self._threads = [Thread(target=self._run, args=(user,)) for user in range(CLIENTS)]

    @contextmanager
    def running(self):
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in self._threads:
                thread.join()
            for connection in self._kept.values():
                connection.close()
        if self.errors:
            raise self.errors[0]

    def _run(self, user):
        try:
            self._visit(user)
        except Exception as error:
            self.errors.append(error)

    def _visit(self, user):
        random = Random(user)  # noqa: S311
        answer = None
        due = monotonic() + user * self.interval / CLIENTS
        while not self._stop.wait(max(0.0, due - monotonic())):
            # A client whose request took long leaves out the requests that it has missed.
            due = max(due + self.interval, monotonic())
            if answer is None:
                # The client begins, or it does not know what has become of its last request.
                requests = visits(user, self.tasks, random, lambda: self.extras)
            answer = self._send(user, requests.send(answer))

    def _send(self, user, ask):
        """Send a request; return the JSON, which is empty on a fault, or None without a response.

        Half of the clients keep their connections. They do not look whether the server has closed
        an idle one before they send the next request, and so they lose it. The others use a
        connection of its own for each request.
        """
        keeps = user % 2 == 1
        connection = self._kept.pop(user, None)
        words = "on a kept connection: " if connection else ""
        if connection is None:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {"Content-Type": "application/json", **ask.headers}
        if not keeps:
            headers["Connection"] = "close"
        if "Cookie" not in headers:
            headers["Authorization"] = f"Bearer bench-{user}"
        began, fault, detail, answer = monotonic(), "", "", {}
        try:
            text = None if ask.body is None else json.dumps(ask.body)
            connection.request(ask.method, ask.path, text, headers)
            response = connection.getresponse()
            answer = json.loads(response.read() or b"{}")
            if response.status != ask.status:
                # 502 and 504 come from nginx: no host has answered.
                fault = "refused" if response.status in (429, 502, 503, 504) else "failed"
                detail = f"{response.status} {answer.get('message')}"
        except (OSError, http.client.HTTPException) as error:
            fault, detail = "lost", f"{words}no response: {error!r}"
        if keeps and fault != "lost":
            self._kept[user] = connection
        else:
            connection.close()
        with self._lock:
            self.replies.append(Reply(ask.kind, began, monotonic() - began, fault, detail))
            if not fault and ask.status < 300:
                self._remember(ask, answer)
        if fault == "lost":
            return None
        return answer if isinstance(answer, dict) and not fault else {}

    def _remember(self, ask, answer):
        _, _, table, *rest = f"{ask.path}/".split("/")
        if table not in ("tasks", "meetings") or ask.method == "GET" or "dryRun" in ask.path:
            return
        if ask.method == "DELETE":
            self.known[table, rest[0]] = None
            return
        batch = {"updated": [answer], "created": [], "deleted": []}
        if rest[0] == "batch":
            batch = answer
        for item in (*batch["created"], *batch["updated"]):
            self.changes.add((item["id"], item["version"]))
            before = self.known.get((table, item["id"]), (0, ""))
            if before is not None:
                self.known[table, item["id"]] = max(before, (item["version"], item["title"]))
        for id in batch["deleted"]:
            self.known[table, id] = None

    def between(self, began, ended):
        return [reply for reply in self.replies.copy() if began <= reply.began <= ended]

    def lost(self, url):
        """Yield a sentence for each acknowledged change that is not in the database as it was."""
        with psycopg.connect(url) as connection:
            for table in ("tasks", "meetings"):
                sql = f"SELECT id::text, version, title FROM {table} WHERE id = ANY (%s)"  # noqa: S608
                ids = [UUID(id) for kind, id in self.known if kind == table]
                found = {id: row for id, *row in connection.execute(sql, [ids]).fetchall()}
                for (kind, id), known in self.known.items():
                    left = found.get(id)
                    if kind == table and (tuple(left) if left else None) != known:
                        yield f"{table} {id}: acknowledged {known}, found {left}"
            events = connection.execute(
                "SELECT body::json -> 'data' ->> 'id', (body::json -> 'data' ->> 'version')::int"
                "  FROM events WHERE type LIKE '%.created' OR type LIKE '%.updated'"
            ).fetchall()
        for change in self.changes - set(events):
            yield f"no event of the change {change}"


def pause(replies):
    """Return the longest time in seconds in which no request ended well."""
    ends = sorted(reply.began + reply.seconds for reply in replies if not reply.fault)
    return max((after - before for before, after in pairwise(ends)), default=0.0)
