"""Every failure leaves as ``{"message", "status", "errors"?, "requestId"}``: one place, one shape.

Sources: specification section 7 (message and status), RFC 9110 (statuses and headers).
"""

import json
import logging
import re

import psycopg
from flask import Response, g, request
from marshmallow import ValidationError
from werkzeug.exceptions import (
    BadRequest,
    Conflict,
    HTTPException,
    InternalServerError,
    NotFound,
    ServiceUnavailable,
)

log = logging.getLogger("service.errors")

# SQLSTATE classes and codes (PostgreSQL, appendix A) that say: not now, try again.
PASSING = re.compile(r"08|53|55P03|57|58|25006|25P0")


# What to say where werkzeug speaks of browsers and spelling.
PLAIN = {
    404: "There is nothing at this path",
    405: "This path does not answer to this method; see Allow for those it does",
    413: "The body is too large",
}


class BadInput(BadRequest):
    """400 for faults of named fields: pairs of field and what is wrong with it."""

    def __init__(self, *faults):
        # A name that the client sent may hold half a surrogate pair, which cannot be written.
        faults = [
            [text.encode("utf-8", "replace").decode() for text in fault_of_field]
            for fault_of_field in faults
        ]
        super().__init__("; ".join(f"{field}: {fault}" for field, fault in faults))
        self.errors = [{"field": field, "message": fault} for field, fault in faults]


class NotHere(NotFound):
    """404 for an id that is absent, malformed or another tenant's: all three look the same."""

    def __init__(self, resource):
        super().__init__(f"There is no {resource.removesuffix('s')} with this id that you may see")


def init_app(app):
    app.register_error_handler(HTTPException, answer)
    app.register_error_handler(ValidationError, lambda error: answer(from_schema(error)))
    app.register_error_handler(psycopg.Error, lambda error: answer(from_database(error)))
    app.register_error_handler(Exception, lambda error: answer(from_bug(error)))


def answer(error):
    """Write an HTTP error as JSON, with the headers that belong to it (Allow, Retry-After, ...)."""
    message = error.description
    if message is None or message == type(error).description:
        message = PLAIN.get(error.code, error.name)
    content = body(
        error.code,
        message,
        errors=getattr(error, "errors", None),
        request_id=g.get("request_id"),
    )
    headers = [header for header in error.get_headers() if header[0] != "Content-Type"]
    if hasattr(error, "etag"):
        headers.append(("ETag", error.etag))
    return Response(content, error.code, headers, mimetype="application/json")


def body(status, message, *, errors=None, request_id=None):
    """The bytes of one error body; plain ASCII, so that no odd input can make it unreadable."""
    content = {"message": " ".join(message.split()), "status": status}
    if errors:
        content["errors"] = errors
    if request_id:
        content["requestId"] = request_id
    return json.dumps(content).encode()


def from_schema(error):
    """What marshmallow found, as one flat list: ``attendees[2]``, ``title``."""

    def flatten(path, messages):
        if isinstance(messages, dict):
            for key, inner in messages.items():
                step = f"[{key}]" if isinstance(key, int) else f".{key}"
                yield from flatten(path + step if path else str(key), inner)
        else:
            yield from ((path, message) for message in messages)

    return BadInput(*flatten("", error.normalized_messages()))


def from_database(error):
    """What Postgres refused: the constraints are sentences that begin with the field."""
    state = error.sqlstate
    constraint = error.diag.constraint_name or ""
    if state is None and isinstance(error, psycopg.DataError):
        return BadRequest("The request holds a character that cannot be stored (NUL)")
    if state is None or PASSING.match(state):
        log.warning("database unavailable: %s", type(error).__name__)
        return ServiceUnavailable("The database is not available at the moment", retry_after=1)
    if state == "23502" and error.diag.column_name == "workspace_id":
        return Conflict("You have no active workspace: ask an owner to add you to one")
    if state == "23505":
        return Conflict(constraint)
    if state.startswith("40") or (state == "23503" and request.method == "DELETE"):
        return Conflict("This was changed by someone else at the same moment: try again")
    if state in ("23503", "23514") and " " in constraint:
        return BadInput(tuple(constraint.split(" ", 1)))
    if state.startswith("22") or state == "54000":
        return BadRequest("The request holds a value that is out of range")
    return from_bug(error)


def from_bug(error):
    log.error("unhandled: %s", type(error).__name__, exc_info=error)
    return InternalServerError("Something went wrong here; it has been logged under this requestId")
