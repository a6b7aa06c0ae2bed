"""Responses whose headers are complete, so that nothing has to check, copy or correct them.

Relies on ``Headers._list``, which Werkzeug does not document.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from flask import Response
from werkzeug.datastructures import Headers

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment


class CompleteHeaders(Headers):
    """Headers whose values only the service makes: none contains a newline."""

    def __init__(self, fields: Iterable[tuple[str, str]]) -> None:
        self._list = [*fields]

    def extend(self, fields: Any = (), /, **named: Any) -> None:
        """Append pairs without a check; treat any other argument as Werkzeug does."""
        if type(fields) is list and not named:
            self._list.extend(fields)
        else:
            super().extend(fields, **named)

    def to_wsgi_list(self) -> list[tuple[str, str]]:
        """Copy the list as a whole; Werkzeug iterates over the headers."""
        return self._list.copy()


class Reply(Response):
    """A response that sends its headers as they are, if it is made with a body and a MIME type."""

    def __init__(
        self,
        response: Any = None,
        status: Any = None,
        headers: Any = None,
        mimetype: str | None = None,
        content_type: str | None = None,
        direct_passthrough: bool = False,
    ) -> None:
        body = response.encode() if isinstance(response, str) else response
        # Werkzeug treats a response without a body, or without one of these types, in its own way.
        is_plain = type(body) is bytes and body and status not in (204, 304)
        if not is_plain or mimetype is None or content_type is not None:
            super().__init__(response, status, headers, mimetype, content_type, direct_passthrough)
            return
        pairs = headers.items() if hasattr(headers, "items") else headers or ()
        complete = CompleteHeaders(
            [("Content-Type", mimetype), *pairs, ("Content-Length", str(len(body)))]
        )
        super().__init__([body], status, complete)

    def __call__(
        self, environ: "WSGIEnvironment", start_response: "StartResponse"
    ) -> Iterable[bytes]:
        """Send the response. The base class corrects the headers of a response without a body."""
        if environ["REQUEST_METHOD"] == "HEAD" or type(self.headers) is not CompleteHeaders:
            return super().__call__(environ, start_response)
        start_response(self.status, self.headers.to_wsgi_list())
        return self

    def __iter__(self) -> Iterator[bytes]:
        """The parts of the body; the server calls ``close`` after the last one."""
        return iter(self.response)  # type: ignore[arg-type]
