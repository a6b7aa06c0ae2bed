"""The initial state, which a reset restores: two workspaces, three users and one webhook.

Ids, tokens and secrets derive from the key of the test double, so all its processes derive the same
ones. Only the owner's token can be given instead.
"""

import hmac
from typing import NamedTuple
from uuid import UUID

from psycopg.errors import DeadlockDetected, LockNotAvailable

from service.callers import token_hash
from service.database.statements import Connection, to_json
from service.webhooks.secrets import derive_secret, fingerprint

# How often a reset is attempted.
RESETS = 5
KINDS = "api", "session"
# The names that tests use for the users.
USERS = "user", "member", "stranger"


class InitialWorkspace(NamedTuple):
    """A workspace, on the plan with the highest limits."""

    id: str
    name: str
    slug: str
    plan: str = "Team"


class InitialUser(NamedTuple):
    """A user, with a token that never expires and a session of 30 days."""

    id: str
    name: str
    email: str
    role: str
    workspace: InitialWorkspace
    token: str
    cookie: str

    def describe(self) -> dict[str, object]:
        return {**self._asdict(), "workspace": self.workspace._asdict()}

    def row(self) -> dict[str, str]:
        """Return the columns of the user; the database stores only hashes of credentials."""
        return {
            "id": self.id,
            "name": self.name,
            "email": self.email,
            "role": self.role,
            "workspace_id": self.workspace.id,
            "token_hash": f"\\x{token_hash(self.token).hex()}",
            "cookie_hash": f"\\x{token_hash(self.cookie).hex()}",
        }


class InitialState:
    """The owner and a member of one workspace, and a stranger who must see nothing there."""

    def __init__(self, key: str, control_url: str, token: str | None) -> None:
        def seed(text: str) -> bytes:
            return hmac.digest(key.encode(), f"double {text}".encode(), "sha256")

        def credentials(name: str) -> tuple[str, str]:
            token, cookie = (f"tmw_{kind}_{seed(kind + name)[:20].hex()}" for kind in KINDS)
            return token, cookie

        # Sorted, because the service lists smaller ids first.
        ids = iter(sorted(str(UUID(bytes=seed(f"id {n}")[:16], version=4)) for n in range(6)))
        acme = InitialWorkspace(next(ids), "Acme", "acme")
        globex = InitialWorkspace(next(ids), "Globex", "globex")
        ada, ben, cleo = map(credentials, ("Ada", "Ben", "Cleo"))
        email = "ada@example.com"
        self.user = InitialUser(next(ids), "Ada", email, "owner", acme, token or ada[0], ada[1])
        self.member = InitialUser(next(ids), "Ben", "ben@example.com", "member", acme, *ben)
        self.stranger = InitialUser(next(ids), "Cleo", "cleo@example.com", "owner", globex, *cleo)
        users = self.user, self.member, self.stranger
        self.users = dict(zip(USERS, users, strict=True))
        self.control_url = control_url
        self.webhook_id = next(ids)
        self.webhook_url = f"{control_url}/receiver"
        self.webhook_secret = derive_secret(key, self.webhook_id, 1)
        self.key_fingerprint = fingerprint(key)

    def reset(self, connection: Connection, snapshot: str | None = None) -> None:
        """Set the real time, and replace all rows with the initial rows, or the snapshot's.

        ``snapshot`` is the name of the snapshot.
        """
        for attempt in range(1, RESETS + 1):
            try:
                with connection.transaction():
                    connection.run("double/set_clock", at=None)
                    connection.run("double/erase")
                    if snapshot is None:
                        connection.run("double/insert_initial_state", **self._rows())
                    else:
                        connection.run("double/restore", name=snapshot)
                return
            except (DeadlockDetected, LockNotAvailable):
                # A request of the previous test still locks rows, although its client has gone.
                if attempt == RESETS:
                    raise

    def _rows(self) -> dict[str, object]:
        workspaces = self.user.workspace, self.stranger.workspace
        return {
            "users": to_json([user.row() for user in self.users.values()]),
            "workspaces": to_json([workspace._asdict() for workspace in workspaces]),
            "webhook_workspace_id": self.user.workspace.id,
            "webhook_id": self.webhook_id,
            "webhook_url": self.webhook_url,
            "key_fingerprint": self.key_fingerprint,
        }

    def complete(self, item: dict[str, object]) -> dict[str, object]:
        """Return a line for the command load; the owner's workspace and address are defaults."""
        owners = {"workspace": self.user.workspace.slug, "user": self.user.email}
        needed = {"workspace": (), "user": (), "deleted_user": (), "mail": ("workspace", "user")}
        kind = item.get("type")
        # The command rejects a type that is not a string.
        names = needed.get(kind if isinstance(kind, str) else "", ("workspace",))
        return {**{name: owners[name] for name in names}, **item}

    def describe(self) -> dict[str, object]:
        """Return the initial state as JSON members, for the line that a test harness reads."""
        webhook = {"id": self.webhook_id, "url": self.webhook_url, "secret": self.webhook_secret}
        return {
            "token": self.user.token,
            "cookie": self.user.cookie,
            "workspace": self.user.workspace._asdict(),
            **{name: user.describe() for name, user in self.users.items()},
            "webhook": webhook,
            "controlUrl": self.control_url,
        }
