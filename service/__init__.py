"""The Task, Meeting and Workspace service: this file is its table of contents."""

from flask import Flask
from werkzeug.middleware.proxy_fix import ProxyFix

from service import cli, db, docs, errors, gate, inputs, logs, openapi, webhooks
from service.dashboard import dashboard
from service.health import health
from service.knowledge import knowledge
from service.mail import mail
from service.meetings import meetings
from service.settings import Settings
from service.suggestions import suggestions
from service.tasks import tasks
from service.urls import IdConverter
from service.workspaces import workspaces


class Service(Flask):
    """Nothing here is async, so no view and no hook is asked on each request whether it is."""

    def ensure_sync(self, func):
        return func


def create_app(settings=None):
    """Build the WSGI application; it opens no connection before its first request."""
    settings = settings or Settings.read()
    app = Service(__name__, static_folder=None)
    app.config.update(
        SETTINGS=settings,
        MAX_CONTENT_LENGTH=settings.max_body + 1,
        PROVIDE_AUTOMATIC_OPTIONS=False,
    )
    app.url_map.converters["id"] = IdConverter
    app.url_map.strict_slashes = False
    app.url_map.merge_slashes = False
    if settings.trusted_proxies:
        app.wsgi_app = ProxyFix(app.wsgi_app, x_for=settings.trusted_proxies, x_proto=0, x_host=0)

    api = openapi.init_app(app)
    for module in (db, logs, gate, inputs, errors, webhooks, docs, cli):
        module.init_app(app)
    app.register_blueprint(health)
    for resource in (tasks, meetings, workspaces, dashboard, mail, knowledge, suggestions):
        api.register_blueprint(resource)
    return app
