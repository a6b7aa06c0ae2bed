"""Credentials: their kinds and scopes, the generation of tokens, and their hashes."""

from collections.abc import Callable
from hashlib import sha256
from secrets import token_hex
from typing import NamedTuple, TypeVar

Stored = TypeVar("Stored")

CREDENTIALS = "api", "session"
SCOPES = "read", "write"
# How long a session lasts unless another time is given.
SESSION_DAYS = 30


class CreatedSession(NamedTuple):
    """The row of a new session; the id is null if it would have expired already."""

    id: str | None
    body: bytes


def generate_token(kind: str) -> str:
    """Make a token of the kind ``api`` or ``session``: a prefix and 160 random bits.

    The prefix lets scanners find a leaked token.
    """
    return f"tmw_{kind}_{token_hex(20)}"


def create(store: Callable[..., Stored], kind: str, /, **values: object) -> tuple[str, Stored]:
    """Make a token and ``store`` its hash; return the token, and the row that was stored."""
    token = generate_token(kind)
    return token, store(kind=kind, hash=hash_of(token), **values)


def hash_of(token: str) -> bytes:
    """Hash a token by SHA-256; the database stores the hash and never the token."""
    return sha256(token.encode()).digest()
