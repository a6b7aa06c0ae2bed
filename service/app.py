"""The WSGI application: this file is its table of contents."""

from collections.abc import Callable
from typing import Any

from flask import Flask
from werkzeug.middleware.proxy_fix import ProxyFix

from service import api, commands, db, http, openapi, webhooks
from service.settings import Settings


class Service(Flask):
    """Nothing here is async, so no view and no hook is asked on each request whether it is."""

    def ensure_sync(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``func`` as it is."""
        return func


def create_app(settings: Settings | None = None) -> Flask:
    """Build the WSGI application; it opens no connection before its first request."""
    settings = settings or Settings.read()
    app = Service(__name__, static_folder=None)
    app.config.update(
        SETTINGS=settings,
        MAX_CONTENT_LENGTH=settings.max_body + 1,
        PROVIDE_AUTOMATIC_OPTIONS=False,
    )
    app.url_map.strict_slashes = False
    app.url_map.merge_slashes = False
    if settings.trusted_proxies:
        proxies = settings.trusted_proxies
        app.wsgi_app = ProxyFix(app.wsgi_app, x_for=proxies, x_proto=0, x_host=0)  # type: ignore[method-assign]
    for part in (db, http, webhooks, api, openapi, commands):
        part.init_app(app)
    return app
