"""The JSON response to a request that does not reach the application."""

import time
from http import HTTPStatus
from secrets import token_hex

from gunicorn.http import errors as faults
from werkzeug.exceptions import HTTPException

from service.http import errors

STATUS: dict[type[Exception], int] = {
    faults.ConfigurationProblem: 500,
    faults.InvalidResponseHeader: 500,
    faults.InvalidResponseHeaderName: 500,
    faults.LimitRequestLine: 414,
    faults.LimitRequestHeaders: 431,
    faults.ExpectationFailed: 417,
    faults.ParseException: 400,
}


def status_and_message(fault: BaseException) -> tuple[int, str]:
    """Return the status and the message for an exception."""
    if isinstance(fault, HTTPException):
        return fault.code or 500, str(fault.description)
    status = next((STATUS[kind] for kind in STATUS if isinstance(fault, kind)), 500)
    return status, "Internal Server Error" if status == 500 else str(fault)[:200]


def error_page(status: int, message: str, *, retry_after: int | None = None) -> bytes:
    """Return head and body of a response to a request that has not reached the application."""
    request_id = token_hex(8)
    body = errors.body(status, message, request_id=request_id)
    retry = "" if retry_after is None else f"Retry-After: {retry_after}\r\n"
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"
        "Connection: close\r\n"
        "Content-Type: application/json\r\n"
        "Cache-Control: private, no-cache\r\n"
        f"Content-Length: {len(body)}\r\n"
        f"X-Request-Id: {request_id}\r\n"
        f"{retry}"
        "X-RateLimit-Limit: 60\r\n"
        "X-RateLimit-Remaining: 0\r\n"
        f"X-RateLimit-Reset: {int(time.time()) + 60}\r\n\r\n"
    )
    return head.encode() + body
