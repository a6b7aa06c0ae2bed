"""Safe writes: Idempotency-Key prevents double writes, preconditions prevent lost updates.

With dryRun, a client tries a write that changes nothing.

Sources: RFC 9110 section 13; IETF draft-ietf-httpapi-idempotency-key-header.
"""

import json
import re
from collections.abc import Callable, Iterable
from functools import partial
from hashlib import sha256
from itertools import pairwise
from typing import Literal, NamedTuple, TypeVar

from flask import Request, Response
from werkzeug.datastructures import ETags

from service.context import current_request, current_state, db
from service.database.statements import NotFound, to_json
from service.values import Values
from service.web.errors import http_error, invalid_field
from service.web.requests import read_bytes
from service.web.responses import reply

KEY = re.compile(r"[\x21-\x7e]{1,255}", re.ASCII)
# The form of the tags that etag() writes. Tags are compared character by character, so the tag "01"
# does not match "1".
VERSION_TAG = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)

# As int4multirange, which is the type of the parameter ``versions`` of statements.
ANY_VERSION, NO_VERSION = "{(,)}", "{}"

# A response is stored if it has at most MAX_MORE bytes more than the body of its request. A short
# request could otherwise store megabytes: a batch returns the tasks that it changes whole. If it
# has over FEW_MORE bytes more, it counts as long: all responses of a user that are stored together
# with a long one are limited, see idempotency/finish.
FEW_MORE, MAX_MORE = 16_384, 1_048_576

T = TypeVar("T")
Whose = Literal["workspace", "path", "user"]

# The stored headers; all other headers describe the current request.
REPLAYED_HEADERS = ("Location", "ETag")


class StoredResponse(NamedTuple):
    """The row of a key: the stored response, or nulls if this is the first request with the key."""

    status: int | None
    # A JSON object.
    headers: str | None
    # Null if there is no response, or if its body was too long.
    body: str | None
    # True if the current request has the stored fingerprint.
    same: bool


class Finished(NamedTuple):
    # False if the caller has left the workspace since the gate let the request in.
    is_member: bool


def once_per_key(
    view: Callable[[], Response],
    whose: Whose,
    variables: Values,
    before: Callable[[], None] | None = None,
) -> Response:
    """Run a view once per ``Idempotency-Key``; a repeated request gets the stored response.

    A key belongs to the user in the active workspace, in the workspace of the path, or in all
    workspaces (``user``). It is deleted when the user leaves that workspace.

    One transaction stores the key, the change, the event and the response, so a failed request
    stores no key. The stored response has null instead of a secret. ``before`` runs without the
    transaction, if there is no stored response.

    Raises 400 if the key is malformed, 422 if another request has used it, 409 if it has succeeded,
    but its response was too long to be stored, and NotFound if the caller has left the workspace
    meanwhile.
    """
    request = current_request()
    key = request.environ.get("HTTP_IDEMPOTENCY_KEY")
    if key is None:
        if before:
            before()
        return view()
    if not KEY.fullmatch(key):
        raise invalid_field("Idempotency-Key", "invalid_idempotency_key")
    known: Values = {"key": key, "fingerprint": fingerprint(request)}
    if whose != "workspace":
        known["workspace_id"] = variables["id"] if whose == "path" else None
    if before:
        stored = roll_back(partial(db.row, StoredResponse, "idempotency/begin", **known))
        if stored.status is not None:
            return replay(stored, stored.status)
        before()
    with db.transaction():
        stored = db.row(StoredResponse, "idempotency/begin", **known)
        if stored.status is not None:
            return replay(stored, stored.status)
        response = view()
        content = response.get_data()
        more = len(content) - len(read_bytes(request))
        body = (current_state().stored_body or content.decode()) if more <= MAX_MORE else None
        headers = {
            name: response.headers[name] for name in REPLAYED_HEADERS if name in response.headers
        }
        finished = db.row_or_none(
            Finished,
            "idempotency/finish",
            status=response.status_code,
            headers=to_json(headers),
            body=body,
            is_long=more > FEW_MORE,
            **known,
        )
        if finished and not finished.is_member:
            raise NotFound("workspace")
    return response


def roll_back(view: Callable[[], T]) -> T:
    """Run a view, and undo what it has changed; its events are gone too, so none is posted.

    The response is exact: PostgreSQL has taken all locks, and checked all constraints, because none
    is deferred.
    """
    with db.transaction(force_rollback=True):
        return view()


def fingerprint(request: Request) -> bytes:
    """Hash the method, path and body, which must be the same when a request is repeated.

    The fingerprint includes the workspace of a token for one workspace, because a response that is
    stored for another credential could show more than this token may see.
    """
    only = current_state().caller["token_workspace_id"]
    # Release 1.1.0 wrote an empty query.
    line = f"{request.method} {request.path}?{f' {only}' if only else ''}\n".encode()
    return sha256(line + read_bytes(request)).digest()


def replay(stored: StoredResponse, status: int) -> Response:
    """Answer with the stored response; raises 422 if it belongs to another request, or 409."""
    if not stored.same:
        raise http_error("reused_idempotency_key")
    if stored.body is None:
        raise http_error("unstored_response")
    headers = {**json.loads(stored.headers or "{}"), "Idempotent-Replayed": "true"}
    return reply(stored.body or None, status, headers)


def expected_versions() -> str:
    """Read the versions that ``If-Match`` and ``If-None-Match`` allow, as an int4multirange.

    RFC 9110 requires strong comparison for If-Match, but proxies that compress responses (nginx,
    Cloudflare) make tags weak. This service accepts weak tags as well, because its versions name a
    state of the resource and not the bytes of a response. A tag that this service cannot have made
    matches no version.
    """
    request = current_request()
    wanted = named(request.if_match) if "HTTP_IF_MATCH" in request.environ else None
    refused = named(request.if_none_match) if "HTTP_IF_NONE_MATCH" in request.environ else set()
    if refused is None:
        return NO_VERSION
    if wanted is not None:
        return only(wanted - refused)
    if not refused:
        return ANY_VERSION
    # The ranges between the refused versions. PostgreSQL drops an empty range, such as (3,4).
    ends = ["", *map(str, sorted(refused)), ""]
    return "{" + ",".join(f"({low},{high})" for low, high in pairwise(ends)) + "}"


def named(tags: ETags) -> set[int] | None:
    """Return the versions that the tags name, or None for ``*``, which means any version."""
    if tags.star_tag:
        return None
    return {
        int(tag) for tag in tags.as_set(include_weak=True) if tag and VERSION_TAG.fullmatch(tag)
    }


def only(versions: Iterable[int]) -> str:
    """Return an int4multirange of these versions."""
    return "{" + ",".join(f"[{version},{version}]" for version in versions) + "}"
