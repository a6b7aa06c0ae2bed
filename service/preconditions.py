"""Writes that neither double nor overwrite unseen: Idempotency-Key, ETag, If-Match, If-None-Match.

Sources: RFC 9110 sections 8.8.3 and 13; IETF draft-ietf-httpapi-idempotency-key-header.
"""

import json
import re
from functools import wraps
from hashlib import sha256

from flask import request
from werkzeug.exceptions import PreconditionFailed, UnprocessableEntity

from service import db
from service.errors import BadInput
from service.inputs import read_bytes
from service.replies import reply

KEY = re.compile(r"[\x21-\x7e]{1,255}", re.ASCII)
# As etag() writes it: tags are compared character by character, so "01" is not "1".
VERSION = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)

# What of an answer's headers belongs to the answer, not to the moment.
KEPT = ("Location", "ETag")


def idempotent(view):
    """Let a view that writes be repeated under an ``Idempotency-Key``: it runs once, then replays.

    Key, change, event and answer are one transaction; whatever fails leaves no key behind.
    Without the header nothing is added. Raises 400 for a malformed key, 422 for one used otherwise.
    """

    @wraps(view)
    def once(*args, **named):
        key = request.headers.get("Idempotency-Key")
        if key is None:
            return view(*args, **named)
        if not KEY.fullmatch(key):
            raise BadInput(("Idempotency-Key", "must have 1 to 255 visible ASCII characters"))
        with db.transaction():
            known = db.row("idempotency/begin", key=key, fingerprint=fingerprint())
            if known.status is not None:
                return replay(known)
            answer = view(*args, **named)
            kept = {name: answer.headers[name] for name in KEPT if name in answer.headers}
            db.row(
                "idempotency/finish",
                key=key,
                status=answer.status_code,
                headers=json.dumps(kept),
                body=answer.get_data(as_text=True),
            )
        return answer

    return once


def fingerprint():
    """What a repeated request has in common with the first: method, path and body."""
    line = f"{request.method} {request.full_path}\n".encode()
    return sha256(line + read_bytes(request)).digest()


def replay(known):
    if not known.same:
        raise UnprocessableEntity(
            "Idempotency-Key: was used for another request within 24 hours; use a new one"
        )
    headers = {**json.loads(known.headers), "Idempotent-Replayed": "true"}
    return reply(known.body or None, known.status, headers)


def expected_versions():
    """The versions that ``If-Match`` allows, for the statement's WHERE; None when any will do.

    Weak tags and tags of other makers match nothing, so they leave an empty list.
    """
    if "If-Match" not in request.headers or request.if_match.star_tag:
        return None
    return [int(tag) for tag in request.if_match.as_set() if tag and VERSION.fullmatch(tag)]


def require_match(row):
    """Raise 412, with the ETag of what is there now, if the statement found another version."""
    if not row.matched:
        error = PreconditionFailed("If-Match: this has been changed; ETag names what is there now")
        error.etag = etag(row)
        raise error


def reply_one(row, status=200, headers=None):
    """Answer one object with its ETag: 412 to a writer who expected another, 304 to a reader who has it."""
    if hasattr(row, "matched"):
        require_match(row)
    headers = {**(headers or {}), "ETag": etag(row)}
    if request.method in ("GET", "HEAD") and request.if_none_match.contains_weak(str(row.version)):
        return reply(None, 304, headers)
    return reply(row.body, status, headers)


def etag(row):
    return f'"{row.version}"'
