"""How gunicorn runs the service: ``task-service web``, or ``gunicorn app:app`` in the project.

Everything that differs between deployments is a setting of the environment (README, Settings).
gunicorn reads this file by its path, at the start and at every SIGHUP.
"""

import ctypes
import sys
from contextlib import suppress
from typing import Any

# Workers have what the master has imported. After SIGHUP that must be the code on the disk.
if "service.gunicorn.worker" in sys.modules:
    for module in [name for name in sys.modules if name.partition(".")[0] == "service"]:
        del sys.modules[module]

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
# Half of the file descriptors that a process usually may have; each holds 96 KiB at most.
worker_connections = 500
# Longer than a proxy keeps idle connections (nginx: 60 s), so that it never writes to a closed one.
keepalive = 75
# Longer than a request can take: one statement for the gate, one for the work.
graceful_timeout = 30
limit_request_line = 8190
# No header changes the path, the scheme or the caller; TRUSTED_PROXIES alone says whom to believe.
forwarded_allow_ips = ""
forwarder_headers = ""
secure_scheme_headers: dict[str, str] = {}
# Files would be written past the worker's own writing, which never waits for a client.
sendfile = False
# Two services on one machine would have one socket.
control_socket_disable = True
# The service writes one line a request itself.
accesslog = None


def post_fork(_server: Any, _worker: Any) -> None:
    """Give large buffers back to the system at once: glibc would keep some for each thread."""
    mmap_threshold = -3
    with suppress(AttributeError):
        ctypes.CDLL(None).mallopt(mmap_threshold, 2**17)


def worker_exit(_server: Any, worker: Any) -> None:
    """Close the pool of a worker that ends."""
    worker.app.wsgi().extensions["pool"].close()
