"""Safe writes: Idempotency-Key against double writes, If-Match against lost updates.

Sources: RFC 9110 section 13; IETF draft-ietf-httpapi-idempotency-key-header.
"""

import json
import re
from functools import wraps
from hashlib import sha256
from typing import Any, NamedTuple

from flask import Request, Response

from service import db
from service.http.errors import http_error, invalid_field
from service.http.requests import View, read_bytes
from service.http.responses import reply
from service.state import current_request

KEY = re.compile(r"[\x21-\x7e]{1,255}", re.ASCII)
# As etag() writes it: tags are compared character by character, so "01" is not "1".
VERSION = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)

# The headers of the response itself; the others tell of the request that asks.
REPLAYED_HEADERS = ("Location", "ETag")


class StoredResponse(NamedTuple):
    """The row of a key: the response stored under it, or nulls while the first request runs."""

    status: int | None
    # A JSON object.
    headers: str | None
    body: str | None
    # Whether it belongs to the same request.
    same: bool


def idempotent(view: View) -> View:
    """Let a view that writes be repeated under an ``Idempotency-Key``: it runs once, then replays.

    Key, change, event and response are one transaction; a failure leaves no key behind.
    Raises 400 for a malformed key, 422 for one that was used for another request.
    """

    @wraps(view)
    def wrapper(*args: Any, **variables: Any) -> Any:
        call = current_request()
        key = call.environ.get("HTTP_IDEMPOTENCY_KEY")
        if key is None:
            return view(*args, **variables)
        if not KEY.fullmatch(key):
            raise invalid_field("Idempotency-Key", "invalid_idempotency_key")
        # Before the transaction: the body may still have to arrive.
        print_of_call = fingerprint(call)
        with db.transaction():
            stored = db.row(StoredResponse, "idempotency/begin", key=key, fingerprint=print_of_call)
            if stored.status is not None:
                return replay(stored)
            response = view(*args, **variables)
            headers = {
                name: response.headers[name]
                for name in REPLAYED_HEADERS
                if name in response.headers
            }
            db.execute(
                "idempotency/finish",
                key=key,
                status=response.status_code,
                headers=json.dumps(headers),
                body=response.get_data(as_text=True),
            )
        return response

    return wrapper


def fingerprint(call: Request) -> bytes:
    """Return a hash of all that a repeated request has in common with the first one."""
    line = f"{call.method} {call.full_path}\n".encode()
    return sha256(line + read_bytes(call)).digest()


def replay(stored: StoredResponse) -> Response:
    """Return the stored response; raises 422 if it belongs to another request."""
    if not stored.same:
        raise http_error("reused_idempotency_key")
    headers = {**json.loads(stored.headers or "{}"), "Idempotent-Replayed": "true"}
    return reply(stored.body or None, stored.status or 200, headers)


def expected_versions() -> list[int] | None:
    """Return the versions that ``If-Match`` allows, for the statement's WHERE; None allows all.

    RFC 9110 compares strongly, and proxies that compress make a tag weak (nginx, Cloudflare). The
    weak form of our own tags is safe: a version names a state, not the bytes of a representation.
    Tags that this service does not make match nothing: the list is then empty.
    """
    call = current_request()
    if "HTTP_IF_MATCH" not in call.environ or call.if_match.star_tag:
        return None
    tags = call.if_match.as_set(include_weak=True)
    return [int(tag) for tag in tags if tag and VERSION.fullmatch(tag)]
