"""The hooks of each request, in this order; one that returns a response is the last before it."""

from flask import Flask

from service.http import access_log, cors, errors, forwarded, gate, requests


def init_app(app: Flask) -> None:
    """Register the hooks; Flask runs the hooks after a request in reverse order."""
    forwarded.init_app(app)
    app.before_request(access_log.set_id_and_times)
    access_log.init_app(app)
    cors.init_app(app)
    app.before_request(gate.authenticate_and_count)
    app.before_request(requests.reject_unknown_query)
    app.after_request(gate.add_headers)
    requests.init_app(app)
    errors.init_app(app)
