"""gunicorn as a test wants it: one worker, and in it the control URL; ends with its parent."""

import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from secrets import token_hex
from threading import Thread
from typing import Any

from flask import Flask
from gunicorn.app.base import Application
from gunicorn.arbiter import Arbiter
from werkzeug.serving import WSGIRequestHandler, make_server

from service import db, gunicorn
from service.devkit.double.cast import Cast
from service.devkit.double.control import Load, Stage, create_control
from service.settings import Settings

# The process that started this one.
PARENT = os.getppid()


class Silent(WSGIRequestHandler):
    """The control URL logs no requests, and rejects what is not HTTP as JSON too."""

    error_content_type = "application/json"
    error_message_format = '{"message": "%(explain)s", "status": %(code)d}'

    def log(self, *_: Any) -> None:
        """Log nothing."""


class Server(Application):
    """The web processes' configuration, but for what a test wants otherwise."""

    def __init__(
        self,
        create_app: Callable[[Settings], Flask],
        settings: Settings,
        load: Load,
        *,
        listener: socket.socket,
        token: str | None,
    ) -> None:
        self.create_app, self.settings, self.load_objects = create_app, settings, load
        # From here on it is gunicorn that closes it.
        self.bind = f"fd://{listener.detach()}"
        # Bound before the fork: a worker that replaces another has the same URL.
        self.socket = socket.create_server(("127.0.0.1", 0))
        control_url = f"http://127.0.0.1:{self.socket.getsockname()[1]}/{token_hex(8)}"
        self.cast = Cast(control_url, settings.require_webhook_key(), token)
        with db.connect(settings, "dev") as connection:
            self.cast.reset(connection)
        super().__init__()

    def load_config(self) -> None:
        """Read the file that the web processes read, then what differs."""
        self.load_config_from_file(str(gunicorn.CONFIGURATION))
        for name, value in {
            "bind": self.bind,
            "workers": 1,
            "graceful_timeout": 1,
            "loglevel": "warning",
            "when_ready": meet_signals,
            "post_worker_init": self.announce,
            "worker_exit": self.leave,
        }.items():
            self.cfg.set(name, value)

    def load(self) -> Flask:
        """Build the service with its faults."""
        app = self.create_app(self.settings)
        self.stage = Stage(app, self.cast, self.load_objects)
        return app

    def announce(self, worker: Any) -> None:
        """Start the control URL and print, once, everything that a harness needs."""
        control = make_server(
            "127.0.0.1",
            0,
            create_control(self.stage),
            threaded=True,
            request_handler=Silent,
            fd=self.socket.fileno(),
        )
        Thread(target=control.serve_forever, name="control", daemon=True).start()
        if worker.age == 1:
            host, port = worker.sockets[0].getsockname()
            line = {
                "baseUrl": f"http://{host}:{port}/api",
                **self.cast.describe(),
                "databaseUrl": self.settings.database_url,
                "pid": os.getppid(),
            }
            print(json.dumps(line), flush=True)

    def leave(self, _server: Any, worker: Any) -> None:
        """End a worker here: its copy of the master's stack would stop what the master started.

        Unless the master was killed: then nobody else does.
        """
        if os.getppid() == worker.ppid:
            os._exit(getattr(sys.exception(), "code", None) or 0)

    def run(self) -> None:
        """Serve until SIGTERM, SIGINT, or the end of the process that started this one."""
        Master(self).run()


def meet_signals(master: Any) -> None:
    """End if a signal has come since the start; from here on gunicorn handles them."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    if not master.SIG_QUEUE.empty():
        sys.exit()


class Master(Arbiter):
    """gunicorn's master; it looks after its parent once a second, as after its workers."""

    def stop(self, graceful: bool = True) -> None:  # noqa: ARG002
        """Wait for no client: the tests have ended."""
        super().stop(graceful=False)

    def handle_hup(self) -> None:
        """End with the terminal: there is nothing to reload."""
        raise StopIteration

    def murder_workers(self) -> None:
        """End if nobody is there any more who could want the service."""
        super().murder_workers()
        if os.getppid() != PARENT:
            raise StopIteration
