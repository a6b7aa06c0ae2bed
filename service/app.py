"""The WSGI application, assembled from the parts of the service."""

from functools import partial

from flask import Flask

from service import api, context, openapi, web, webhooks
from service.database.pool import Pool
from service.settings import Settings
from service.webhooks.secrets import compare_keys


def create_app(settings: Settings | None = None) -> Flask:
    """Make the WSGI application. It connects to the database at its first request.

    If the setting SPEEDUPS is on, the application and its pool are faster subclasses, which keep
    all promises of the plain classes.
    """
    settings = settings or Settings.read()
    application, pool_class = Flask, Pool
    if settings.uses_speedups:
        from service.speedups import dispatch, pool

        application, pool_class = dispatch.Application, pool.Pool
    app = application(__name__, static_folder=None)
    # MAX_CONTENT_LENGTH is one byte more than MAX_BODY, so that the reader of bodies notices a
    # longer body. No rule allows OPTIONS, because the gate answers preflight requests.
    app.config.update(
        SETTINGS=settings, MAX_CONTENT_LENGTH=settings.max_body + 1, PROVIDE_AUTOMATIC_OPTIONS=False
    )
    app.url_map.strict_slashes = False
    app.url_map.merge_slashes = False
    context.init_app(app, pool_class(settings, "web", partial(compare_keys, settings=settings)))
    # Each part registers its hooks and views; hooks run in the order that web/__init__.py
    # explains.
    for part in (web, webhooks, api, openapi):
        part.init_app(app)
    return app
