"""Passes one request to the WSGI application (PEP 3333)."""

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from service.gunicorn.response import Response

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

# The address of a socket: two members for IPv4, four for IPv6, a path for a Unix socket.
Address = tuple[str, int] | tuple[str, int, int, int] | str


def run(application: Callable[..., Iterable[bytes]], environ: "WSGIEnvironment") -> Response:
    """Return the response of the application; raises the errors of the application.

    If its body ends with an OSError, the response is ``broken``: it has the parts before the error.
    """
    response = Response()
    body = application(environ, response.start)
    try:
        response.parts += body
    except OSError:
        response.broken = True
    finally:
        if hasattr(body, "close"):
            body.close()
    return response


def base_environment(client: Address, server: Address, *, multiprocess: bool) -> "WSGIEnvironment":
    """Return the members of the environment that all requests of a connection share."""
    return {
        "SCRIPT_NAME": "",
        # A Unix socket has a path in place of host and port.
        "SERVER_NAME": server[0] if isinstance(server, tuple) else "localhost",
        "SERVER_PORT": str(server[1]) if isinstance(server, tuple) else "",
        "REMOTE_ADDR": client[0] if isinstance(client, tuple) else client,
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input_terminated": True,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": multiprocess,
        "wsgi.run_once": False,
    }
