"""Between the parser and the application: runs one request, in a thread."""

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
    """Pass the request to the application and its response to the socket.

    Returns whether the client may send another request; after the ``last`` one it may not.
    """
    request = next(conn.parser)
    writer, environ = wsgi.create(
        request, conn.sock, conn.client, conn.server, cfg, response_class=ResponseWriter
    )
    environ["wsgi.multithread"] = True
    # When the request was complete, by time.monotonic(); then it waited for a thread.
    environ[ARRIVED] = conn.since
    environ[QUEUED] = conn.queued
    reader = request.body.reader
    environ[BODY_ARRIVED] = isinstance(reader, LengthReader) and reader.length <= conn.received
    # werkzeug would look for a WebSocket route, and the service has none.
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
    """Skip what the application has not read; False if that has not arrived: no thread waits."""
    conn.sock.deadline = 0
    try:
        if not conn.parser.finish_body():
            return False
    except (ParseException, HTTPException):
        return False
    # The request is done with; the parser would skip its body again.
    conn.parser.mesg = None
    return True
