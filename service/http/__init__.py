"""Registers the request hooks in the order in which they run.

If a hook before the view returns a response, the next hooks and the view do not run. Three others
run after it: ``database/db.py`` gives the connection back, ``webhooks`` posts events, before the
hooks that are here, and ``openapi/page.py`` protects the reference page.
"""

from flask import Flask

from service.http import access_log, cors, errors, forwarded, gate, requests


def init_app(app: Flask) -> None:
    """Register the hooks; Flask runs the hooks after a request in reverse order."""
    for part in (access_log, forwarded, cors, gate, requests, errors):
        part.init_app(app)
