"""Requests: one strict reader for bodies, queries and ids, which every view uses.

A body is a JSON object in UTF-8 (RFC 8259); a query has known names only, each at most once unless
it takes a list.
"""

import re
from collections.abc import Callable, Container
from functools import lru_cache, wraps
from typing import Any
from urllib.parse import parse_qs

from flask import Flask, Request
from marshmallow import Schema
from werkzeug.routing import BaseConverter

from service.database.db import current_application, current_request, current_state
from service.http.errors import http_error, invalid_field
from service.values.fields import SomeOf, uuid_or_nil
from service.values.schemas import MAX_ECHO, Query
from service.values.strict_json import StrictJSONError, parse_object

View = Callable[..., Any]
Values = dict[str, Any]

JSON_TYPE = re.compile(r"application/([a-z0-9.-]+\+)?json", re.ASCII)


class IdConverter(BaseConverter):
    """Converts ``<id:id>`` in paths: a malformed id becomes the nil UUID, which no row has."""

    def to_python(self, value: str) -> str:
        return uuid_or_nil(value)


def init_app(app: Flask) -> None:
    app.url_map.converters["id"] = IdConverter
    app.before_request(reject_unknown_query)


def arguments(schema: Schema) -> Callable[[View], View]:
    """Pass the loaded query or body to the decorated view, as its first argument.

    A ``Query`` loads the query, any other schema the body. The view then raises 400, 413 or 415
    for invalid requests. One instance of the schema serves all requests.
    """

    lists = {field.data_key for field in schema.fields.values() if isinstance(field, SomeOf)}

    # Clients repeat their queries, so the loaded values of a query are cached.
    @lru_cache(maxsize=256)
    def load_query(query: bytes) -> Values:
        values: Values = schema.load(parse_query(query, lists))
        return values

    def read_query() -> Values:
        return load_query(current_request().query_string).copy()

    def read_body() -> Values:
        values: Values = schema.load(read_object())
        return values

    read = read_query if isinstance(schema, Query) else read_body

    def decorate(view: View) -> View:
        @wraps(view)
        def wrapper(**variables: object) -> object:
            return view(read(), **variables)

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
    """Parse a query; raises 400 for a repeated name.

    Some generated clients repeat the name of a list instead of using commas.
    """
    values = query_values(query)
    for name, (_, *more) in values.items():
        if more and name not in lists:
            raise invalid_field(name[:MAX_ECHO], "repeated_query_parameter")
    return {name: ",".join(several) for name, several in values.items()}


def read_object() -> Values:
    """Read the body as a JSON object; raises 400, 413 or 415."""
    request = current_request()
    if request.environ.get("CONTENT_TYPE", "") not in ("", "application/json"):
        declared = request.mimetype
        if declared and not JSON_TYPE.fullmatch(declared):
            raise http_error("media_type", declared=declared[:MAX_ECHO])
    try:
        return parse_object(read_bytes(request))
    except StrictJSONError as error:
        raise http_error("invalid_body", reason=error) from None


def content_length(request: Request) -> int | None:
    """Read Content-Length; None if the request has none, like a chunked one."""
    # Werkzeug's own property raises and catches two exceptions if the header is absent.
    declared: str = request.environ.get("CONTENT_LENGTH", "")
    return int(declared) if declared.isascii() and declared.isdigit() else None


def read_bytes(request: Request) -> bytes:
    """Read the body, once; raises 413 above MAX_BODY, and 400 if it does not arrive whole."""
    state = current_state()
    if state.body is None:
        limit = current_application().config["MAX_CONTENT_LENGTH"]
        declared = content_length(request)
        if declared is not None and declared >= limit:
            raise http_error("too_large")
        # Werkzeug would wrap the body in two streams, and truncate it at its limit.
        try:
            body: bytes = request.environ["wsgi.input"].read(
                limit if declared is None else declared
            )
        except Exception as error:
            # gthread reads the body here. Its errors about chunks have no common type.
            raise http_error("unreadable_body", reason=type(error).__name__) from None
        if len(body) >= limit:
            raise http_error("too_large")
        if len(body) < (declared or 0):
            raise http_error("incomplete_body")
        state.body = body
    return state.body
