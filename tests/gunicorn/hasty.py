"""A configuration of gunicorn with which the worker waits SHORT seconds for a request."""

import os

# First: the configuration drops the modules of the service that are loaded before it.
from service.gunicorn.configuration import *  # noqa: F403

# isort: split
from service.gunicorn import worker

worker.READ = float(os.environ["SHORT"])
