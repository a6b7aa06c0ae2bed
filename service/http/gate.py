"""Before each request: who is calling, and within the limits? After it: the headers that say so.

Specification sections 5 (authentication) and 8 (limits); RFC 6750 (Bearer);
IETF draft-ietf-httpapi-ratelimit-headers (RateLimit, RateLimit-Policy).
"""

import re
import time
from collections.abc import Iterator
from functools import lru_cache
from hashlib import sha256
from ipaddress import IPv6Address, ip_address, ip_network
from math import ceil
from secrets import token_hex
from typing import Any

from flask import Response, g, request
from werkzeug.exceptions import HTTPException

from service import db
from service.http.errors import http_error
from service.http.requests import JSON_TYPE

# Documents for machines that have no credential: neither authenticated nor counted.
# The last one exists in development only (openapi/page.py).
PUBLIC = {"health.get_index", "health.check_health", "openapi.get_openapi", "swagger_ui.show"}

SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}
# Some proxies write 192.0.2.7:4711 or [2001:db8::7]:4711.
ADDRESS_AND_PORT = re.compile(r"(?:\[([^\]]+)\]|([0-9.]+))(?::[0-9]+)?", re.ASCII)
BEARER = re.compile(r"bearer +([A-Za-z0-9._~+/=-]{1,200})", re.ASCII | re.IGNORECASE)


def authenticate_and_count() -> None:
    """Find the caller and count the request; raises 401, 403, 415 or 429."""
    if request.endpoint in PUBLIC:
        return
    kind, token = credential()
    g.usage = usage = db.row_with_retry(
        "gate/authenticate_and_count",
        kind=kind,
        hash=hash_of(token) if token else None,
        address=client_address(request.remote_addr),
    )
    if not usage.admitted:
        raise rate_limit_error(usage)
    if usage.user_id is None:
        raise http_error("unauthorized")
    g.caller = {"user_id": usage.user_id, "workspace_id": usage.workspace_id}
    if request.method not in SAFE_METHODS:
        if kind == "session":
            reject_cross_site()
        # Where there is nothing to write, 404 or 405 says more.
        if usage.scope != "write" and request.routing_exception is None:
            raise http_error("read_only_token")


def credential() -> tuple[str, str | None]:
    """Kind and text of the credential; an Authorization header, even malformed, decides alone."""
    header = request.headers.get("Authorization")
    if header is None:
        return "session", request.cookies.get("session")
    match = BEARER.fullmatch(header)
    return "api", match[1] if match else None


def generate_token(kind: str) -> str:
    """A new API token or session (``api``, ``session``): 160 random bits, and a prefix to spot."""
    return f"tmw_{kind}_{token_hex(20)}"


def hash_of(token: str) -> bytes:
    """What the database has of a token."""
    return sha256(token.encode()).digest()


@lru_cache(maxsize=1024)
def client_address(text: str | None) -> str:
    """The address that strangers are counted by, without a port: of IPv6 the /64."""
    match = ADDRESS_AND_PORT.fullmatch(text or "")
    try:
        address = ip_address((match[1] or match[2]) if match else text or "")
    except ValueError:
        return "unknown"
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped:
            return str(address.ipv4_mapped)
        return str(ip_network((address.packed, 64), strict=False))
    return str(address)


def reject_cross_site() -> None:
    """A browser sends the cookie whoever asked it to: writes must come from this site, as JSON."""
    site = request.headers.get("Sec-Fetch-Site")
    origin = request.headers.get("Origin")
    if site is not None:
        cross_site = site not in ("same-origin", "none")
    else:
        host = (origin or "").partition("://")[2]
        cross_site = origin is not None and (not host or host != request.host)
    if cross_site:
        raise http_error("cross_site")
    if not JSON_TYPE.fullmatch(request.mimetype):
        raise http_error("session_media_type")


def rate_limit_error(usage: Any) -> HTTPException:
    """429, naming the window that is used up and the seconds until it ends."""
    if daily_quota_used(usage):
        window, ends, limit = "day", usage.day_ends, usage.per_day
    else:
        window, ends, limit = "minute", usage.minute_ends, usage.per_minute
    seconds = max(1, ceil(ends - usage.now))
    return http_error("rate_limit", seconds, limit=limit, window=window, seconds=seconds)


def daily_quota_used(usage: Any) -> bool:
    """Whether the plan has a daily quota and the caller has used it."""
    return usage.per_day is not None and usage.day_count >= usage.per_day


def windows(usage: Any) -> dict[str, Any]:
    """Both windows of the limits: how many requests they have, how many are left, their ends."""
    per_minute, per_day = usage.per_minute, usage.per_day
    return {
        "per_minute": per_minute,
        "minute_left": max(0, per_minute - usage.minute_count),
        "minute_ends": usage.minute_ends,
        "per_day": per_day,
        "day_left": None if per_day is None else max(0, per_day - usage.day_count),
        "day_ends": usage.day_ends,
    }


def add_headers(response: Response) -> Response:
    """Put the rate limits and the request's id on every response."""
    response.headers.extend(headers(request.endpoint, response.status_code))
    return response


def headers(endpoint: str | None, status: int) -> Iterator[tuple[str, str]]:
    """The headers that every response to this endpoint has."""
    yield "X-Request-Id", g.request_id
    if endpoint in PUBLIC:
        return
    # What one caller sees is nobody else's; a browser may keep it, but asks before it reuses it.
    yield "Cache-Control", "private, no-cache"
    yield "Vary", "Authorization, Cookie"
    usage = g.get("usage")
    if usage is None:
        # Nothing was counted. The database is away, and waiting helps; or a browser only asked what
        # a page may send (cors.py).
        yield "X-RateLimit-Limit", "60"
        yield "X-RateLimit-Remaining", "0" if status >= 500 else "60"
        yield "X-RateLimit-Reset", str(ceil(time.time()) + 1)
        return
    left = windows(usage)
    minute_left, day_left = left["minute_left"], left["day_left"]
    policy = f'"minute";q={usage.per_minute};w=60'
    limits = f'"minute";r={minute_left};t={max(0, ceil(usage.minute_ends - usage.now))}'
    limit, left, ends = usage.per_minute, minute_left, usage.minute_ends
    if usage.per_day is not None:
        policy += f', "day";q={usage.per_day};w=86400'
        limits += f', "day";r={day_left};t={max(0, ceil(usage.day_ends - usage.now))}'
        if daily_quota_used(usage):
            limit, left, ends = usage.per_day, day_left, usage.day_ends
    yield "X-RateLimit-Limit", str(limit)
    yield "X-RateLimit-Remaining", str(left)
    yield "X-RateLimit-Reset", str(ceil(ends))
    yield "RateLimit-Policy", policy
    yield "RateLimit", limits
    if status == 401:
        yield "WWW-Authenticate", "Bearer"
