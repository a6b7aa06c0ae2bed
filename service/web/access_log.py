"""The log line of each request; it has the id of a credential, and no cookie, query or body."""

import os
import re
from functools import cache
from time import monotonic

from flask import Flask, Response

from service import logs
from service.context import current_request, current_state

# Keys of the WSGI environ that only ``service.speedups.http_server`` sets. ARRIVED is the time, by
# ``monotonic()``, when the whole request had arrived and the previous response on the same
# connection had been sent. QUEUED is how many seconds the request then waited for a thread.
ARRIVED, QUEUED = "http_server.arrived", "http_server.queued"

# Limits for two members of a line. Linux writes up to 4096 bytes (PIPE_BUF) to a pipe as a whole,
# even if other processes write at the same time, so a line must not be longer. In JSON, a text
# takes at most six times as many bytes as in UTF-8.
MAX_PATH, MAX_ADDRESS = 500, 100

# The header traceparent (W3C Trace Context); the first group is the id of the trace. An id that
# consists of zeros is invalid.
TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-((?!0{32})[0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII
)
REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
# A variable in the rule of a path, like <id:id>.
VARIABLE = re.compile(r"<(?:\w+:)?(\w+)>")


def set_id_and_times() -> None:
    """Store the id and the times of the request, before any other hook can fail."""
    environ, state = current_request().environ, current_state()
    offered = environ.get("HTTP_X_REQUEST_ID", "")
    state.request_id = offered if REQUEST_ID.fullmatch(offered) else os.urandom(8).hex()
    state.arrived = environ.get(ARRIVED, state.arrived)
    state.queued = environ.get(QUEUED, 0)
    traceparent = environ.get("HTTP_TRACEPARENT")
    if traceparent and TRACEPARENT.fullmatch(traceparent):
        state.traceparent = traceparent


def init_app(app: Flask) -> None:
    write = logs.configure(app.config["SETTINGS"].log_format).write
    count = app.extensions["pool"].counters.requests.append

    def write_line(response: Response) -> Response:
        """Log the request and its status; ``ms`` counts from the arrival of the request."""
        request, state = current_request(), current_state()
        # Writing may block until the reader of the log is ready; do not hold a connection
        # meanwhile.
        state.release()
        usage, rule = state.usage, request.url_rule
        seconds, path = monotonic() - state.arrived, route(rule.rule) if rule else "-"
        # A client can send any word as the method. Do not count each word as a new series.
        method, status = request.method if rule else "-", response.status_code
        count((method, path, status, seconds, state.database))
        line: logs.Line = {
            "method": request.method,
            "path": bounded(request.path),
            "route": path,
            "status": status,
            "client": (request.remote_addr or "")[:MAX_ADDRESS],
            "user": state.caller.get("user_id") or (usage and usage.user_id),
            "workspace": usage and usage.workspace_id,
            "token": usage and usage.token_id,
        }
        if state.dry_run:
            line["dryRun"] = True
        if state.traceparent:
            line["trace"] = state.traceparent[3:35]
        times = {
            "queued": state.queued,
            "waited": state.waited,
            "db": state.database,
            "posted": state.posted,
            "ms": seconds,
        }
        write(line, times, state.request_id, None if state.dry_run else state.created)
        return response

    app.before_request(set_id_and_times)
    app.after_request(write_line)


@cache
def route(rule: str) -> str:
    """Write the rule of a path in the usual form, like ``/api/tasks/:id``."""
    return VARIABLE.sub(r":\1", rule)


def bounded(path: str) -> str:
    return path.encode(errors="replace")[:MAX_PATH].decode(errors="ignore")
