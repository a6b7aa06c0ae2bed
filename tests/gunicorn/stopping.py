"""A configuration whose worker, with an idle client, stops just before it accepts another one."""

import signal

from service.gunicorn.configuration import *  # noqa: F403
from service.gunicorn.service_worker import ServiceWorker


class StoppingWorker(ServiceWorker):
    def accept(self, number):
        if any(conn.state is self.idle for conn in list(self.connections.values())):
            self.handle_exit(signal.SIGTERM, None)
        return super().accept(number)


worker_class = StoppingWorker
