"""Error responses: ``{"message", "status", "errors"?, "requestId", "current"?}``.

Sources: docs/specification.md, section 7 (message and status); RFC 9110 (statuses and headers).
"""

import logging
import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
from flask import Flask, Response
from marshmallow import ValidationError
from werkzeug.exceptions import (
    BadRequest,
    HTTPException,
    PreconditionFailed,
    UnsupportedMediaType,
    default_exceptions,
)

from service.context import (
    current_application,
    current_request,
    current_settings,
    current_state,
)
from service.database.counters import CORRUPTED
from service.database.pool import UnusableDatabase
from service.database.remedies import remedy
from service.database.statements import NotFound, to_json
from service.settings import InvalidSetting
from service.values.schemas import FieldError, flatten

log = logging.getLogger("service.errors")

# The name of each message, with its status and its text.
MESSAGES: dict[str, tuple[int, str]] = {
    name: (int(status), text)
    for status, texts in tomllib.loads(
        Path(__file__).with_name("messages.toml").read_text(encoding="utf-8")
    ).items()
    for name, text in texts.items()
}

# The messages that replace Werkzeug's, which are written for people with a browser.
DEFAULT_MESSAGES = {404: "unknown_path", 405: "method", 413: "too_large"}

# How many bytes of JSON the ``current`` of all errors of a response may have together.
MAX_CURRENT = 1_048_576

# SQLSTATE classes and codes (PostgreSQL, appendix A) of errors after which a client can try again.
# The last two are of statements that meet a function while a migration replaces it.
TRANSIENT = re.compile(r"08|53|57|58|25006|25P0|42846|42P13")
# The SQLSTATEs of statement_timeout and lock_timeout.
CANCELLED = {"57014", "55P03"}
# SQLSTATEs of errors that only an operator can correct.
FOR_OPERATORS = {"26000", "42P01", "42P05", "42501", *CORRUPTED}

# Constraints that limit the number of rows, and the names of their messages. Even a valid request
# can violate them.
LIMITS = {"members must be at most 10000 in a workspace": "too_many_members"}

# Constraints that the id of a new object can violate, if a client has chosen it.
IDS = {"tasks_pkey", "meetings_pkey"}


class InvalidFields(BadRequest):
    errors: Sequence[FieldError] = ()


class VersionMismatch(PreconditionFailed):
    """A 412 about one object, with its version, and as ``current`` its JSON as GET returns it."""

    version = 0
    current = b""


class UnsupportedCoding(UnsupportedMediaType):
    """A 415 for a content coding. No other 415 has Accept-Encoding (RFC 9110, section 12.5.3)."""

    def __init__(self, declared: str) -> None:
        super().__init__(MESSAGES["content_encoding"][1].format(declared=declared))

    def get_headers(self, *arguments: Any) -> list[tuple[str, str]]:
        return [*super().get_headers(*arguments), ("Accept-Encoding", "identity")]


def etag(version: int) -> str:
    return f'"{version}"'


def http_error(name: str, /, retry_after: int | None = None, **values: object) -> HTTPException:
    status, message = MESSAGES[name]
    options: dict[str, Any] = {} if retry_after is None else {"retry_after": retry_after}
    return default_exceptions[status](message.format(**values), **options)


def invalid_field(field: str, name: str) -> HTTPException:
    status, message = MESSAGES[name]
    error = invalid_fields([FieldError(field, message)])
    error.code = status
    return error


def invalid_fields(errors: list[FieldError]) -> HTTPException:
    invalid = InvalidFields("; ".join(f"{error.field}: {error.message}" for error in errors))
    invalid.errors = errors
    return invalid


def init_app(app: Flask) -> None:
    app.register_error_handler(HTTPException, reply_error)
    app.register_error_handler(ValidationError, reply_invalid)
    app.register_error_handler(
        NotFound,
        lambda error: reply_error(http_error("not_found", resource=error.resource.capitalize())),
    )
    app.register_error_handler(InvalidSetting, lambda error: reply_error(missing_key(error)))
    app.register_error_handler(psycopg.Error, lambda error: reply_error(from_database(error)))
    app.register_error_handler(Exception, lambda error: reply_error(internal_error(error)))


def reply_error(error: HTTPException) -> Response:
    """Answer with an error body and the headers of the error (Allow, Retry-After, …)."""
    forget_frames(error)
    status = error.code or 500
    message = error.description
    if message is None or message == type(error).description:
        name = DEFAULT_MESSAGES.get(status)
        message = MESSAGES[name][1] if name else error.name
        message = message.format(max=current_settings().max_body)
    content = error_body(
        status,
        message,
        errors=error.errors if isinstance(error, InvalidFields) else (),
        request_id=current_state().request_id,
    )
    headers = [header for header in error.get_headers() if header[0] != "Content-Type"]
    if isinstance(error, VersionMismatch):
        headers.append(("ETag", etag(error.version)))
        # PostgreSQL wrote this JSON, so it is valid UTF-8.
        content = content[:-1] + b',"current":%b}' % error.current
    make = current_application().response_class
    return make(content, status, headers, mimetype="application/json")


def forget_frames(error: Exception) -> None:
    """Break the cycle of an error and its frames, which keeps the body of the request in memory."""
    error.__traceback__ = error.__context__ = None


def error_body(
    status: int, message: str, *, errors: Sequence[FieldError] = (), request_id: str
) -> bytes:
    """Write an error body in ASCII, so that no text of a client can make it invalid UTF-8.

    Only ``current`` is as PostgreSQL wrote it.
    """
    members = [to_json({"message": " ".join(message.split()), "status": status}).encode()[1:-1]]
    if errors:
        members.append(b'"errors":[%b]' % b",".join(members_of(errors)))
    members.append(b'"requestId":%b' % to_json(request_id).encode())
    return b"{%b}" % b",".join(members)


def members_of(errors: Sequence[FieldError]) -> Iterator[bytes]:
    """Write each error, with ``current`` until all of them together have more than MAX_CURRENT."""
    left = MAX_CURRENT
    for error in errors:
        members = to_json({"field": error.field, "message": error.message}).encode()
        if error.current is not None:
            left -= len(error.current)
            if left >= 0:
                members = members[:-1] + b',"current":%b}' % error.current
        yield members


def reply_invalid(error: ValidationError) -> Response:
    forget_frames(error)
    return reply_error(invalid_fields(flatten(error)))


def from_database(error: psycopg.Error) -> HTTPException:
    """Translate an error of PostgreSQL, and log it unless a client has caused it.

    A constraint that a client can violate has a sentence as its name: the field and the message.
    """
    sqlstate = error.sqlstate
    constraint = error.diag.constraint_name or ""
    if sqlstate is None and isinstance(error, psycopg.DataError):
        return http_error("nul")
    if sqlstate in CANCELLED:
        log.warning("statement cancelled: %s", type(error).__name__)
        return http_error("timeout", retry_after=1)
    if isinstance(error, UnusableDatabase):
        log.error("%s", error)
        return http_error("unavailable", retry_after=1)
    if sqlstate in FOR_OPERATORS:
        log.error("%s: %s", error.diag.message_primary, remedy(error))
        current_state().pool.counters.failed(error)
        return http_error("unavailable", retry_after=1)
    if sqlstate is None or TRANSIENT.match(sqlstate):
        log.warning("database unavailable: %s", type(error).__name__)
        return http_error("unavailable", retry_after=1)
    if sqlstate == "23502" and error.diag.column_name == "workspace_id":
        return http_error("no_workspace")
    # Only foreign keys to workspaces lack a sentence as their name: an operator has deleted the
    # workspace meanwhile.
    deleted = sqlstate == "23503" and (
        current_request().method == "DELETE" or " " not in constraint
    )
    if sqlstate.startswith("40") and current_request().method in ("GET", "HEAD"):
        # The client has changed nothing, so there is no conflict: the gate counts every request.
        log.warning("database unavailable: %s", type(error).__name__)
        return http_error("unavailable", retry_after=1)
    if sqlstate.startswith("40") or deleted:
        return http_error("concurrent_change")
    if constraint in IDS:
        return invalid_field("id", "taken_id")
    if constraint in LIMITS:
        return http_error(LIMITS[constraint])
    if sqlstate in ("23503", "23514") and " " in constraint:
        field, message = constraint.split(" ", 1)
        return invalid_fields([FieldError(field, message)])
    if sqlstate.startswith("22") or sqlstate == "54000":
        return http_error("out_of_range")
    return internal_error(error)


def missing_key(error: InvalidSetting) -> HTTPException:
    """Log which key WEBHOOK_KEY lacks: only webhooks need a setting that a process can lack."""
    log.error("%s", error)
    # A client may try again after a minute, because an operator has to add the key first.
    return http_error("no_webhook_key", retry_after=60)


def internal_error(error: Exception) -> HTTPException:
    log.error("unhandled: %s", type(error).__name__, exc_info=error)
    return http_error("internal")
