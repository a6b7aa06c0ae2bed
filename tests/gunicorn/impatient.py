"""The configuration of the service with short time limits, so that tests wait for seconds only."""

from service.gunicorn.configuration import *  # noqa: F403
from service.gunicorn.worker import RequestWorker


class ImpatientWorker(RequestWorker):
    READ, WRITE, TAKE, TAKE_HEALTH = 2.0, 2.0, 1.0, 0.5


worker_class = ImpatientWorker
