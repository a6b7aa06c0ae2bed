"""Requests whose body is read from the server at once, without Werkzeug's two streams.

Relies on nothing that Werkzeug does not document: ``get_data`` may be overridden.
"""

from functools import cached_property
from typing import Any

import flask
from werkzeug.exceptions import RequestEntityTooLarge

from service.database.db import current_application

JSON = "application/json"


class Request(flask.Request):
    """A request that reads its body once, up to the limit."""

    def get_data(self, *args: Any, **options: Any) -> Any:
        if args or options:
            return super().get_data(*args, **options)
        return self.body

    @cached_property
    def body(self) -> bytes:
        """The body up to MAX_CONTENT_LENGTH; raises 413 if Content-Length is above it."""
        limit: int = current_application().config["MAX_CONTENT_LENGTH"]
        declared: str = self.environ.get("CONTENT_LENGTH", "")
        length = int(declared) if declared.isascii() and declared.isdigit() else None
        if length is not None and length > limit:
            raise RequestEntityTooLarge
        body: bytes = self.environ["wsgi.input"].read(limit if length is None else length)
        return body

    @cached_property
    def mimetype(self) -> str:
        """The media type; Werkzeug parses its parameters too."""
        declared = self.environ.get("CONTENT_TYPE", "")
        return JSON if declared == JSON else super().mimetype
