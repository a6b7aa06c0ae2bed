"""Clients that send requests without a pause and record each response."""

import http.client
import json
import os
import signal
import time
from collections import Counter
from dataclasses import dataclass
from itertools import count
from threading import Event, Lock, Thread

from support.processes import children, wait_until
from support.rows import TOKENS

NUMBERS = count()
# Two processes with four threads each.
WEB = {"WEB_CONCURRENCY": "2", "WEB_THREADS": "4"}


@dataclass(frozen=True)
class Reply:
    """A response. Its status is None if the connection broke before the response came."""

    started: float
    seconds: float
    status: int | None
    title: str
    id: str | None
    headers: dict


def create(title):
    return "POST", "/api/tasks", {"title": title}


def read(_title):
    return "GET", "/api/tasks?limit=20", None


class Load:
    """Clients that send one request after the other until the block ends, or up to ``limit``.

    If ``keyed`` is true, each request has an idempotency key, and the client repeats the request
    until it gets a response other than 503.
    """

    def __init__(
        self,
        *ports,
        clients=6,
        request=create,
        token=TOKENS["alice"],
        keep_alive=False,
        limit=20_000,
        pause=0.0,
        keyed=False,
    ):
        self.ports, self.request, self.token = ports, request, token
        self.keep_alive, self.limit, self.pause, self.keyed = keep_alive, limit, pause, keyed
        self.stop = Event()
        self.replies = []
        self._new = Event()
        self._lock = Lock()
        self.errors = []
        self.threads = [Thread(target=self._run, args=(number,)) for number in range(clients)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join()
        assert not self.errors, self.errors

    def _run(self, number):
        connection = title = None
        try:
            while (title or not self.stop.is_set()) and len(self.replies) < self.limit:
                connection = connection or self._connect(number)
                title = title or f"load-{next(NUMBERS)}"
                reply = self._send(connection, title)
                self.replies.append(reply)
                if not (self.keyed and reply.status in (None, 503)):
                    title = None
                self._new.set()
                if reply.status is None or not self.keep_alive:
                    connection.close()
                    connection = None
                if reply.status not in (200, 201, 429):
                    self.stop.wait(0.02)
                elif self.pause:
                    self.stop.wait(self.pause)
        except Exception as error:
            self.errors.append(error)
        finally:
            if connection:
                connection.close()

    def _connect(self, number):
        port = self.ports[(number + len(self.replies)) % len(self.ports)]
        return http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def _send(self, connection, title):
        method, path, document = self.request(title)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        if not self.keep_alive:
            headers["Connection"] = "close"
        if self.keyed:
            headers["Idempotency-Key"] = title
        body = None if document is None else json.dumps(document)
        started = time.monotonic()
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            content = json.loads(response.read() or b"null")
        except (OSError, http.client.HTTPException):
            return Reply(started, time.monotonic() - started, None, title, None, {})
        id = content.get("id") if response.status == 201 else None
        seconds = time.monotonic() - started
        headers = {name.lower(): value for name, value in response.getheaders()}
        if response.status == 503:
            assert content["status"] == 503
            assert "retry-after" in headers
        return Reply(started, seconds, response.status, title, id, headers)

    def wait_for(self, happened, seconds=60):
        """Return once ``happened(self)`` is true, which is called again after each new reply."""
        end = time.monotonic() + seconds
        while not happened(self):
            assert time.monotonic() < end, Counter(reply.status for reply in self.replies)
            assert not self.errors, self.errors
            self._new.wait(0.1)
            self._new.clear()

    def wait_for_replies(self, number):
        goal = len(self.good()) + number
        self.wait_for(lambda load: len(load.good()) >= goal)

    def recovery(self, since):
        """Return the seconds from ``since`` to the end of the first good request begun after it."""
        self.wait_for(lambda load: load.good(since))
        return min(reply.started + reply.seconds for reply in self.good(since)) - since

    def good(self, since=0.0):
        return [
            reply
            for reply in self.replies.copy()
            if reply.status in (200, 201) and reply.started >= since
        ]

    @property
    def acknowledged(self):
        return {reply.id: reply.title for reply in self.replies if reply.id}

    def number(self, *statuses):
        return sum(reply.status in statuses for reply in self.replies)

    def other_than(self, *statuses):
        return sum(reply.status not in statuses for reply in self.replies)

    @property
    def slowest(self):
        return max(reply.seconds for reply in self.replies)

    def percentile(self, share):
        return percentile(self.good(), share)


def percentile(replies, share):
    times = sorted(reply.seconds for reply in replies)
    return times[min(len(times) - 1, int(share * len(times)))]


def compare_tasks(measure, connection, load):
    rows = connection.execute("SELECT id::text, title FROM tasks").fetchall()
    kept = {row["id"] for row in rows}
    titles = Counter(row["title"] for row in rows)
    measure("acknowledged tasks that are lost", len(load.acknowledged.keys() - kept), exactly=0)
    measure("doubled tasks", sum(number - 1 for number in titles.values()), exactly=0)


def compare_events(measure, connection):
    events = Counter(
        row["id"]
        for row in connection.execute(
            "SELECT body::json -> 'data' ->> 'id' AS id FROM events WHERE type = 'task.created'"
        )
    )
    tasks = {row["id"] for row in connection.execute("SELECT id::text FROM tasks")}
    measure("tasks without an event", len(tasks - events.keys()), exactly=0)
    measure("events without a task", len(events.keys() - tasks), exactly=0)


def kill(server):
    for pid in (server.pid, *children(server.pid)):
        os.kill(pid, signal.SIGKILL)
    server.wait()


def wait_until_delivered(connection, seconds=120):
    due = "SELECT FROM deliveries WHERE state = 'waiting' LIMIT 1"
    wait_until(lambda: not connection.execute(due).rowcount, seconds=seconds)
