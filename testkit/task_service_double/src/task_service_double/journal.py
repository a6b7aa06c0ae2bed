"""The journal of the requests that clients sent to the API."""

from collections import deque
from threading import Lock
from typing import NamedTuple

from flask import Response
from werkzeug.exceptions import RequestEntityTooLarge

from service.context import current_request
from task_service_double.faults import NO_RESPONSE, response_kind

# How many requests the journal keeps, and how many characters of each body.
MAX_REQUESTS, MAX_BODY = 1000, 65_536

CREDENTIALS = {"authorization", "cookie"}


class SentRequest(NamedTuple):
    """A request below /api, without its credential. ``status`` is None if no response was sent."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: str
    status: int | None


class Journal:
    """The newest requests, in the order of their responses."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._requests: deque[SentRequest] = deque(maxlen=MAX_REQUESTS)

    def clear(self) -> None:
        with self._lock:
            self._requests.clear()

    def requests(self) -> list[SentRequest]:
        """Return all requests that the journal keeps, oldest first."""
        with self._lock:
            return list(self._requests)

    def record(self, response: Response) -> Response:
        """Add the request of this response, and return the response."""
        request = current_request()
        if request.path.startswith("/api/"):
            headers = {name.lower(): value for name, value in request.headers.items()}
            sent = SentRequest(
                request.method,
                request.path,
                request.query_string.decode(errors="replace"),
                {name: headers[name] for name in headers.keys() - CREDENTIALS},
                body().decode(errors="replace")[:MAX_BODY],
                None if response_kind() in NO_RESPONSE else response.status_code,
            )
            with self._lock:
                self._requests.append(sent)
        return response


def body() -> bytes:
    """Return the body of the request, even one that the service rejects as too large."""
    request = current_request()
    try:
        return request.get_data()
    except RequestEntityTooLarge:
        unread: bytes = request.environ["wsgi.input"].read()
        return unread
