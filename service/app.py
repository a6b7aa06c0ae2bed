"""The WSGI application, assembled from the parts of the service."""

from functools import partial
from typing import NamedTuple

from flask import Flask

from service import api, openapi, web, webhooks
from service.database import db
from service.database.pool import Pool
from service.settings import Settings
from service.webhooks.secrets import compare_keys


def create_app(settings: Settings | None = None) -> Flask:
    """Make the WSGI application. It connects to the database at its first request."""
    settings = settings or Settings.read()
    parts = choose_parts(settings)
    app = parts.application(__name__, static_folder=None)
    # MAX_CONTENT_LENGTH is one byte more than MAX_BODY, so that the reader of bodies notices a
    # longer body. No rule allows OPTIONS, because the gate answers preflight requests.
    app.config.update(
        SETTINGS=settings, MAX_CONTENT_LENGTH=settings.max_body + 1, PROVIDE_AUTOMATIC_OPTIONS=False
    )
    app.url_map.strict_slashes = False
    app.url_map.merge_slashes = False
    db.init_app(app, parts.pool(settings, "web", partial(compare_keys, settings=settings)))
    # Each part registers its hooks and views; hooks run in the order that web/__init__.py
    # explains.
    for part in (web, webhooks, api, openapi):
        part.init_app(app)
    return app


class Parts(NamedTuple):
    """The two classes that the package ``speedups`` can replace by faster subclasses.

    By default the service uses the faster classes if the package is installed. They keep all
    promises of the plain classes. The faster application has its own classes of requests and
    responses, and its ``add_url_rule`` replaces the function that reads a view's arguments.
    """

    application: type[Flask] = Flask
    pool: type[Pool] = Pool


def choose_parts(settings: Settings) -> Parts:
    """Return the plain parts, or the faster ones if the setting SPEEDUPS is on."""
    if not settings.uses_speedups:
        return Parts()
    from service.speedups import dispatch, pool

    return Parts(dispatch.Application, pool.Pool)
