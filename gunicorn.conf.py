"""The configuration of gunicorn, for ``gunicorn app:app`` in a checkout and ``task-service web``.

The latter finds it as ``service/server/configuration.py``, which is a link. Values that differ
between deployments are environment variables (docs/operations/settings.md). gunicorn reads this
file by its path, at the start and at every SIGHUP.
"""

import os
import resource
import select
import signal
import sys
from typing import Any

import task_service_command

# Workers inherit the modules that the master has imported. This drops them at each SIGHUP, so that
# new workers run the code on disk.
task_service_command.load_service()

from service.process import lifecycle_line  # noqa: E402
from service.settings import InvalidSetting, Settings  # noqa: E402

try:
    settings = Settings.read()
    settings.require_database()
except InvalidSetting as error:
    sys.exit(f"Error: {error}")

host = f"[{settings.host}]" if ":" in settings.host else settings.host
bind = f"{host}:{settings.port}"
workers = settings.web_concurrency
worker_class = "gthread"
# macOS and BSD have no epoll.
if settings.uses_speedups and hasattr(select, "epoll"):
    worker_class = "service.speedups.server.Server"
logger_class = "service.server.logger.ServiceLogger"
threads = settings.web_threads
# At most half of the file descriptors of a process (usually 1024), because connections to the
# database and to receivers of webhooks need file descriptors as well.
worker_connections = max(threads + 1, min(500, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2))
# Longer than a proxy keeps idle connections (nginx: 60 s), so that no proxy sends a request on a
# connection that this server has just closed.
keepalive = 75
# Longer than a request can take with the default settings, which is 5 s, and 2 s more for a ping or
# a look-up.
graceful_timeout = 30
# For gthread: accept a request line that is as long as a header line may be, and ignore headers
# that change the path or the address of the client. By default, gunicorn obeys such headers from
# clients on this machine, for example from a proxy.
limit_request_line = 8190
forwarded_allow_ips = ""
# Without this, two services that the same user runs on one machine would share a control socket.
control_socket_disable = True


# The signals by which the master stops a worker.
STOP = signal.SIGTERM, signal.SIGQUIT, signal.SIGINT


def on_starting(_server: object) -> None:
    """Let the master stop a worker that is still starting.

    Until a worker has set its own signal handlers, it has the handlers of the master, which only
    remember a signal. The worker would then start anyway, and the master would wait for the whole
    graceful_timeout until it kills the worker.
    """
    os.register_at_fork(
        before=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, STOP),
        after_in_parent=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP),
        after_in_child=end_at_signals,
    )


def end_at_signals() -> None:
    """Let a signal to stop end this process immediately, because it does not serve requests yet."""
    for number in STOP:
        signal.signal(number, lambda _number, _frame: os._exit(0))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP)


def when_ready(server: Any) -> None:
    server.log.info(lifecycle_line("web", "starts", settings))
    # A platform sets only PORT. On the platforms that settings.py knows, HOST has another default.
    if "PORT" in os.environ and "HOST" not in os.environ and settings.host == "127.0.0.1":
        server.log.info(
            "HOST is not set: only this machine can reach PORT; to serve others, set HOST=0.0.0.0"
        )


def on_exit(server: Any) -> None:
    server.log.info(lifecycle_line("web", "stops", settings))


def pre_request(_worker: object, request: Any) -> None:
    """For gthread: join fields of one name to one value, as the HTTP server of the speedups does.

    gunicorn joins them without a space, so that two keys look like one Idempotency-Key, and joins
    cookies by commas (RFC 9110, section 5.3; RFC 9113, section 8.2.3).
    """
    fields: dict[str, str] = {}
    for name, value in request.headers:
        separator = "; " if name == "COOKIE" else ", "
        fields[name] = f"{fields[name]}{separator}{value}" if name in fields else value
    request.headers = [*fields.items()]


def post_worker_init(worker: Any) -> None:
    """Stay connected to the database, so that ``status`` counts an idle worker."""
    worker.app.wsgi().extensions["pool"].stay_connected()


def worker_exit(_server: object, worker: Any) -> None:
    worker.app.wsgi().extensions["pool"].close()
