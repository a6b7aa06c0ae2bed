"""The configuration of the service with a worker that stops just before it accepts a client."""

import signal

from service.gunicorn.configuration import *  # noqa: F403
from service.gunicorn.worker import RequestWorker


class StoppingWorker(RequestWorker):
    def accept(self, listener):
        # Both events may come in one round of the poller: the signal, then the client.
        if self.queues.idle:
            self.handle_exit(signal.SIGTERM, None)
            self.method_queue.run_callbacks(None)
        super().accept(listener)


worker_class = StoppingWorker
