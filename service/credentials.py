"""Credentials: their kinds and scopes, the generation of tokens, and their hashes."""

from hashlib import sha256
from secrets import token_hex

CREDENTIALS = "api", "session"
SCOPES = "read", "write"


def generate_token(kind: str, cell: str | None = None) -> str:
    """Make a token of the kind ``api`` or ``session``: a prefix and 160 random bits.

    The prefix lets scanners find a leaked token, and a proxy find the cell of the token.
    """
    prefix = f"tmw_{kind}_{cell}" if cell else f"tmw_{kind}"
    return f"{prefix}_{token_hex(20)}"


def hash_of(token: str) -> bytes:
    """Hash a token by SHA-256; the database stores the hash and never the token."""
    return sha256(token.encode()).digest()
