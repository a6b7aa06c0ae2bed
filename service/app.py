"""The WSGI application, assembled from the parts of the service."""

from functools import partial

from flask import Flask

from service import api, http, openapi, webhooks
from service.database import db
from service.settings import Settings
from service.webhooks.secrets import compare_keys


def create_app(settings: Settings | None = None) -> Flask:
    """Make the WSGI application, which opens no connection before its first request."""
    settings = settings or Settings.read()
    app = choose_parts(settings)(__name__, static_folder=None)
    app.config.update(
        SETTINGS=settings, MAX_CONTENT_LENGTH=settings.max_body + 1, PROVIDE_AUTOMATIC_OPTIONS=False
    )
    app.url_map.strict_slashes = False
    app.url_map.merge_slashes = False
    db.init_app(app, at_first=partial(compare_keys, settings=settings))
    for part in (http, webhooks, api, openapi):
        part.init_app(app)
    return app


def choose_parts(settings: Settings) -> type[Flask]:
    """Return the plain parts, or their faster subclasses from the package ``speedups``."""
    if not settings.uses_speedups:
        return Flask
    from speedups.dispatch import Application

    return Application
