"""One process with everything: gunicorn, one worker, and in it the control URL."""

import json
import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import Any

from flask import Flask
from gunicorn.app.base import Application
from gunicorn.arbiter import Arbiter
from werkzeug.serving import WSGIRequestHandler, make_server

from service.testing.cast import Cast
from service.testing.control import Load, Stage, create_control

# Tests may hang some on purpose.
THREADS = 16

PARENT = os.getppid()
