"""The gate: authenticates the caller and counts the request before the view; adds headers after it.

Sources: docs/specification.md, sections 5 (authentication) and 8 (limits); RFC 6750 (Bearer);
IETF draft-ietf-httpapi-ratelimit-headers (RateLimit, RateLimit-Policy).
"""

import re
import time
from functools import lru_cache
from hmac import compare_digest
from ipaddress import IPv6Address, ip_address, ip_network
from math import ceil

from flask import Flask, Request, Response
from marshmallow import ValidationError
from werkzeug.routing import Rule

from service.callers import (
    OPERATOR,
    STARTER_PER_MINUTE,
    Usage,
    policy_header,
    token_hash,
    window_to_show,
)
from service.context import (
    current_request,
    current_settings,
    current_state,
    db,
    retried,
)
from service.values import types
from service.web import cors
from service.web.errors import HTTPError, http_error, invalid_field, to_place
from service.web.operation import requested_operation
from service.web.requests import JSON_TYPE

# Requests for these paths need no credential and are not counted. The paths below /docs exist only
# if the setting DOCS is on (openapi/page.py).
PUBLIC = {"/", "/healthz", "/openapi.json", "/docs/", "/docs/<path:path>", "/docs/dist/<path:path>"}

# A login page creates sessions here. The server of this page sends one of the keys in LOGIN_KEY
# instead of a credential.
# The path may end with a slash, because routing ignores it.
LOGIN = {"/api/session", "/api/session/"}

SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}
# Some proxies write 192.0.2.7:4711 or [2001:db8::7]:4711.
ADDRESS_AND_PORT = re.compile(r"(?:\[([^\]]+)\]|([0-9.]+))(?::[0-9]+)?", re.ASCII)
# Keeps browsers from taking a response for a page or a script.
NOSNIFF = "X-Content-Type-Options", "nosniff"
VARY = "Vary", "Authorization, Cookie, Workspace-Id"
# A browser may store the response for its user, but must revalidate it.
NOT_SHARED = NOSNIFF, ("Cache-Control", "private, no-cache"), VARY
BEARER = re.compile(r"bearer +([A-Za-z0-9._~+/=-]{1,200})", re.ASCII | re.IGNORECASE)


def is_public(rule: Rule | None) -> bool:
    """Return whether requests for this rule need no credential and are not counted."""
    return rule is not None and rule.rule in PUBLIC


def init_app(app: Flask) -> None:
    app.before_request(authenticate_and_count)
    app.after_request(add_headers)


def authenticate_and_count() -> Response | None:
    """Find the caller and count the request; raises 400, 401, 403, 404, 415 or 429.

    A preflight request has no credential, so the gate answers it here, without counting it.
    """
    request, state = current_request(), current_state()
    rule = request.url_rule
    if is_public(rule):
        return None
    # A preflight request uses the method OPTIONS, which no rule allows, so it has no rule.
    if rule is None and cors.is_preflight(request):
        return cors.answer_preflight(request)
    kind, token = credential(request)
    if request.method == "POST" and request.path in LOGIN:
        authenticate_login_page(token if kind == "api" else None)
        return None
    operation = requested_operation(request)
    workspace_header = request.environ.get("HTTP_WORKSPACE_ID")
    if operation.ignores_workspace_header:
        workspace_header = None
    usage = find_and_count(kind, token, workspace_header)
    if usage.user_id is None:
        raise http_error("unauthorized")
    if workspace_header is not None and not types.UUID.fullmatch(workspace_header):
        raise ValidationError({"Workspace-Id": [types.Id.default_error_messages["uuid"]]})
    # The statements of this request get these as parameters.
    state.caller.update(
        user_id=usage.user_id,
        token_id=usage.token_id,
        workspace_id=usage.workspace_id,
        token_workspace_id=usage.token_workspace_id,
    )
    writes = request.method not in SAFE_METHODS
    if writes and kind == "session":
        reject_cross_origin(request)
    # An unknown path (404) or method (405) takes precedence over the errors that follow.
    if request.routing_exception is not None:
        return None
    if workspace_header is not None and workspace_header.lower() != usage.workspace_id:
        raise invalid_field("Workspace-Id", "foreign_workspace")
    if usage.moved_to is not None and not operation.ignores_workspace_header:
        raise http_error("moved_workspace", to=to_place(usage.moved_to))
    if writes and usage.scope != "write":
        raise http_error("read_only_token")
    if operation.session_only and kind != "session":
        raise http_error(operation.session_only)
    return None


def find_and_count(kind: str, token: str | None, workspace_header: str | None) -> Usage:
    """Find the caller by the token, and count the request for the caller; raises 429.

    Without a valid token the request is counted for the address of the client.
    """
    request, state = current_request(), current_state()
    usage = retried(
        lambda: db.row(
            Usage,
            "gate/authenticate_and_count",
            kind=kind,
            hash=token_hash(token) if token else None,
            address=client_address(request.remote_addr),
            requested_workspace_id=(
                None if workspace_header is None else types.uuid_or_nil(workspace_header)
            ),
        )
    )
    state.usage = usage
    if usage.record_use:
        db.run("tokens/record_use", token_id=usage.token_id)
    if not usage.admitted:
        raise rate_limit_error(usage)
    return usage


def authenticate_login_page(token: str | None) -> None:
    """Compare a token with the keys of LOGIN_KEY, in constant time; raises 401, 404 or 429.

    The request is counted for the address of the login page. The view looks up the user.
    """
    keys = current_settings().login_keys
    # Count by address, as for a request without a token. An API token must not pass here.
    find_and_count("api", None, None)
    if not keys:
        raise http_error("unknown_path")
    # Compare every key, so that the time that this takes does not tell which key is right.
    equal = [compare_digest((token or "").encode(), key.encode()) for key in keys]
    if True not in equal:
        raise http_error("login_key")
    current_state().caller.update(OPERATOR, workspace_id=None)


def credential(request: Request) -> tuple[str, str | None]:
    """Return the kind and the text of the credential.

    If the request has the header Authorization, even a malformed one, the cookie is ignored.
    """
    header = request.environ.get("HTTP_AUTHORIZATION")
    if header is None:
        return "session", request.cookies.get("session")
    match = BEARER.fullmatch(header)
    return "api", match[1] if match else None


@lru_cache(maxsize=1024)
def client_address(text: str | None) -> str:
    """Find the rate-limit key of callers without a valid credential.

    It is an IPv4 address, the /64 of an IPv6 address, or ``unknown`` for any other text.
    """
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


def reject_cross_origin(request: Request) -> None:
    """Raise 403 for a write with a cookie from another origin, 415 for a POST that is not JSON.

    Current browsers send ``Sec-Fetch-Site``; older browsers send ``Origin`` alone. A client that
    sends neither header is not a browser, and passes. An HTML form can only send GET and POST, so
    only POST needs the check of the media type.
    """
    site = request.headers.get("Sec-Fetch-Site")
    origin = request.headers.get("Origin")
    if site is not None:
        cross_origin = site not in ("same-origin", "none")
    else:
        host = (origin or "").partition("://")[2]
        cross_origin = origin is not None and (not host or host != request.host)
    if cross_origin:
        raise http_error("cross_origin")
    if request.method == "POST" and not JSON_TYPE.fullmatch(request.mimetype):
        raise http_error("session_media_type")


def rate_limit_error(usage: Usage) -> HTTPError:
    window = window_to_show(usage.windows)
    seconds = max(1, window.seconds_left)
    return http_error(
        "rate_limit", seconds, limit=window.quota, window=window.name, seconds=seconds
    )


def add_headers(response: Response) -> Response:
    """Add the request id and, unless the path is public, rate limits and rules for caching."""
    response.headers.extend(gate_headers(response.status_code))
    return response


def uncounted_headers(status: int) -> list[tuple[str, str]]:
    """Return the headers for a request that the gate has not counted.

    The gate does not count a request if the database is not available, if it is a preflight
    request, or if the web server has rejected it before Flask saw it.
    """
    return [
        *NOT_SHARED,
        ("X-RateLimit-Limit", str(STARTER_PER_MINUTE)),
        ("X-RateLimit-Remaining", "0" if status >= 500 else str(STARTER_PER_MINUTE)),
        ("X-RateLimit-Reset", str(ceil(time.time()) + 1)),
    ]


def gate_headers(status: int) -> list[tuple[str, str]]:
    state = current_state()
    usage, request_id = state.usage, ("X-Request-Id", state.request_id)
    if usage is None:
        if is_public(current_request().url_rule):
            return [request_id, NOSNIFF]
        return [request_id, *uncounted_headers(status)]
    windows = usage.windows
    shown = window_to_show(windows)
    limits = [f'"{name}";r={left};t={seconds}' for name, _, left, seconds, _ in windows]
    return [
        request_id,
        *NOT_SHARED,
        ("X-RateLimit-Limit", str(shown.quota)),
        ("X-RateLimit-Remaining", str(shown.left)),
        ("X-RateLimit-Reset", str(ceil(shown.ends))),
        ("RateLimit-Policy", policy_header(usage.per_minute, usage.per_day)),
        ("RateLimit", ", ".join(limits)),
        *([("WWW-Authenticate", "Bearer")] if status == 401 else []),
        *([("Dry-Run", "true")] if state.dry_run else []),
    ]
