"""What comes in: one strict reader for bodies and queries, used by every blueprint.

A body is UTF-8 JSON (RFC 8259) and an object; a query is known names, each once.
"""

import json
import re
from functools import lru_cache, wraps
from urllib.parse import parse_qs

import flask_smorest
from flask import current_app, request
from gunicorn.http.errors import ParseException
from werkzeug.exceptions import (
    BadRequest,
    ClientDisconnected,
    RequestEntityTooLarge,
    UnsupportedMediaType,
)

from service.errors import BadInput

JSON_TYPE = re.compile(r"application/([a-z0-9.-]+\+)?json", re.ASCII)


class Blueprint(flask_smorest.Blueprint):
    """A blueprint under ``/api`` whose views take what a schema has checked."""

    def __init__(self, name, description):
        super().__init__(name, f"service.{name}", url_prefix="/api", description=description)

    def arguments(self, schema, location="json"):
        """Hand the checked body or query (``location``) to the view as its first argument.

        flask-smorest documents it; the checking is done here, by one instance of the schema for all
        requests and without the parser around it, which would take longer than the schema itself.
        """
        schema = schema() if isinstance(schema, type) else schema

        def read_body():
            return schema.load(read_object(request))

        # Clients ask the same again and again, so what a query comes to is remembered.
        @lru_cache(maxsize=256)
        def load_query(query):
            return schema.load(parse_query(query))

        def read_query():
            return load_query(request.query_string).copy()

        read = {"json": read_body, "query": read_query}[location]

        def decorator(view):
            @wraps(view)
            def checked(**variables):
                return view(read(), **variables)

            documented = super(Blueprint, self).arguments(schema, location=location)(view)
            checked._apidoc = documented._apidoc
            return checked

        return decorator


def init_app(app):
    app.before_request(refuse_stray_query)


def refuse_stray_query():
    """A query on a path that takes none is a mistake that its sender should hear of."""
    if request.query_string and request.endpoint:
        documented = getattr(current_app.view_functions[request.endpoint], "_apidoc", {})
        parameters = documented.get("arguments", {}).get("parameters", [])
        stray = named(request.query_string)
        if stray and not any(parameter["in"] == "query" for parameter in parameters):
            raise BadInput(
                *((name, "unknown query parameter; none is allowed here") for name in stray)
            )


def named(query):
    """The names in the bytes of a query, each with a list of its values."""
    return parse_qs(query.decode(errors="replace"), keep_blank_values=True)


def parse_query(query):
    """The bytes of a query as a plain dict; a name that stands twice is refused."""
    parameters = named(query)
    for name, values in parameters.items():
        if len(values) > 1:
            raise BadInput((name, "stands more than once; once is allowed"))
    return {name: value for name, (value,) in parameters.items()}


def read_object(request):
    """The body as a dict; raises 400, 413 or 415 with what to mend."""
    declared = request.content_type
    if declared and declared != "application/json":
        declared = request.mimetype
    if declared and not JSON_TYPE.fullmatch(declared):
        raise UnsupportedMediaType(f"Content-Type is {declared}; application/json is allowed")
    try:
        return parse_object(read_bytes(request))
    except ValueError as error:
        raise BadRequest(f"The body {error}") from None


def parse_object(content):
    """The bytes as a dict; raises ValueError with what is wrong with them."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("must be JSON in UTF-8") from None
    if text.startswith("\ufeff"):
        raise ValueError("must be a JSON object: Unexpected UTF-8 BOM")
    try:
        content = DECODER.decode(text)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"must be a JSON object: {error}") from None
    if not isinstance(content, dict):
        raise ValueError("must be a JSON object")
    return content


def read_bytes(request):
    """All bytes of the body, exactly as many as were announced and at most ``MAX_BODY``."""
    limit = current_app.config["SETTINGS"].max_body
    announced = request.content_length
    if announced is not None and announced > limit:
        raise RequestEntityTooLarge
    try:
        content = request.get_data()
    except RequestEntityTooLarge:
        raise
    except ClientDisconnected:
        raise BadRequest("The body stopped before all of it had come") from None
    except (ParseException, OSError) as error:
        raise BadRequest(f"The body could not be read: {error}") from None
    # Werkzeug cuts a chunked body off without a word, one byte later (MAX_CONTENT_LENGTH).
    if len(content) > limit:
        raise RequestEntityTooLarge
    if announced is not None and len(content) != announced:
        raise BadRequest(f"The body has {len(content)} bytes, Content-Length says {announced}")
    return content


def _object(pairs):
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} stands more than once")
    return content


def _no_constant(name):
    raise ValueError(f"{name} is not JSON")


def _whole(text):
    if len(text) > 100:
        raise ValueError(f"the integer {text:.20}... is out of range")
    return int(text)


def _finite(text):
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"the number {text:.20} is out of range")
    return number


DECODER = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_constant=_no_constant,
    parse_float=_finite,
    parse_int=_whole,
)
