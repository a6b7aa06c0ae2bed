"""Every failure leaves as ``{"message", "status", "errors"?, "requestId"}``: one place, one body.

Sources: specification section 7 (message and status), RFC 9110 (statuses and headers).
"""

import json
import logging
import re
import tomllib
from pathlib import Path
from typing import Any

import psycopg
from flask import Flask, Response, g, request
from marshmallow import ValidationError
from werkzeug.exceptions import HTTPException, default_exceptions

from service import db
from service.schemas import FieldError, flatten

log = logging.getLogger("service.errors")

# Names of messages, each with its status and its text.
MESSAGES: dict[str, tuple[int, str]] = {
    name: (int(status), text)
    for status, texts in tomllib.loads(
        Path(__file__).with_name("messages.toml").read_text(encoding="utf-8")
    ).items()
    for name, text in texts.items()
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
    # Without a sentence, what the row belongs to is gone: the workspace, by an operator.
    deleted = state == "23503" and (request.method == "DELETE" or " " not in constraint)
    if state.startswith("40") or deleted:
        return http_error("concurrent_change")
    if state in ("23503", "23514") and " " in constraint:
        return invalid_fields([FieldError(*constraint.split(" ", 1))])
    if state.startswith("22") or state == "54000":
        return http_error("out_of_range")
    return internal_error(error)


def internal_error(error: Exception) -> HTTPException:
    """Log an unexpected error; the response is 500."""
    log.error("unhandled: %s", type(error).__name__, exc_info=error)
    return http_error("internal")
