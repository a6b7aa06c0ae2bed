"""Writes the response of the application to the socket of the client."""

from gunicorn.http import wsgi
from gunicorn.http.errors import InvalidResponseHeader


class ResponseWriter(wsgi.Response):
    """Headers are checked all at once; gunicorn would match each by two patterns."""

    headers: list[tuple[str, str]]

    def process_headers(self, headers: list[tuple[str, str]]) -> None:
        """Take the headers; a control character in one of them could begin another one."""
        if not "".join(map("".join, headers)).isprintable():
            raise InvalidResponseHeader("a control character")
        self.headers = headers
        for name, value in headers:
            if name == "Content-Length":
                self.response_length = int(value)

    def should_close(self) -> bool:
        """Close the connection after a request that did not arrive in time, too."""
        return bool(self.sock.timed_out or super().should_close())
