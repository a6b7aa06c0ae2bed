"""The test double in Python: the users of its initial state, and methods that control it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import urllib3

from pytest_task_service.process import Command, Process

# pytest leaves the frames of this module out of tracebacks.
__tracebackhide__ = True

JSON = dict[str, Any]


@dataclass(frozen=True)
class Workspace:
    """A workspace of the initial state."""

    id: str
    name: str
    slug: str
    plan: str


@dataclass(frozen=True)
class User:
    """A user of the initial state, with an API token and the value of the cookie ``session``."""

    id: str
    name: str
    email: str
    role: str
    token: str
    cookie: str
    workspace: Workspace


@dataclass(frozen=True)
class Post:
    """A post with a valid signature to the receiver of webhooks."""

    # The status of the receiver's response; None without a response.
    status: int | None
    # The names are in lower case.
    headers: dict[str, str]
    # The text as it was sent.
    body: str

    @property
    def event(self) -> JSON:
        """The body as JSON."""
        event: JSON = json.loads(self.body)
        return event


@dataclass(frozen=True)
class Request:
    """A request that a client sent to the API, without its credential."""

    method: str
    # Without the query.
    path: str
    query: str
    # The names are in lower case.
    headers: dict[str, str]
    # The text; the double keeps at most 65 536 characters.
    body: str
    # The status of the response; None if the connection was closed instead.
    status: int | None

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


class ControlURL:
    """Sends requests to the control URL of a double. ``process`` is the process that runs it."""

    def __init__(self, url: str, process: Process | None) -> None:
        self._url, self._process = url, process
        self._http = urllib3.PoolManager(retries=False, timeout=60)

    def __call__(self, method: str, path: str, /, **values: Any) -> JSON:
        """Send a request, and return the response. Raises ValueError if the double rejects it."""
        given = {name: value for name, value in values.items() if value is not None}
        return self.send(method, path, None if method == "GET" else json.dumps(given))

    def send(self, method: str, path: str, body: str | None) -> JSON:
        """Send a request with this body, and return the response.

        Raises ValueError with the double's message if the double rejects the request, and
        RuntimeError with the end of the log if the service has ended.
        """
        headers = {"Content-Type": "application/json"}
        try:
            response = self._http.request(method, f"{self._url}/{path}", body=body, headers=headers)
        except urllib3.exceptions.HTTPError:
            if self._process:
                self._process.require()
            raise
        content: JSON = json.loads(response.data)
        if response.status >= 500 and self._process:
            # When a service is killed, its web process may answer for a moment longer, without a
            # database.
            self._process.require()
        if response.status != 200:
            raise ValueError(content["message"])
        return content


class Webhooks:
    """The receiver of the owner's webhook."""

    def __init__(self, control: ControlURL, webhook: JSON) -> None:
        self._control = control
        self.id: str = webhook["id"]
        self.secret: str = webhook["secret"]

    @property
    def posts(self) -> list[Post]:
        """All posts with a valid signature, in the order of their arrival."""
        return [Post(**post) for post in self._control("GET", "events")["data"]]

    @property
    def events(self) -> list[JSON]:
        """The bodies of the posts that the receiver accepted, in the order of their arrival."""
        return [post.event for post in self.posts if post.status == 204]

    def deliver(self) -> int:
        """Attempt all waiting deliveries, even if they are not due; return the number of attempts.

        After a failed attempt, the other deliveries of that webhook wait for the next call.
        """
        attempts: int = self._control("POST", "deliver")["attempts"]
        return attempts

    def duplicate(self) -> int:
        """Deliver all delivered events again, and return the number of attempts."""
        attempts: int = self._control("POST", "duplicate")["attempts"]
        return attempts

    def reorder(self) -> None:
        """Let events wait from now on. ``deliver`` posts the waiting events, newest first."""
        self._control("POST", "reorder")

    def ping(self) -> int | None:
        """Post a test event, and return the status; None if the receiver did not respond."""
        status: int | None = self._control("POST", "ping")["status"]
        return status

    def rotate(self) -> str:
        """Give the webhook a new secret, with which the receiver verifies until the next reset."""
        self.secret = self._control("POST", "rotate")["secret"]
        return self.secret

    def accept(self) -> None:
        """Accept posts again. Posts that hang end."""
        self._control("POST", "behavior", behavior="accept")

    def fail(self, status: int = 500, times: int | None = None) -> None:
        """Respond with this status to the next ``times`` posts; without it, to all from now on."""
        self._control("POST", "behavior", behavior="fail", status=status, times=times)

    def hang(self, times: int | None = None) -> None:
        """Do not respond to the next ``times`` posts; without it, to none from now on."""
        self._control("POST", "behavior", behavior="hang", times=times)

    def gone(self) -> None:
        """Respond with 410, which disables the webhook."""
        self._control("POST", "behavior", behavior="gone")

    def create(self, url: str, *events: str) -> str:
        """Send these types of events, or all, to another receiver as well; return its secret."""
        secret: str = self._control("POST", "webhooks", url=url, events=list(events))["secret"]
        return secret


class Snapshot:
    """A state that resets restore. The end of a ``with`` block forgets it, and resets."""

    def __init__(
        self, control: ControlURL, reset: Callable[[], None], name: str | None = None
    ) -> None:
        self._control, self._reset, self.name = control, reset, name

    def forget(self) -> None:
        """Remove the snapshot. If it has no name, resets restore the initial state again."""
        self._control("POST", "forget-snapshot", name=self.name)

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, *_: object) -> None:
        self.forget()
        self._reset()


class Service:
    """A running service. Clients send their requests to ``base_url``.

    ``line`` is the line that ``task-service dev --json`` prints.
    """

    def __init__(self, line: JSON, process: Process | None = None) -> None:
        self.process = process
        self.version: str = line["version"]
        self.base_url: str = line["baseUrl"]
        self.control_url: str = line["controlUrl"]
        self.database_url: str = line["databaseUrl"]
        self.token: str = line["token"]
        self.cookie: str = line["cookie"]
        self.user, self.member, self.stranger = (
            User(**{**line[name], "workspace": Workspace(**line[name]["workspace"])})
            for name in ("user", "member", "stranger")
        )
        self.workspace = self.user.workspace
        self._control = ControlURL(self.control_url, process)
        self.webhooks = Webhooks(self._control, line["webhook"])

    @classmethod
    def start(
        cls,
        command: str | None = None,
        *,
        folders: Iterable[Path] = (),
        database: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Service:
        """Start a service, and return it. ``with`` or ``stop`` ends the service.

        Without ``command``, search for the command as the plugin does. A relative ``command`` is
        looked for in these folders, and then in the working directory.

        Raises RuntimeError with the end of the log if the start fails.
        """
        process = Process(Command.find(command, *folders), environment or {}, database)
        try:
            return cls(json.loads(process.wait()), process)
        except BaseException:
            process.stop()
            raise

    def stop(self) -> None:
        """End the service."""
        if self.process:
            self.process.stop()
        else:
            self._control("POST", "stop")

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def reset(self, name: str | None = None) -> None:
        """Restore the snapshot of this name. Ids and tokens stay the same.

        Without a name, restore the snapshot that has none, or else the initial state.
        """
        self.webhooks.secret = self._control("POST", "reset", name=name)["secret"]

    def snapshot(self, name: str | None = None) -> Snapshot:
        """Keep the present state: ``reset(name)`` restores it.

        Without a name, all resets restore it until the snapshot is forgotten. For a fixture of a
        module: ``with task_service_running.snapshot(): yield``.
        """
        self._control("POST", "snapshot", name=name)
        return Snapshot(self._control, self.reset, name)

    @property
    def requests(self) -> list[Request]:
        """The newest 1 000 requests to the API since the reset, in the order of their responses."""
        return [Request(**sent) for sent in self._control("GET", "requests")["data"]]

    def load(self, *objects: Mapping[str, Any]) -> list[Any]:
        """Load objects as ``task-service load`` does: ``{"type": "task", "title": "Write"}``.

        Returns the id of each object, and None for a member, which has no id. A time may be a
        datetime. ``workspace`` and ``user`` default to the owner's workspace and e-mail address,
        except that a member must name its user. If an object is invalid, loads nothing, and raises
        ValueError with the first error.
        """
        lines = (json.dumps(item, default=iso) for item in objects)
        ids: list[Any] = self._control.send("POST", "load", "\n".join(lines))["ids"]
        return ids

    def plan(
        self,
        name: Literal["Starter", "Pro", "Team"] | None = None,
        *,
        per_minute: int | None = None,
        per_day: int | None = None,
    ) -> None:
        """Put the owner's workspace on a plan, and change its limits, until the next reset."""
        self._control("POST", "plan", name=name, perMinute=per_minute, perDay=per_day)

    @property
    def now(self) -> datetime:
        """The time of the service's clock, in UTC."""
        now: str = self._control("GET", "clock")["now"]
        return datetime.strptime(now, "%Y-%m-%dT%H:%M:%S.%f%z")

    def set_clock(self, now: str | datetime) -> None:
        """Set the clock of the service until the next reset. The clock goes on from that time.

        ``set_clock(service.now + timedelta(days=7))`` lets a week pass: credentials expire, and
        deliveries become due. Objects that are created afterwards have later timestamps.
        """
        self._control("POST", "clock", now=now if isinstance(now, str) else iso(now))

    def fault(
        self,
        kind: Literal[
            "500",
            "503",
            "429",
            "drop",
            "drop-after-commit",
            "truncated",
            "garbled",
            "slow",
            "latency",
        ],
        *,
        times: int | None = None,
        skip: int = 0,
        rate: float | None = None,
        seed: int | None = None,
        seconds: float = 1,
        jitter: float | None = None,
        method: str | None = None,
        path: str | None = None,
    ) -> None:
        """Let the next ``skip`` requests pass, and the ``times`` requests after them meet a fault.

        Only requests with this method and path count, if these are given. ``*`` in a path stands
        for any text. ``times`` is 1 by default.

        With ``rate``, from 0 to 1, each of these requests meets the fault with this probability,
        until the next reset or ``times``. The same ``seed`` makes the same choices. Without one,
        the double chooses it, and ``unmet_faults`` and the report of a failed test name it.

        - ``500``, ``503``, ``429``: respond with this status and change nothing; 503 and 429 have
          a Retry-After of ``seconds``.
        - ``drop``: close the connection before the change.
        - ``drop-after-commit``: close the connection after the change.
        - ``truncated``: send half of the body. ``garbled``: send a body that is not JSON.
        - ``slow``: wait ``seconds``, and up to ``jitter`` seconds more, before the change.
        - ``latency``: let every request wait as long, until the next reset.
        """
        chosen = {"times": times, "skip": skip, "rate": rate, "seed": seed}
        waits = {"seconds": seconds, "jitter": jitter}
        self._control("POST", "faults", kind=kind, **chosen, **waits, method=method, path=path)

    def clear_faults(self) -> None:
        """Remove the faults that no request has met, and the latency."""
        self._control("POST", "clear-faults")

    @property
    def unmet_faults(self) -> list[JSON]:
        """The faults that still wait for a request, and all that have a seed.

        The report of a failed test shows them.
        """
        unmet: list[JSON] = self._control("GET", "faults")["data"]
        return unmet

    def create_token(
        self,
        user: str = "user",
        *,
        kind: Literal["api", "session"] = "api",
        scope: Literal["read", "write"] = "write",
        expires_in: int | None = None,
    ) -> str:
        """Create and return another credential of a user. ``expires_in`` is a number of days.

        ``user`` is "user", "member" or "stranger", or the e-mail address of a user who was loaded.
        """
        token: str = self._control(
            "POST", "tokens", user=user, kind=kind, scope=scope, expiresIn=expires_in
        )["token"]
        return token


def iso(time: object) -> str:
    """Return a datetime in the ISO 8601 format. Raises TypeError for other objects."""
    if isinstance(time, datetime):
        return time.isoformat()
    raise TypeError(f"{time!r} cannot be loaded: it is neither JSON nor a datetime")
