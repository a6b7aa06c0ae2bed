"""Registers the request hooks in the order in which they run.

If a hook before the view returns a response, the next hooks and the view do not run. Three others
run after it: ``database/db.py`` gives the connection back, ``webhooks`` posts events, before the
hooks that are here, and ``openapi/page.py`` protects the reference page.
"""

from flask import Flask

from service.http import access_log, cors, errors, forwarded, gate, requests


def init_app(app: Flask) -> None:
    """Register the hooks; Flask runs the hooks after a request in reverse order."""
    app.before_request(access_log.set_id_and_times)
    access_log.init_app(app)
    forwarded.init_app(app)
    cors.init_app(app)
    app.before_request(gate.authenticate_and_count)
    app.before_request(requests.reject_unknown_query)
    app.after_request(gate.add_headers)
    requests.init_app(app)
    errors.init_app(app)
