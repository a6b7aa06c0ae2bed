"""Error responses: ``{"message", "status", "errors"?, "requestId", "current"?}``.

Sources: docs/specification.md, section 7 (message and status); RFC 9110 (statuses and headers).
"""

import json
import logging
import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import psycopg
from flask import Flask, Response
from marshmallow import ValidationError
from werkzeug.exceptions import HTTPException

from service.context import current_application, current_request, current_settings, current_state
from service.database.counters import CORRUPTED
from service.database.pool import UnusableDatabase
from service.database.remedies import remedy
from service.database.statements import NotFound, to_json
from service.settings import InvalidSetting
from service.values import Values
from service.values.schemas import FieldError, flatten

log = logging.getLogger("service.errors")

TEXTS: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_name("messages.toml").read_text(encoding="utf-8")
)
# The field and the message of each constraint that has a short name.
CONSTRAINTS = TEXTS.pop("constraints")
# The name of each message, with its status and its text.
MESSAGES: dict[str, tuple[int, str]] = {
    name: (int(status), text) for status, texts in TEXTS.items() for name, text in texts.items()
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

# A constraint that limits the number of rows, so that even a valid request can violate it.
MEMBERS_LIMIT = "members must be at most 10000 in a workspace"

# Constraints that the id of a new object can violate, if a client has chosen it.
IDS = {"tasks_pkey", "meetings_pkey"}


class HTTPError(Exception):
    """An error with the status, message, headers and further members of its response."""

    errors: Sequence[FieldError] = ()
    # The version and the JSON of one object, as GET returns it, whose version the request refuses.
    version = 0
    current: bytes | None = None

    def __init__(self, status: int, message: str, headers: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, [*headers]


def etag(version: int) -> str:
    return f'"{version}"'


def http_error(name: str, /, retry_after: int = 0, **values: object) -> HTTPError:
    status, message = MESSAGES[name]
    headers = [("Retry-After", str(retry_after))] if retry_after else []
    return HTTPError(status, message.format(**values), headers)


def to_place(place: str | None) -> str:
    """Return the words for the place to which a workspace moves; it may be unknown."""
    return f" to {place}" if place else ""


def invalid_field(field: str, name: str) -> HTTPError:
    status, message = MESSAGES[name]
    return invalid_fields([FieldError(field, message)], status)


def invalid_fields(errors: Sequence[FieldError], status: int = 400) -> HTTPError:
    # A query or a body can have a member whose name is empty.
    faults = (f"""{error.field or '""'}: {error.message}""" for error in errors)
    error = HTTPError(status, "; ".join(faults))
    error.errors = errors
    return error


def init_app(app: Flask) -> None:
    app.register_error_handler(Exception, reply_error)


def reply_error(error: Exception) -> Response:
    """Answer with an error body and the headers of the error (Allow, Retry-After, …)."""
    shown = to_http_error(error)
    # Break the cycle of an error and its frames, which keeps the body of the request in memory.
    error.__traceback__ = error.__context__ = None
    if shown.version:
        shown.headers.append(("ETag", etag(shown.version)))
    request_id = current_state().request_id
    content = error_body(shown.status, shown.message, request_id, shown.errors, shown.current)
    make = current_application().response_class
    return make(content, shown.status, shown.headers, mimetype="application/json")


def error_body(
    status: int,
    message: str,
    request_id: str,
    errors: Sequence[FieldError] = (),
    current: bytes | None = None,
) -> bytes:
    """Write an error body in ASCII, so that no text of a client can make it invalid UTF-8."""
    body: Values = {"message": " ".join(message.split()), "status": status}
    if errors:
        body["errors"] = [*members_of(errors)]
    body["requestId"] = request_id
    if current:
        body["current"] = json.loads(current)
    return to_json(body).encode()


def members_of(errors: Sequence[FieldError]) -> Iterator[Values]:
    """Return each error, with ``current`` until all of them together have more than MAX_CURRENT."""
    left = MAX_CURRENT
    for field, message, current in errors:
        left -= len(current or b"")
        shown = {"current": json.loads(current)} if current and left >= 0 else {}
        yield {"field": field, "message": message, **shown}


def to_http_error(error: Exception) -> HTTPError:
    match error:
        case HTTPError():
            return error
        case HTTPException():
            status, message = error.code or 500, error.description
            if message is None or message == type(error).description:
                name = DEFAULT_MESSAGES.get(status)
                text = MESSAGES[name][1] if name else error.name
                message = text.format(max=current_settings().max_body)
            headers = [field for field in error.get_headers() if field[0] != "Content-Type"]
            return HTTPError(status, message, headers)
        case ValidationError():
            return invalid_fields(flatten(error))
        case NotFound():
            return http_error("not_found", resource=error.resource.capitalize())
        case InvalidSetting():
            # Only webhooks need a setting that a process can lack: a key in WEBHOOK_KEY. A client
            # may try again after a minute, because an operator has to add the key first.
            log.error("%s", error)
            return http_error("no_webhook_key", retry_after=60)
        case psycopg.Error() if known := from_database(error):
            return known
    log.error("unhandled: %s", type(error).__name__, exc_info=error)
    return http_error("internal")


def from_database(error: psycopg.Error) -> HTTPError | None:
    """Translate an error of PostgreSQL, and log it unless a client has caused it.

    Return None for an error that only a bug can cause.
    """
    sqlstate = error.sqlstate or ""
    # A client that has only read is not in conflict: the gate counts every request.
    conflict = sqlstate.startswith("40")
    reads = current_request().method in ("GET", "HEAD")
    if not sqlstate and isinstance(error, psycopg.DataError):
        return http_error("nul")
    if sqlstate in CANCELLED:
        log.warning("statement cancelled: %s", type(error).__name__)
        return http_error("timeout", retry_after=1)
    if isinstance(error, UnusableDatabase):
        log.error("%s", error)
    elif sqlstate in FOR_OPERATORS:
        log.error("%s: %s", error.diag.message_primary, remedy(error))
        current_state().pool.counters.failed(error)
    elif not sqlstate or TRANSIENT.match(sqlstate) or (conflict and reads):
        log.warning("database unavailable: %s", type(error).__name__)
    else:
        return http_error("concurrent_change") if conflict else refused(error, sqlstate)
    return http_error("unavailable", retry_after=1)


def words_of(constraint: str | None) -> str:
    """Return the field and the message of a constraint; "" if no client can violate it.

    Older releases read the names of the constraints that they have, so these names are the words.
    """
    name = constraint or ""
    return CONSTRAINTS.get(name, name if " " in name else "")


def refused(error: psycopg.Error, sqlstate: str) -> HTTPError | None:
    """Translate an error in the data."""
    constraint = error.diag.constraint_name or ""
    field, _, message = words_of(constraint).partition(" ")
    if sqlstate == "23502" and error.diag.column_name == "workspace_id":
        return http_error("no_workspace")
    # Only foreign keys to workspaces lack words: an operator has deleted the workspace meanwhile.
    if sqlstate == "23503" and (current_request().method == "DELETE" or not message):
        return http_error("concurrent_change")
    # Functions of the schema raise these three themselves: writable_workspace(), await_workspace(),
    # workspace_of_meeting().
    if sqlstate == "TMW01":
        place = to_place(error.diag.message_detail)
        return http_error("frozen_workspace", retry_after=5, to=place)
    if sqlstate == "P0002":
        return http_error("not_found", resource="Workspace")
    if sqlstate == "21000":
        return http_error("ambiguous_meeting")
    if constraint in IDS:
        return invalid_field("id", "taken_id")
    if constraint == MEMBERS_LIMIT:
        return http_error("too_many_members")
    if sqlstate in ("23503", "23514") and message:
        return invalid_fields([FieldError(field, message)])
    if sqlstate.startswith("22") or sqlstate == "54000":
        return http_error("out_of_range")
    return None
