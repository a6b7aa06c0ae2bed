"""How gunicorn runs the service: ``task-service web``, or ``gunicorn app:app`` in the project.

Everything that differs between deployments is a setting of the environment (docs/settings.md).
gunicorn reads this file by its path, at the start and at every SIGHUP.
"""

import ctypes
import resource
import sys
from contextlib import suppress
from typing import Any

# Workers inherit the modules that the master has imported. After SIGHUP they must be those on disk.
if "service.gunicorn.worker" in sys.modules:
    for module in [name for name in sys.modules if name.partition(".")[0] == "service"]:
        del sys.modules[module]

from service.process import describe
from service.settings import InvalidSetting, Settings

try:
    settings = Settings.read()
    settings.require_database()
except InvalidSetting as error:
    sys.exit(f"Error: {error}")

host = f"[{settings.host}]" if ":" in settings.host else settings.host
bind = f"{host}:{settings.port}"
workers = settings.web_concurrency
worker_class = "service.gunicorn.worker.RequestWorker"
threads = settings.web_threads
# Half of the file descriptors that a process may have, usually 1024; the database and the webhooks
# need others. A connection holds 96 KiB at most.
worker_connections = max(threads + 1, min(500, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2))
# Longer than a proxy keeps idle connections (nginx: 60 s), so that it never writes to a closed one.
keepalive = 75
# Longer than a request can take: 10 s for a large body to arrive, 5 s for the database.
graceful_timeout = 30
limit_request_line = 8190
# No header changes the path, the scheme or the caller's address; only TRUSTED_PROXIES makes the
# application read X-Forwarded-For.
forwarded_allow_ips = ""
forwarder_headers = ""
secure_scheme_headers: dict[str, str] = {}
# sendfile() would bypass ClientSocket, which never blocks.
sendfile = False
# Two services of one user on one machine would share one control socket.
control_socket_disable = True
# The application writes one line for each request (http/access_log.py).
accesslog = None


def when_ready(server: Any) -> None:
    """Log version, settings and database once, in the master."""
    server.log.info(describe("web", "starts", settings))


def on_exit(server: Any) -> None:
    """Log that the master stops."""
    server.log.info(describe("web", "stops", settings))


def post_fork(_server: Any, _worker: Any) -> None:
    """Make free() return large buffers to the system: glibc would keep some for each thread."""
    mmap_threshold = -3
    with suppress(AttributeError):
        ctypes.CDLL(None).mallopt(mmap_threshold, 2**17)


def worker_exit(_server: Any, worker: Any) -> None:
    """Close the database connections of a worker that ends."""
    worker.app.wsgi().extensions["pool"].close()
