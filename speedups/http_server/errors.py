"""The error responses that the worker sends without the application."""

from http import HTTPStatus


class RequestError(Exception):
    """A request that the worker rejects: the status, a message, and header fields.

    The message contains nothing that the client has sent.
    """

    def __init__(self, status: int, message: str, **fields: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message
        self.fields = [(name.replace("_", "-"), value) for name, value in fields.items()]


def error_head(status: int, fields: list[tuple[str, str]], body: bytes) -> bytes:
    """Return the head of an error response, after which the connection closes."""
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        "Connection: close",
        f"Content-Length: {len(body)}",
        *map(": ".join, fields),
    ]
    return "\r\n".join([*lines, "\r\n"]).encode("latin-1")


def error_page(status: int, message: str, fields: list[tuple[str, str]]) -> bytes:
    """Return an error response as plain text, with these header fields."""
    body = f"{message}\n".encode()
    return error_head(status, [("Content-Type", "text/plain; charset=utf-8"), *fields], body) + body
