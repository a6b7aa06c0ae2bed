"""Most hooks of each request, in this order.

A hook before the view that returns a response skips the rest and the view. Other hooks are in
``database/db.py``, which gives the connection back, in ``webhooks``, which posts events before the
hooks after a request that are here, and in ``openapi/page.py``.
"""

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
