"""Logs: one JSON object a line on stderr, one line for each request; or text, in development.

Never a token, a cookie, a query or a body. A line that cannot be written changes no response.
"""

import json
import logging
import os
import re
import sys
import time
from datetime import UTC, datetime
from secrets import token_hex

from flask import Flask, Response

from service.state import current_request, state

# In the WSGI environment, where the server sets it: when the head arrived, by ``monotonic()``.
ARRIVED = "service.arrived"

REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)

log = logging.getLogger("service.access")


class JSONFormatter(logging.Formatter):
    """A record as one line of JSON; ``time`` is RFC 3339."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; a dict as the message gives its members to it."""
        created = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"time": created.replace("+00:00", "Z")}
        if isinstance(record.msg, dict):
            line.update(record.msg)
        else:
            line.update(level=record.levelname, message=record.getMessage())
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


class TextFormatter(logging.Formatter):
    """A record as a line to read: ``16:05:09 201 POST /api/tasks 12.3 ms``."""

    # ANSI colours by the first digit of a status.
    COLOURS = {2: 32, 3: 36, 4: 33, 5: 31}

    def __init__(self, *, colour: bool) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S")
        self.colour = colour

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; only the status of a request has a colour."""
        if not isinstance(record.msg, dict):
            return super().format(record)
        line = record.msg
        status = str(line["status"])
        if self.colour:
            status = f"\x1b[{self.COLOURS.get(line['status'] // 100, 0)}m{status}\x1b[0m"
        # repr: a path may have what a terminal obeys.
        path = line["path"] if line["path"].isprintable() else repr(line["path"])
        time = self.formatTime(record, self.datefmt)
        return f"{time} {status} {line['method']} {path} {line['ms']} ms"


def init_app(app: Flask) -> None:
    """Send what the service logs to stderr."""
    service = logging.getLogger("service")
    if not service.handlers:
        handler = logging.StreamHandler()
        if app.config["SETTINGS"].log_format == "text":
            colour = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
            handler.setFormatter(TextFormatter(colour=colour))
        else:
            handler.setFormatter(JSONFormatter())
        service.addHandler(handler)
        service.setLevel(logging.INFO)
        service.propagate = False


def assign_request_id() -> None:
    """Note the id and the arrival of the request, before anything can fail."""
    call, here = current_request(), state()
    offered = call.environ.get("HTTP_X_REQUEST_ID", "")
    here.request_id = offered if REQUEST_ID.fullmatch(offered) else token_hex(8)
    here.arrived = call.environ.get(ARRIVED, here.arrived)


def write_line(response: Response) -> Response:
    """Log the request and how it ended."""
    call, here = current_request(), state()
    line: dict[str, object] = {
        "method": call.method,
        "path": call.path,
        "status": response.status_code,
        "ms": round((time.monotonic() - here.arrived) * 1000, 2),
        "client": call.remote_addr,
        "user": here.caller.get("user_id"),
        "requestId": here.request_id,
    }
    log.info(line)
    return response
