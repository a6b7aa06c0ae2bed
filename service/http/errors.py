"""Every failure leaves as ``{"message", "status", "errors"?, "requestId"}``: one place, one body.

Sources: specification section 7 (message and status), RFC 9110 (statuses and headers).
"""

import json
import logging
import re
from typing import Any

import psycopg
from flask import Flask, Response, g, request
from marshmallow import ValidationError
from werkzeug.exceptions import HTTPException, default_exceptions

from service import db
from service.fields import FieldError, flatten

log = logging.getLogger("service.errors")

# All messages but those of fields, of JSON and of constraints; docs/errors.md explains each.
MESSAGES = {
    "invalid_body": (400, "The body {reason}"),
    "incomplete_body": (400, "The body is incomplete"),
    "unreadable_body": (400, "The body could not be read: {error}"),
    "body_length": (400, "The body has {actual} bytes, Content-Length says {declared}"),
    "unknown_query_parameter": (400, "unknown query parameter; none is allowed here"),
    "repeated_query_parameter": (400, "must not be repeated"),
    "invalid_idempotency_key": (400, "must have 1 to 255 visible ASCII characters"),
    "nul": (400, "The request contains the character NUL, which cannot be stored"),
    "out_of_range": (400, "The request contains a value that is out of range"),
    "unauthorized": (
        401,
        "Unauthorized: send an API token as 'Authorization: Bearer <token>',"
        " or a session token as the cookie 'session'",
    ),
    "read_only_token": (403, "This token has the scope read; writing needs the scope write"),
    "role": (403, "Only an owner or an admin of this workspace may change it"),
    "cross_site": (
        403,
        "A session cookie cannot be used to write from another site; use an API token",
    ),
    "unknown_path": (404, "No resource has this path"),
    "not_found": (404, "{resource} not found"),
    "method": (405, "Method not allowed; see the Allow header"),
    "no_workspace": (409, "You have no active workspace: ask an owner to add you to one"),
    "concurrent_change": (409, "Somebody else changed this at the same time; try again"),
    "precondition": (
        412,
        "If-Match: the resource has changed; its current version is in ETag",
    ),
    "too_large": (413, "The body is too large"),
    "media_type": (415, "Content-Type is {declared}; application/json is allowed"),
    "session_media_type": (
        415,
        "With a session cookie, writing needs Content-Type: application/json",
    ),
    "reused_idempotency_key": (
        422,
        "Idempotency-Key: was used for another request within 24 hours; use a new one",
    ),
    "rate_limit": (429, "Rate limit exceeded: {limit} per {window}; retry in {seconds} s"),
    "internal": (500, "Internal error; it is logged under this requestId"),
    "unavailable": (503, "The database is not available at the moment"),
    "migrations_pending": (503, "The database lacks migrations: run flask migrate"),
    "timeout": (503, "The database took too long; the statement was cancelled"),
}

# What to say where werkzeug raises by itself and speaks of browsers and spelling.
DEFAULT_MESSAGES = {404: "unknown_path", 405: "method", 413: "too_large"}

# SQLSTATE classes and codes (PostgreSQL, appendix A) that say: not now, try again.
TRANSIENT = re.compile(r"08|53|57|58|25006|25P0")
# By statement_timeout, by lock_timeout.
CANCELLED = {"57014", "55P03"}


def http_error(name: str, /, retry_after: int | None = None, **values: object) -> HTTPException:
    """The exception to raise for an entry of MESSAGES."""
    status, message = MESSAGES[name]
    options: dict[str, Any] = {} if retry_after is None else {"retry_after": retry_after}
    return default_exceptions[status](message.format(**values), **options)


def invalid_field(field: str, name: str) -> HTTPException:
    """The exception to raise for one query parameter or header: 400 and what is wrong with it."""
    return invalid_fields([FieldError(field, MESSAGES[name][1])])


def invalid_fields(errors: list[FieldError]) -> HTTPException:
    """400 that names the fields and what is wrong with each."""
    error = default_exceptions[400]("; ".join(f"{field}: {message}" for field, message in errors))
    error.errors = [item._asdict() for item in errors]  # type: ignore[attr-defined]
    return error


def init_app(app: Flask) -> None:
    """Answer every exception with an error body."""
    app.register_error_handler(HTTPException, respond)
    app.register_error_handler(
        ValidationError, lambda error: respond(invalid_fields(flatten(error)))
    )
    app.register_error_handler(
        db.NotFound,
        lambda error: respond(http_error("not_found", resource=error.resource.capitalize())),
    )
    app.register_error_handler(psycopg.Error, lambda error: respond(from_database(error)))
    app.register_error_handler(Exception, lambda error: respond(internal_error(error)))


def respond(error: HTTPException) -> Response:
    """Write an HTTP error as JSON, with the headers that belong to it (Allow, Retry-After, …)."""
    status = error.code or 500
    message = error.description
    if message is None or message == type(error).description:
        name = DEFAULT_MESSAGES.get(status)
        message = MESSAGES[name][1] if name else error.name
    content = body(
        status,
        message,
        errors=getattr(error, "errors", None),
        request_id=g.get("request_id"),
    )
    headers = [header for header in error.get_headers() if header[0] != "Content-Type"]
    if hasattr(error, "etag"):
        headers.append(("ETag", error.etag))
    return Response(content, status, headers, mimetype="application/json")


def body(
    status: int,
    message: str,
    *,
    errors: list[dict[str, str]] | None = None,
    request_id: str | None = None,
) -> bytes:
    """The bytes of one error body; plain ASCII, so that no odd input can make it unreadable."""
    content: dict[str, Any] = {"message": " ".join(message.split()), "status": status}
    if errors:
        content["errors"] = errors
    if request_id:
        content["requestId"] = request_id
    return json.dumps(content).encode()


def from_database(error: psycopg.Error) -> HTTPException:
    """What Postgres rejected; constraints are named by sentences that begin with the field."""
    state = error.sqlstate
    constraint = error.diag.constraint_name or ""
    if state is None and isinstance(error, psycopg.DataError):
        return http_error("nul")
    if state in CANCELLED:
        log.warning("statement cancelled: %s", type(error).__name__)
        return http_error("timeout", retry_after=1)
    if state is None or TRANSIENT.match(state):
        log.warning("database unavailable: %s", type(error).__name__)
        return http_error("unavailable", retry_after=1)
    if state == "23502" and error.diag.column_name == "workspace_id":
        return http_error("no_workspace")
    if state.startswith("40") or (state == "23503" and request.method == "DELETE"):
        return http_error("concurrent_change")
    if state in ("23503", "23514") and " " in constraint:
        return invalid_fields([FieldError(*constraint.split(" ", 1))])
    if state.startswith("22") or state == "54000":
        return http_error("out_of_range")
    return internal_error(error)


def internal_error(error: Exception) -> HTTPException:
    """Log what nobody expected, and answer 500."""
    log.error("unhandled: %s", type(error).__name__, exc_info=error)
    return http_error("internal")
