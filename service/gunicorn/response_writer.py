"""Writes the response of the application to the socket of the client."""

from gunicorn.http import wsgi
from gunicorn.http.errors import InvalidResponseHeader


class ResponseWriter(wsgi.Response):
    """Checks all headers at once; gunicorn would match each header with two patterns."""

    headers: list[tuple[str, str]]

    def process_headers(self, headers: list[tuple[str, str]]) -> None:
        """Store the headers; raise an error for control characters, which could begin a header."""
        if not "".join(map("".join, headers)).isprintable():
            raise InvalidResponseHeader("a control character")
        self.headers = headers
        for name, value in headers:
            if name == "Content-Length":
                self.response_length = int(value)

    def should_close(self) -> bool:
        """Return True if the connection must close, also after a request that timed out."""
        return bool(self.sock.timed_out or super().should_close())
