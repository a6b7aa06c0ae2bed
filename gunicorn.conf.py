"""How gunicorn runs the service; read by ``gunicorn app:app`` in this folder.

Everything that differs between deployments is a setting of the environment (README, Settings).
"""

import sys

from service.settings import BadSetting, Settings

try:
    settings = Settings.read()
    settings.require_database()
except BadSetting as error:
    sys.exit(f"Error: {error}")

host = f"[{settings.host}]" if ":" in settings.host else settings.host
bind = f"{host}:{settings.port}"
workers = settings.web_concurrency
worker_class = "service.http.gunicorn_worker.Worker"
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
secure_scheme_headers = {}
# Files would be written past the worker's own writing, which never waits for a client.
sendfile = False
# Two services on one machine would have one socket.
control_socket_disable = True
# The service writes one line a request itself.
accesslog = None


def worker_exit(_server, worker):
    worker.app.wsgi().extensions["database"].close()
