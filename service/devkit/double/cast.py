"""Who is there after each reset: two workspaces, three users, one webhook. Ids and tokens stay."""

from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from psycopg.errors import DeadlockDetected

from service import db
from service.http.gate import generate_token, hash_of
from service.statements import Connection
from service.webhooks.secrets import derive_secret

# How often a reset is tried.
RESETS = 5


@dataclass(frozen=True)
class Workspace:
    """A workspace of the cast, on the plan with the highest limits."""

    id: str
    name: str
    slug: str
    plan: str = "Team"


@dataclass(frozen=True)
class User:
    """A user of the cast, with a token that never expires and a session of 30 days."""

    id: str
    name: str
    email: str
    role: str
    workspace: Workspace
    token: str = field(default_factory=lambda: generate_token("api"))
    cookie: str = field(default_factory=lambda: generate_token("session"))

    def row(self) -> dict[str, str]:
        """What the database knows: of credentials the hash."""
        return {
            "id": self.id,
            "name": self.name,
            "email": self.email,
            "role": self.role,
            "workspace_id": self.workspace.id,
            "token_hash": f"\\x{hash_of(self.token).hex()}",
            "cookie_hash": f"\\x{hash_of(self.cookie).hex()}",
        }


class Cast:
    """The owner and a member of one workspace, and a stranger who must see nothing of it."""

    def __init__(self, control_url: str, webhook_key: str, token: str | None) -> None:
        # In order, as the service lists the older one first.
        ids = iter(sorted(str(uuid4()) for _ in range(6)))
        acme = Workspace(next(ids), "Acme", "acme")
        globex = Workspace(next(ids), "Globex", "globex")
        given = {"token": token} if token else {}
        self.user = User(next(ids), "Ada", "ada@example.com", "owner", acme, **given)
        self.member = User(next(ids), "Ben", "ben@example.com", "member", acme)
        self.stranger = User(next(ids), "Cleo", "cleo@example.com", "owner", globex)
        self.control_url = control_url
        webhook_id = next(ids)
        self.webhook = {
            "id": webhook_id,
            "url": f"{control_url}/receiver",
            "secret": derive_secret(webhook_key, webhook_id, 1),
        }

    def reset(self, connection: Connection) -> None:
        """Leave nothing in the database but the cast."""
        for attempt in range(1, RESETS + 1):
            try:
                with connection.transaction():
                    connection.run("double/erase", {})
                    connection.run("double/cast", self._rows())
                return
            except DeadlockDetected:
                # A request that no client waits for any more holds what is to be removed.
                if attempt == RESETS:
                    raise

    def _rows(self) -> dict[str, object]:
        users = self.user, self.member, self.stranger
        return {
            "users": db.to_json([user.row() for user in users]),
            "workspaces": db.to_json([vars(self.user.workspace), vars(self.stranger.workspace)]),
            "webhook_workspace_id": self.user.workspace.id,
            "webhook_id": self.webhook["id"],
            "webhook_url": self.webhook["url"],
        }

    def complete(self, item: dict[str, Any]) -> dict[str, Any]:
        """What the command load takes, with the owner that ``item`` does not name."""
        owners = {"workspace": self.user.workspace.slug, "user": self.user.email}
        needed = {"workspace": (), "user": (), "mail": ("workspace", "user")}
        kind = item.get("type")
        # What is no string is left to the command, which names it.
        names = needed.get(kind if isinstance(kind, str) else "", ("workspace",))
        return {**{name: owners[name] for name in names}, **item}

    def describe(self) -> dict[str, Any]:
        """The cast, as a test harness gets it."""
        users = {
            name: {**vars(user), "workspace": vars(user.workspace)}
            for name, user in (
                ("user", self.user),
                ("member", self.member),
                ("stranger", self.stranger),
            )
        }
        return {
            "token": self.user.token,
            "cookie": self.user.cookie,
            "workspace": vars(self.user.workspace),
            **users,
            "webhook": self.webhook,
            "controlUrl": self.control_url,
        }
