"""Before each request: who is calling, and within the limits? After it: the headers that say so.

Specification sections 5 (authentication) and 8 (limits); RFC 6750 (Bearer);
IETF draft-ietf-httpapi-ratelimit-headers (RateLimit, RateLimit-Policy).
"""

import re
import time
from functools import lru_cache
from hashlib import sha256
from ipaddress import IPv6Address, ip_address, ip_network
from math import ceil
from secrets import token_hex

from flask import g, request
from werkzeug.exceptions import Forbidden, TooManyRequests, Unauthorized, UnsupportedMediaType

from service import db
from service.inputs import JSON_TYPE

# Documents for machines that have no credential: neither authenticated nor counted.
# The last one is there in development only (docs.py).
OPEN = {"health.check_health", "openapi.get_openapi", "swagger_ui.show"}

BEARER = re.compile(r"bearer +([A-Za-z0-9._~+/=-]{1,200})", re.ASCII | re.IGNORECASE)
REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
SAFE = {"GET", "HEAD", "OPTIONS"}


def init_app(app):
    app.before_request(identify)
    app.before_request(enter)
    app.after_request(label)


def identify():
    """Give the request its id and its start, before anything can fail."""
    offered = request.headers.get("X-Request-Id", "")
    g.request_id = offered if REQUEST_ID.fullmatch(offered) else token_hex(8)
    g.started = time.perf_counter()


def enter():
    """Find the caller and count the request; raises 401, 403, 415 or 429."""
    if request.endpoint in OPEN:
        return
    kind, token = credential()
    g.entry = entry = db.first_row(
        "gate/enter",
        kind=kind,
        hash=sha256(token.encode()).digest() if token else None,
        address=client_address(request.remote_addr),
    )
    if not entry.admitted:
        raise too_many(entry)
    if entry.user_id is None:
        raise Unauthorized(
            "Unauthorized: send an API token as 'Authorization: Bearer <token>',"
            " or a session token as the cookie 'session'"
        )
    g.caller = {"user_id": entry.user_id, "workspace_id": entry.workspace_id}
    if request.method not in SAFE:
        if kind == "session":
            refuse_other_sites()
        if entry.scope != "write":
            raise Forbidden("This token has the scope read; writing needs one with the scope write")


def credential():
    """Kind and text of the credential sent; a header, even a malformed one, outranks the cookie."""
    header = request.headers.get("Authorization")
    if header is None:
        return "session", request.cookies.get("session")
    match = BEARER.fullmatch(header)
    return "api", match and match[1]


@lru_cache(maxsize=1024)
def client_address(text):
    """The address that strangers are counted by: IPv4 as it is, IPv6 by its /64."""
    try:
        address = ip_address(text or "")
    except ValueError:
        return "unknown"
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped:
            return str(address.ipv4_mapped)
        return str(ip_network((address.packed, 64), strict=False))
    return str(address)


def refuse_other_sites():
    """A browser sends the cookie along whoever asked it to: writes must come from this site, as JSON."""
    site = request.headers.get("Sec-Fetch-Site")
    origin = request.headers.get("Origin")
    if site is not None:
        foreign = site not in ("same-origin", "none")
    else:
        foreign = origin is not None and origin.partition("://")[2] != request.host
    if foreign:
        raise Forbidden(
            "A session cookie cannot be used to write from another site; use an API token"
        )
    if not JSON_TYPE.fullmatch(request.mimetype):
        raise UnsupportedMediaType(
            "With a session cookie, writing needs Content-Type: application/json"
        )


def too_many(entry):
    """429, naming the window that is used up and the seconds until it ends."""
    if day_is_up(entry):
        window, ends, limit = "day", entry.day_ends, entry.per_day
    else:
        window, ends, limit = "minute", entry.minute_ends, entry.per_minute
    wait = max(1, ceil(ends - entry.now))
    return TooManyRequests(
        f"All {limit} requests of this {window} are used up; try again in {wait} s",
        retry_after=wait,
    )


def day_is_up(entry):
    return entry.per_day is not None and entry.day_count >= entry.per_day


def label(response):
    """Put the rate limits and the request's id on every answer."""
    response.headers.extend(labels(request.endpoint, response.status_code))
    return response


def labels(endpoint, status):
    yield "X-Request-Id", g.request_id
    if endpoint in OPEN:
        return
    entry = g.get("entry")
    if entry is None:
        # The database is away, so nothing is known but that waiting helps.
        yield "X-RateLimit-Limit", "60"
        yield "X-RateLimit-Remaining", "0"
        yield "X-RateLimit-Reset", str(ceil(time.time()) + 1)
        return
    minute_left = max(0, entry.per_minute - entry.minute_count)
    policy = f'"minute";q={entry.per_minute};w=60'
    limits = f'"minute";r={minute_left};t={max(0, ceil(entry.minute_ends - entry.now))}'
    limit, left, ends = entry.per_minute, minute_left, entry.minute_ends
    if entry.per_day is not None:
        day_left = max(0, entry.per_day - entry.day_count)
        policy += f', "day";q={entry.per_day};w=86400'
        limits += f', "day";r={day_left};t={max(0, ceil(entry.day_ends - entry.now))}'
        if day_is_up(entry):
            limit, left, ends = entry.per_day, day_left, entry.day_ends
    yield "X-RateLimit-Limit", str(limit)
    yield "X-RateLimit-Remaining", str(left)
    yield "X-RateLimit-Reset", str(ceil(ends))
    yield "RateLimit-Policy", policy
    yield "RateLimit", limits
    if status == 401:
        yield "WWW-Authenticate", "Bearer"
