"""Requests: strict readers for bodies, queries and ids, which all views use.

A body must be a JSON object in UTF-8 (RFC 8259). A query may contain only known names. It must not
repeat a name, unless the parameter takes a list.
"""

import re
from collections.abc import Callable, Container
from functools import wraps
from typing import Any
from urllib.parse import parse_qs

from flask import Flask, Request
from marshmallow import Schema
from werkzeug.exceptions import ClientDisconnected, HTTPException
from werkzeug.routing import BaseConverter

from service.database.db import current_application, current_request, current_settings
from service.http.errors import http_error, invalid_field
from service.values.fields import SomeOf, uuid_or_nil
from service.values.schemas import MAX_ECHO, Query
from service.values.strict_json import StrictJSONError, parse_object

View = Callable[..., Any]
Values = dict[str, Any]

JSON_TYPE = re.compile(r"application/([a-z0-9.-]+\+)?json", re.ASCII)


class IdConverter(BaseConverter):
    """Converts ``<id:id>`` in paths.

    A malformed id becomes the nil UUID. No row has this id, so the response is the same 404 as for
    an unknown id.
    """

    def to_python(self, value: str) -> str:
        return uuid_or_nil(value)


def init_app(app: Flask) -> None:
    app.url_map.converters["id"] = IdConverter
    app.before_request(reject_unknown_query)


def arguments(schema: Schema) -> Callable[[View], View]:
    """Pass the loaded query or body to the decorated view, as its first argument.

    If the schema is a ``Query``, it loads the query; any other schema loads the body. For an
    invalid request the view raises 400, 413 or 415. All requests share this instance of the schema.
    """

    lists = {field.data_key for field in schema.fields.values() if isinstance(field, SomeOf)}

    def read_query() -> Values:
        return parse_query(current_request().query_string, lists)

    read = read_query if isinstance(schema, Query) else read_object

    def decorate(view: View) -> View:
        @wraps(view)
        def wrapper(**variables: object) -> object:
            return view(schema.load(read()), **variables)

        wrapper.__dict__["arguments"] = schema
        return wrapper

    return decorate


def reject_unknown_query() -> None:
    """Raise 400 for a query on a path that takes no query."""
    request = current_request()
    if request.query_string and request.endpoint:
        view = current_application().view_functions[request.endpoint]
        if not isinstance(view.__dict__.get("arguments"), Query):
            for name in query_values(request.query_string):
                raise invalid_field(name[:MAX_ECHO], "unknown_query_parameter")


def query_values(query: bytes) -> dict[str, list[str]]:
    return parse_qs(query.decode(errors="replace"), keep_blank_values=True)


def parse_query(query: bytes, lists: Container[str | None]) -> dict[str, str]:
    """Parse a query; raises 400 for a repeated name, except for a parameter that takes a list.

    Some generated clients repeat the name of such a parameter instead of using commas.
    """
    values = query_values(query)
    for name, (_, *more) in values.items():
        if more and name not in lists:
            raise invalid_field(name[:MAX_ECHO], "repeated_query_parameter")
    return {name: ",".join(several) for name, several in values.items()}


def read_object() -> Values:
    """Read the body as a JSON object; raises 400, 413 or 415."""
    request = current_request()
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
