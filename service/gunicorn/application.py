"""Passes one request from gunicorn's parser to the WSGI application, in a thread (PEP 3333)."""

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from gunicorn.config import Config
from gunicorn.http.body import LengthReader
from gunicorn.http.errors import ParseException
from gunicorn.http.message import Request
from werkzeug.exceptions import HTTPException

from service.gunicorn.connection import Connection
from service.gunicorn.response import Response
from service.http.access_log import ARRIVED, QUEUED
from service.http.requests import BODY_ARRIVED

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment


def run(
    application: Callable[..., Iterable[bytes]], conn: Connection, cfg: Config, *, last: bool
) -> bool:
    """Pass the request to the application and write its response to the socket.

    Return True if the connection can serve another request; after the ``last`` request it cannot.
    """
    request = next(conn.parser)
    environ = environment(request, conn, cfg)
    if request._expected_100_continue:
        conn.sock.send(b"HTTP/1.1 100 Continue\r\n\r\n")
    response = Response()
    body = application(environ, response.start)
    try:
        response.parts += body
    finally:
        if hasattr(body, "close"):
            body.close()
    reuse = not (last or conn.sock.timed_out or request.should_close()) and skip_body(conn)
    for part in response.encode(request.method, reuse=reuse):
        conn.sock.sendall(part)
    return reuse


def environment(request: Request, conn: Connection, cfg: Config) -> "WSGIEnvironment":
    """Return the environment of the request; no header of the client changes its other members."""
    client, server, reader = conn.client, conn.server, request.body.reader
    environ = {
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(request.path).decode("latin-1"),
        "QUERY_STRING": request.query,
        # A Unix socket has a path in place of host and port.
        "SERVER_NAME": server[0] if isinstance(server, tuple) else "localhost",
        "SERVER_PORT": str(server[1]) if isinstance(server, tuple) else "",
        "SERVER_PROTOCOL": f"HTTP/{request.version[0]}.{request.version[1]}",
        "REMOTE_ADDR": client[0] if isinstance(client, tuple) else client,
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": request.body,
        "wsgi.input_terminated": True,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": cfg.workers > 1,
        "wsgi.run_once": False,
        # The time, by time.monotonic(), when the request began to wait for a thread.
        ARRIVED: conn.since,
        QUEUED: conn.queued,
        BODY_ARRIVED: isinstance(reader, LengthReader) and reader.length <= conn.received,
    }
    for name, value in request.headers:
        if name in ("CONTENT-TYPE", "CONTENT-LENGTH"):
            key = name.replace("-", "_")
        elif name == "UPGRADE":
            # werkzeug would look for a WebSocket route; the service has none.
            continue
        else:
            key = "HTTP_" + name.replace("-", "_")
        environ[key] = f"{environ[key]},{value}" if key in environ else value
    return environ


def skip_body(conn: Connection) -> bool:
    """Skip the rest of the body; return False, without waiting, if the rest has not arrived yet."""
    parser = conn.parser
    reader = parser.mesg.body.reader
    if not (isinstance(reader, LengthReader) and reader.length == 0):
        conn.sock.deadline = 0
        try:
            if not parser.finish_body():
                return False
        except (ParseException, HTTPException):
            return False
    # Otherwise the parser would skip the body of this request again.
    parser.mesg = None
    return True
