"""The secrets of webhooks: derived from a key of WEBHOOK_KEY, and what they sign.

For each secret the database stores the fingerprint of its key, never the secret or the key.

Signatures: ``X-Service-Signature`` (docs/specification.md, section 6) is the lowercase hex
HMAC-SHA256 of the body; ``webhook-id``, ``-timestamp`` and ``-signature`` follow Standard Webhooks.
"""

import hmac
import logging
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import NamedTuple

import psycopg

from service.database.statements import Connection
from service.settings import Settings

log = logging.getLogger("service.webhooks")

PREFIX = "whsec_"


class CreatedWebhook(NamedTuple):
    """The row of a new webhook; its secret is derived from the number."""

    id: str
    secret_number: int
    body: bytes
    version: int


class RotatedWebhook(NamedTuple):
    id: str
    secret_number: int


class MissingKey(NamedTuple):
    """The row of a key that webhooks need and that this process does not have."""

    key_fingerprint: str
    # The number of webhooks that need the key.
    webhooks: int
    # The id of one of these webhooks.
    example: str

    def __str__(self) -> str:
        needs = f"{self.webhooks} webhook(s) wait, {self.example} among them"
        return f"WEBHOOK_KEY does not list the key {self.key_fingerprint}, for which {needs}"


def derive_secret(key: str, webhook_id: str, number: int) -> str:
    """Derive a secret of a webhook in the form that users see; the service does not store it."""
    seed = f"webhook {webhook_id} {number}".encode()
    return PREFIX + b64encode(hmac.digest(key.encode(), seed, "sha256")).decode()


def fingerprint(key: str) -> str:
    """Name a key by 16 hex digits that do not reveal it."""
    return hmac.digest(key.encode(), b"fingerprint", "sha256")[:8].hex()


def fingerprints(settings: Settings) -> list[str]:
    """Fingerprint each key of WEBHOOK_KEY, newest first."""
    return [fingerprint(key) for key in settings.webhook_keys]


def missing_keys(connection: Connection, settings: Settings) -> list[MissingKey]:
    """Find the keys that webhooks need and WEBHOOK_KEY does not list; raises psycopg.Error."""
    return connection.rows(MissingKey, "webhooks/missing_keys", keys=fingerprints(settings))


def warn_of_missing_keys(missing: Sequence[MissingKey], settings: Settings) -> None:
    """Log one line for each missing key, or a single line if WEBHOOK_KEY has no key at all."""
    if missing and not settings.webhook_keys:
        log.warning("WEBHOOK_KEY is not set: this process sends no events to webhooks")
        return
    for key in missing:
        log.warning("%s", key)


def compare_keys(connection: Connection, settings: Settings) -> None:
    """Compare WEBHOOK_KEY with the database when a process starts, and log what is missing."""
    try:
        warn_of_missing_keys(missing_keys(connection, settings), settings)
    except psycopg.Error as error:
        # /healthz reports missing migrations.
        log.warning("WEBHOOK_KEY was not compared with the database: %s", type(error).__name__)


def signatures(body: bytes, message_id: str, timestamp: int, secrets: list[str]) -> dict[str, str]:
    """Sign ``body``, in the headers that a receiver verifies; ``secrets`` has the newest first.

    After a rotation, only the new secret signs ``X-Service-Signature``.
    """
    signed = f"{message_id}.{timestamp}.".encode() + body
    return {
        "X-Service-Signature": hmac.digest(secrets[0].encode(), body, "sha256").hex(),
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(
            "v1,"
            + b64encode(hmac.digest(b64decode(secret[len(PREFIX) :]), signed, "sha256")).decode()
            for secret in secrets
        ),
    }
