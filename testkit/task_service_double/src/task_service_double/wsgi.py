"""The WSGI application of the test double, which gunicorn imports in its only worker process.

The import also starts a thread that serves the control URL. The thread runs in this process because
the faults and the receiver are objects of this process.
"""

import os
from threading import Thread
from urllib.parse import urlsplit

from werkzeug.serving import WSGIRequestHandler, make_server

from service.app import create_app
from service.settings import Settings
from task_service_double import statements  # noqa: F401  Requests to the control URL run them.
from task_service_double.control import Double, create_control
from task_service_double.environment import Environment
from task_service_double.initial_state import InitialState


class RequestHandler(WSGIRequestHandler):
    """Does not log the requests to the control URL."""

    def log(self, type: str, message: str, *args: object) -> None:
        pass


environment = Environment.read()
settings = Settings.read()
app = create_app(settings)
initial = InitialState(settings.require_webhook_key(), environment.control_url, environment.token)
control = make_server(
    "127.0.0.1",
    urlsplit(environment.control_url).port or 0,
    create_control(Double(app, initial, environment.pid), environment.control_host_names),
    threaded=True,
    request_handler=RequestHandler,
    fd=environment.control_fd,
)
# Wait for the database. Until then, requests wait in the queues of the two sockets.
os.read(environment.ready_fd, 1)
Thread(target=control.serve_forever, name="control", daemon=True).start()
