"""Credentials: their kinds and scopes, how one is made, and the hash that the database keeps."""

from hashlib import sha256
from secrets import token_hex

CREDENTIALS = "api", "session"
SCOPES = "read", "write"
# The roles of the members of a workspace.
ROLES = "owner", "admin", "member"


def generate_token(kind: str, cell: str | None = None) -> str:
    """Make an API token or a session (``api``, ``session``): 160 random bits behind a prefix.

    The prefix lets scanners find a leaked token, and a proxy find its cell.
    """
    prefix = f"tmw_{kind}_{cell}" if cell else f"tmw_{kind}"
    return f"{prefix}_{token_hex(20)}"


def hash_of(token: str) -> bytes:
    """Return the SHA-256 of a token, which is all that the database has of it."""
    return sha256(token.encode()).digest()
