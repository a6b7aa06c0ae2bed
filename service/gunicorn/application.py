"""Passes one request from gunicorn's parser to the WSGI application, in a thread."""

from collections.abc import Callable, Iterable

from gunicorn.config import Config
from gunicorn.http import wsgi
from gunicorn.http.body import LengthReader
from gunicorn.http.errors import ParseException
from werkzeug.exceptions import HTTPException

from service.gunicorn.connection import Connection
from service.gunicorn.response_writer import ResponseWriter
from service.http.access_log import ARRIVED, QUEUED
from service.http.requests import BODY_ARRIVED


def run(
    application: Callable[..., Iterable[bytes]], conn: Connection, cfg: Config, *, last: bool
) -> bool:
    """Pass the request to the application and write its response to the socket.

    Return True if the connection can serve another request; after the ``last`` request it cannot.
    """
    request = next(conn.parser)
    writer, environ = wsgi.create(
        request, conn.sock, conn.client, conn.server, cfg, response_class=ResponseWriter
    )
    environ["wsgi.multithread"] = True
    # The time, by time.monotonic(), when the request began to wait for a thread.
    environ[ARRIVED] = conn.since
    environ[QUEUED] = conn.queued
    reader = request.body.reader
    environ[BODY_ARRIVED] = isinstance(reader, LengthReader) and reader.length <= conn.received
    # With this header werkzeug would look for a WebSocket route; the service has none.
    environ.pop("HTTP_UPGRADE", None)
    if last:
        writer.force_close()
    body = application(environ, writer.start_response)
    try:
        for part in body:
            writer.write(part)
        writer.close()
    finally:
        if hasattr(body, "close"):
            body.close()
    return not writer.should_close() and skip_body(conn)


def skip_body(conn: Connection) -> bool:
    """Skip the rest of the body; return False, without waiting, if the rest has not arrived yet."""
    conn.sock.deadline = 0
    try:
        if not conn.parser.finish_body():
            return False
    except (ParseException, HTTPException):
        return False
    # Otherwise the parser would skip the body of this request again.
    conn.parser.mesg = None
    return True
