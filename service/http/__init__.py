"""The hooks that every request passes, in this order."""

from flask import Flask

from service.http import access_log, cors, errors, forwarded, gate, requests


def init_app(app: Flask) -> None:
    """Register the hooks; Flask runs the hooks after a request in reverse order."""
    forwarded.init_app(app)
    app.before_request(access_log.assign_request_id)
    cors.init_app(app)
    app.before_request(gate.authenticate_and_count)
    app.before_request(requests.reject_unknown_query)
    access_log.init_app(app)
    app.after_request(gate.add_headers)
    requests.init_app(app)
    errors.init_app(app)
