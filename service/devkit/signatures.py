"""Verify webhooks as a receiver does."""

import hmac
import re
from collections.abc import Callable

from service.webhooks.secrets import signatures


def is_genuine(header: Callable[[str, str], str], body: bytes, secret: str) -> bool:
    """Return whether ``X-Service-Signature`` and ``webhook-signature`` are signed with the secret.

    ``header`` returns the value of a header, or else its second argument; names have no case.
    After a rotation, ``webhook-signature`` has a signature for each of the two secrets. One of them
    must match.
    """
    timestamp = header("webhook-timestamp", "")
    if not re.fullmatch("[0-9]{1,20}", timestamp):
        return False
    expected = signatures(body, header("webhook-id", ""), int(timestamp), [secret])
    return all(
        any(
            hmac.compare_digest(received.encode(), expected[name].encode())
            for received in header(name, "").split(" ")
        )
        for name in ("X-Service-Signature", "webhook-signature")
    )
