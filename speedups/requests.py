"""Requests whose body is read from the server in one piece, without Werkzeug's two streams.

Relies on nothing that Werkzeug does not document: ``get_data`` may be overridden.
"""

from typing import Any

import flask
from werkzeug.exceptions import RequestEntityTooLarge

from service.context import current_application

JSON = "application/json"


class Request(flask.Request):
    """A request that reads its body once, up to the limit."""

    _body: bytes | None = None

    def get_data(self, *args: Any, **options: Any) -> Any:
        if args or options:
            return super().get_data(*args, **options)
        if self._body is None:
            self._body = self._read()
        return self._body

    def close(self) -> None:
        """Close the uploaded files, if a view has read any; no view of the service does."""
        if "files" in self.__dict__:
            super().close()

    def _read(self) -> bytes:
        """Read the body up to MAX_CONTENT_LENGTH; raises 413 if Content-Length is above it."""
        limit: int = current_application().config["MAX_CONTENT_LENGTH"]
        length = self.content_length
        if length is not None and length > limit:
            raise RequestEntityTooLarge
        body: bytes = self.environ["wsgi.input"].read(limit if length is None else length)
        return body

    @property
    def content_length(self) -> int | None:
        """The length of the body; None if it is chunked. Werkzeug looks up both headers slowly."""
        environ = self.environ
        declared: str = environ.get("CONTENT_LENGTH", "")
        if declared.isdecimal() and declared.isascii() and "HTTP_TRANSFER_ENCODING" not in environ:
            return int(declared)
        return super().content_length

    @property
    def mimetype(self) -> str:
        """The media type; Werkzeug parses its parameters too."""
        declared = self.environ.get("CONTENT_TYPE", "")
        return JSON if declared == JSON else super().mimetype
