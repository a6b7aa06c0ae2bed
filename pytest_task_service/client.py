"""The test double as Python code holds it: who is there, and what can be done to it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import urllib3

JSON = dict[str, Any]


@dataclass(frozen=True)
class Workspace:
    """A workspace of the cast."""

    id: str
    name: str
    slug: str
    plan: str


@dataclass(frozen=True)
class User:
    """A user of the cast, with an API token and the value of the cookie ``session``."""

    id: str
    name: str
    email: str
    role: str
    token: str
    cookie: str
    workspace: Workspace


class Control:
    """The control URL."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._http = urllib3.PoolManager(retries=False, timeout=60)

    def __call__(self, method: str, path: str, /, **values: Any) -> JSON:
        """Send a request; raises ValueError with the message if it is rejected."""
        given = {name: value for name, value in values.items() if value is not None}
        return self.send(method, path, None if method == "GET" else json.dumps(given))

    def send(self, method: str, path: str, body: str | None) -> JSON:
        """The same with any body."""
        headers = {"Content-Type": "application/json"}
        response = self._http.request(method, f"{self._url}/{path}", body=body, headers=headers)
        content: JSON = json.loads(response.data)
        if response.status != 200:
            raise ValueError(content["message"])
        return content


class Webhooks:
    """The receiver of the webhook that the workspace of the cast has."""

    def __init__(self, control: Control, webhook: JSON) -> None:
        self._control = control
        self.id: str = webhook["id"]
        self.secret: str = webhook["secret"]

    @property
    def posts(self) -> list[JSON]:
        """All requests with a valid signature, in order: ``status``, ``headers``, ``body``.

        ``status`` is what the receiver responded, None if it hung; ``body`` the text as sent.
        """
        posts: list[JSON] = self._control("GET", "events")["data"]
        return posts

    @property
    def events(self) -> list[JSON]:
        """The bodies of those that the receiver accepted, in order."""
        return [json.loads(post["body"]) for post in self.posts if post["status"] == 204]

    def deliver(self) -> int:
        """Attempt the deliveries that wait, whatever their schedule; returns how many it attempted.

        After a failure the others of that webhook wait for the next call.
        """
        attempts: int = self._control("POST", "deliver")["attempts"]
        return attempts

    def accept(self) -> None:
        """Accept posts again; those that hang end."""
        self._control("POST", "behavior", behavior="accept")

    def fail(self, status: int = 500, times: int | None = None) -> None:
        """Respond with this status to the next ``times`` posts, or to all from now on."""
        self._control("POST", "behavior", behavior="fail", status=status, times=times)

    def hang(self, times: int | None = None) -> None:
        """Do not respond to the next ``times`` posts, or to all from now on."""
        self._control("POST", "behavior", behavior="hang", times=times)

    def gone(self) -> None:
        """Respond with 410, which disables the webhook."""
        self._control("POST", "behavior", behavior="gone")

    def create(self, url: str, *events: str) -> str:
        """Send these events, or all, to another receiver too; returns the webhook's secret."""
        secret: str = self._control("POST", "webhooks", url=url, events=list(events))["secret"]
        return secret


class Service:
    """A running service; ``base_url`` is what clients need."""

    def __init__(self, line: JSON) -> None:
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
        self._control = Control(self.control_url)
        self.webhooks = Webhooks(self._control, line["webhook"])

    def reset(self) -> None:
        """Remove everything and begin anew with the cast; ids and tokens stay the same."""
        self._control("POST", "reset")

    def load(self, *objects: Mapping[str, Any]) -> None:
        """Load objects as ``task-service load`` does: ``{"type": "task", "title": "Write"}``.

        Without ``workspace`` or ``user`` they are the owner's; a member names its user. Raises
        ValueError naming what is invalid, and has then loaded nothing.
        """
        self._control.send("POST", "load", "\n".join(map(json.dumps, objects)))

    def plan(
        self,
        name: Literal["Starter", "Pro", "Team"] | None = None,
        *,
        per_minute: int | None = None,
        per_day: int | None = None,
    ) -> None:
        """Put the workspace on a plan; change the limits of all who are on it until the reset."""
        self._control("POST", "plan", name=name, perMinute=per_minute, perDay=per_day)

    def advance(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0
    ) -> None:
        """Let time pass for whatever expires, ends or falls due.

        Those are credentials, rate limits, idempotency keys, retries and webhooks that are not
        delivered. What the API shows, like ``createdAt`` and ``dueDate``, stays as it is.
        """
        self._control("POST", "advance", days=days, hours=hours, minutes=minutes, seconds=seconds)

    def fault(
        self,
        kind: Literal["503", "429", "drop", "drop-after-commit", "slow"],
        *,
        times: int = 1,
        seconds: float = 1,
        method: str | None = None,
        path: str | None = None,
    ) -> None:
        """Let the next ``times`` requests, of this method and path if given, meet a fault.

        ``503`` and ``429`` have a Retry-After of ``seconds``; nothing is done. ``drop`` closes the
        connection instead of doing anything, ``drop-after-commit`` instead of responding. ``slow``
        waits ``seconds`` first.
        """
        self._control(
            "POST", "faults", kind=kind, times=times, seconds=seconds, method=method, path=path
        )

    def create_token(
        self,
        user: Literal["user", "member", "stranger"] = "user",
        *,
        kind: Literal["api", "session"] = "api",
        scope: Literal["read", "write"] = "write",
        expires_in: int | None = None,
    ) -> str:
        """Make another credential of a user; it expires after so many days, if given."""
        token: str = self._control(
            "POST", "tokens", user=user, kind=kind, scope=scope, expiresIn=expires_in
        )["token"]
        return token
