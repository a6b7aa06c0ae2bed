"""Requests: strict readers for bodies, queries and ids, which all views use.

A body must be a JSON object in UTF-8 (RFC 8259), without a content coding. A query must be
percent-encoded UTF-8. It may contain only known names, and must not repeat a name, unless the
parameter takes a list. A parameter that takes an object is repeated for each pair, with the pair's
name in brackets (the style ``deepObject`` of OpenAPI).
"""

import re
from urllib.parse import parse_qs

from flask import Flask, Request
from marshmallow import Schema
from werkzeug.exceptions import ClientDisconnected, HTTPException
from werkzeug.routing import BaseConverter

from service.context import current_application, current_request, current_settings
from service.values import Values
from service.values.schemas import MAX_ECHO, Query
from service.values.strict_json import StrictJSONError, parse_object
from service.values.types import uuid_or_nil
from service.web.errors import http_error, invalid_field

JSON_TYPE = re.compile(r"application/([a-z0-9.-]+\+)?json", re.ASCII)
QUOTED = re.compile(r'"[^"]*"')
# What ``surrogateescape`` makes of bytes that it cannot decode.
NOT_UTF8 = re.compile("[\ud800-\udfff]")


class IdConverter(BaseConverter):
    """Converts ``<id:id>`` in paths.

    A malformed id becomes the nil UUID. No row has this id, so the response is the same 404 as for
    an unknown id.
    """

    def to_python(self, value: str) -> str:
        return uuid_or_nil(value)


def init_app(app: Flask) -> None:
    app.url_map.converters["id"] = IdConverter


def query_values(query: bytes) -> dict[str, list[str]]:
    """Split a query into names and values.

    Bytes that are not UTF-8, or not percent-encoded, become lone surrogates.
    """
    text = query.decode("ascii", errors="surrogateescape")
    return parse_qs(text, keep_blank_values=True, errors="surrogateescape")


def shown(name: str) -> str:
    """Return the name of a query parameter as an error shows it."""
    return NOT_UTF8.sub("?", name[:MAX_ECHO])


def load_arguments(schema: Schema) -> Values:
    """Load the query if the schema is a ``Query``, otherwise the body; raises 400, 413 or 415."""
    values: Values = schema.load(
        parse_query(current_request().query_string, schema)
        if isinstance(schema, Query)
        else read_object()
    )
    return values


def parse_query(query: bytes, schema: Query) -> dict[str, str | dict[str, str]]:
    """Parse a query; raises 400 if it is not percent-encoded UTF-8, or repeats a name.

    Only a parameter that takes a list may be repeated: some generated clients repeat its name
    instead of using commas.
    """
    values = query_values(query)
    plain: dict[str, str] = {}
    objects: dict[str, dict[str, str]] = {}
    for name, (first, *more) in values.items():
        if NOT_UTF8.search("".join((name, first, *more))):
            raise invalid_field(shown(name), "query_encoding")
        if more and name not in schema.lists:
            raise invalid_field(shown(name), "repeated_query_parameter")
        outer, _, inner = name.partition("[")
        if outer in schema.objects and inner.endswith("]"):
            objects.setdefault(outer, {})[inner.removesuffix("]")] = first
        else:
            plain[name] = ",".join((first, *more))
    return {**objects, **plain}


def read_object() -> Values:
    """Read the body as a JSON object; raises 400, 413 or 415."""
    request = current_request()
    coding = request.environ.get("HTTP_CONTENT_ENCODING", "")
    if coding and not {*coding.lower().replace(" ", "").split(",")} <= {"identity", ""}:
        error = http_error("content_encoding", declared=coding[:MAX_ECHO])
        # RFC 9110, section 12.5.3: no other 415 has this header.
        error.headers.append(("Accept-Encoding", "identity"))
        raise error
    content_type = request.environ.get("CONTENT_TYPE", "")
    if "," in content_type and "," in QUOTED.sub("", content_type):
        raise invalid_field("Content-Type", "several_media_types")
    declared = request.mimetype
    if declared and not JSON_TYPE.fullmatch(declared):
        raise http_error("media_type", declared=declared[:MAX_ECHO])
    try:
        return parse_object(read_bytes(request))
    except StrictJSONError as error:
        raise http_error("invalid_body", reason=error) from None


def read_bytes(request: Request) -> bytes:
    """Read the whole body; raises 413 above MAX_BODY, and 400 if the client sent only a part.

    Werkzeug truncates a chunked body at MAX_CONTENT_LENGTH without an error. Therefore this limit
    is one byte more than MAX_BODY, so that this function notices a longer body.
    """
    try:
        body = request.get_data()
    except ClientDisconnected:
        raise http_error("incomplete_body") from None
    except HTTPException:
        raise
    except Exception as error:
        # gunicorn's errors about malformed chunks have no common base class.
        raise http_error("unreadable_body", reason=type(error).__name__) from None
    if len(body) >= current_application().config["MAX_CONTENT_LENGTH"]:
        raise http_error("too_large", max=current_settings().max_body)
    if len(body) < (request.content_length or 0):
        raise http_error("incomplete_body")
    return body
