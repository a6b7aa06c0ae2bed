"""The response to a request that never reaches the application: JSON, like all others."""

import time
from http import HTTPStatus
from secrets import token_hex

from service.http import errors


def error_page(status: int, message: str) -> bytes:
    """A whole response, for a request that the application has not seen."""
    request_id = token_hex(8)
    body: bytes = errors.body(status, message, request_id=request_id)
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"
        "Connection: close\r\n"
        "Content-Type: application/json\r\n"
        "Cache-Control: private, no-cache\r\n"
        f"Content-Length: {len(body)}\r\n"
        f"X-Request-Id: {request_id}\r\n"
        "X-RateLimit-Limit: 60\r\n"
        "X-RateLimit-Remaining: 0\r\n"
        f"X-RateLimit-Reset: {int(time.time()) + 60}\r\n\r\n"
    )
    return head.encode() + body
