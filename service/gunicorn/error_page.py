"""The JSON response to a request that the application did not get, or failed to answer."""

import time
from http import HTTPStatus
from secrets import token_hex

from werkzeug.exceptions import HTTPException

from service.http import errors
from service.limits import MINUTE, STARTER_PER_MINUTE


def error_page(fault: BaseException) -> bytes:
    """Return head and body of the response to an exception; it is a 500 unless it has a status."""
    status, message, more = 500, "Internal Server Error", ""
    if isinstance(fault, HTTPException):
        status, message = fault.code or status, str(fault.description)
        if after := getattr(fault, "retry_after", None):
            more = f"Retry-After: {after}\r\n"
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            more = "Allow:\r\n"  # CONNECT, whose target allows no method.
    request_id = token_hex(8)
    body = errors.error_body(status, message, request_id=request_id)
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"
        "Connection: close\r\n"
        "Content-Type: application/json\r\n"
        "X-Content-Type-Options: nosniff\r\n"
        "Cache-Control: private, no-cache\r\n"
        f"Content-Length: {len(body)}\r\n"
        f"X-Request-Id: {request_id}\r\n"
        f"{more}"
        f"X-RateLimit-Limit: {STARTER_PER_MINUTE}\r\n"
        "X-RateLimit-Remaining: 0\r\n"
        f"X-RateLimit-Reset: {int(time.time()) + MINUTE}\r\n\r\n"
    )
    return head.encode() + body
