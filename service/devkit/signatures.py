"""Verify webhooks as a receiver does."""

import hmac
import re
from typing import Protocol

from service.webhooks.secrets import signatures


class Headers(Protocol):
    """The headers of a request; names are matched without case."""

    def get(self, name: str, default: str, /) -> str:
        """Return the value of a header, or the default."""


def is_genuine(headers: Headers, body: bytes, secret: str) -> bool:
    """Return whether ``X-Service-Signature`` and ``webhook-signature`` are signed with the secret.

    After a rotation, ``webhook-signature`` has a signature for each of the two secrets. One of them
    must match.
    """
    timestamp = headers.get("webhook-timestamp", "")
    if not re.fullmatch("[0-9]{1,20}", timestamp):
        return False
    expected = signatures(body, headers.get("webhook-id", ""), int(timestamp), [secret])
    return all(
        any(
            hmac.compare_digest(received.encode(), expected[name].encode())
            for received in headers.get(name, "").split(" ")
        )
        for name in ("X-Service-Signature", "webhook-signature")
    )
