"""How gunicorn runs the service; read by ``gunicorn app:app`` in this folder.

Everything that differs between deployments is a setting of the environment (README, Settings).
"""

import logging
import signal
import socket
import struct
import sys
import time
from secrets import token_hex

from gunicorn import util

from service.http import errors
from service.settings import InvalidSetting, Settings

try:
    settings = Settings.read()
    settings.require_database()
except InvalidSetting as error:
    sys.exit(f"Error: {error}")

host = f"[{settings.host}]" if ":" in settings.host else settings.host
bind = f"{host}:{settings.port}"
workers = settings.web_concurrency
worker_class = "gthread"
threads = settings.web_threads
# Longer than a proxy keeps idle connections (nginx: 60 s), so that it never writes to a closed one.
keepalive = 75
# Longer than a request can take: one statement for the gate, one for the work.
graceful_timeout = 30
limit_request_line = 8190
# Two services on one machine would have one socket.
control_socket_disable = True
# The service writes one line a request itself.
accesslog = None


# A client that is gone or stands still is no fault of the service, and worth no traceback.
logging.getLogger("gunicorn.error").addFilter(
    lambda record: not (record.exc_info and isinstance(record.exc_info[1], BlockingIOError))
)


def post_fork(_server, worker):
    """A client that stops in the middle of a request gives its thread back after 2.5 seconds."""
    for listener in worker.sockets:
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            listener.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", 2, 500_000))


def post_worker_init(worker):
    """Told to stop, a worker stops listening too: a new client is refused, not kept waiting."""

    def close_listeners():
        worker.set_accept_enabled(False)
        for listener in worker.sockets:
            listener.close()

    def stop(number, frame):
        worker.handle_exit(number, frame)
        worker.method_queue.defer(close_listeners)

    signal.signal(signal.SIGTERM, stop)


def worker_exit(_server, worker):
    worker.app.wsgi().extensions["pool"].close()


def write_error(sock, status, reason, message):
    """What gunicorn answers to requests that are no HTTP: the same JSON as everything else."""
    # What cannot be understood is the client's fault: 501 Not Implemented is not for this service.
    if status == 501:
        status, reason = 400, "Bad Request"
    request_id = token_hex(8)
    body = errors.body(status, message or reason, request_id=request_id)
    head = (
        f"HTTP/1.1 {status} {reason}\r\n"
        "Connection: close\r\n"
        "Content-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n"
        f"X-Request-Id: {request_id}\r\n"
        "X-RateLimit-Limit: 60\r\n"
        "X-RateLimit-Remaining: 0\r\n"
        f"X-RateLimit-Reset: {int(time.time()) + 60}\r\n\r\n"
    )
    util.write_nonblock(sock, head.encode("latin-1") + body)


# gunicorn has no setting for its error pages, which are HTML.
util.write_error = write_error
