"""Registers the request hooks in the order in which they run.

If a hook before the view returns a response, the remaining hooks and the view do not run.

Three more hooks are registered elsewhere. After the view, ``webhooks`` posts events (before the
hooks below), and ``openapi/page.py`` adds the security headers of the reference page. Last of all,
``context.py`` returns the connection to the pool.
"""

from flask import Flask

from service.web import access_log, cors, errors, forwarded, gate, operation, requests


def init_app(app: Flask) -> None:
    """Register the hooks; Flask runs the hooks after a request in reverse order."""
    for part in (access_log, forwarded, cors, gate, requests, operation, errors):
        part.init_app(app)
