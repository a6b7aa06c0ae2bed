"""The HTTP server with the limits, the urgent path and the error page of the service."""

import os

from service.settings import Settings
from service.speedups import http_server
from service.speedups.http_server.errors import error_head
from service.web import errors, gate


def error_page(status: int, message: str, fields: list[tuple[str, str]]) -> bytes:
    """Make head and body of an error response that has the form of all errors of the service."""
    request_id = os.urandom(8).hex()
    body = errors.error_body(status, message, request_id)
    head = [
        ("Content-Type", "application/json"),
        ("X-Request-Id", request_id),
        *gate.uncounted_headers(status),
        *fields,
    ]
    return error_head(status, head, body) + body


class Server(http_server.Worker):
    """Lets /healthz overtake the other requests, and responds to errors in JSON."""

    urgent_path = b"/healthz"
    on_error = staticmethod(error_page)

    def run(self) -> None:
        self.max_body = Settings.read().max_body
        super().run()
