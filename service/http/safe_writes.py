"""Writes that neither double nor overwrite unseen: Idempotency-Key and If-Match.

Sources: RFC 9110 section 13; IETF draft-ietf-httpapi-idempotency-key-header.
"""

import json
import re
from functools import wraps
from hashlib import sha256
from typing import Any

from flask import Response, request

from service import db
from service.http.errors import http_error, invalid_field
from service.http.requests import View, read_bytes
from service.http.responses import reply

KEY = re.compile(r"[\x21-\x7e]{1,255}", re.ASCII)
# As etag() writes it: tags are compared character by character, so "01" is not "1".
VERSION = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)

# The headers that belong to the response, not to the moment.
REPLAYED_HEADERS = ("Location", "ETag")


def idempotent(view: View) -> View:
    """Let a view that writes be repeated under an ``Idempotency-Key``: it runs once, then replays.

    Key, change, event and response are one transaction; a failure leaves no key behind.
    Raises 400 for a malformed key, 422 for one that was used for another request.
    """

    @wraps(view)
    def wrapper(*args: Any, **variables: Any) -> Any:
        key = request.headers.get("Idempotency-Key")
        if key is None:
            return view(*args, **variables)
        if not KEY.fullmatch(key):
            raise invalid_field("Idempotency-Key", "invalid_idempotency_key")
        with db.transaction():
            stored = db.row("idempotency/begin", key=key, fingerprint=fingerprint())
            if stored.status is not None:
                return replay(stored)
            response = view(*args, **variables)
            headers = {
                name: response.headers[name]
                for name in REPLAYED_HEADERS
                if name in response.headers
            }
            db.row(
                "idempotency/finish",
                key=key,
                status=response.status_code,
                headers=json.dumps(headers),
                body=response.get_data(as_text=True),
            )
        return response

    return wrapper


def fingerprint() -> bytes:
    """What a repeated request has in common with the first: method, path, query and body."""
    line = f"{request.method} {request.full_path}\n".encode()
    return sha256(line + read_bytes()).digest()


def replay(stored: Any) -> Response:
    """The stored response; raises 422 if it belongs to another request."""
    if not stored.same:
        raise http_error("reused_idempotency_key")
    headers = {**json.loads(stored.headers), "Idempotent-Replayed": "true"}
    return reply(stored.body or None, stored.status, headers)


def expected_versions() -> list[int] | None:
    """The versions that ``If-Match`` allows, for the statement's WHERE; None when any will do.

    Weak tags and tags that this service does not make match nothing: the list is then empty.
    """
    if "If-Match" not in request.headers or request.if_match.star_tag:
        return None
    return [int(tag) for tag in request.if_match.as_set() if tag and VERSION.fullmatch(tag)]
