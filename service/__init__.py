"""The Task, Meeting and Workspace service: this file is its table of contents."""

from flask import Flask
from flask_smorest import Api
from werkzeug.middleware.proxy_fix import ProxyFix

from service import cli, db, errors, gate, inputs, logs, webhooks
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


def create_app(settings=None):
    """Build the WSGI application; it opens no connection before its first request."""
    settings = settings or Settings.read()
    app = Flask(__name__, static_folder=None)
    app.config.update(
        SETTINGS=settings,
        MAX_CONTENT_LENGTH=settings.max_body + 1,
        PROVIDE_AUTOMATIC_OPTIONS=False,
        API_TITLE="Task, Meeting and Workspace service",
        API_VERSION="1",
        OPENAPI_VERSION="3.1.0",
        OPENAPI_URL_PREFIX="/",
        OPENAPI_JSON_PATH="openapi.json",
    )
    app.url_map.converters["id"] = IdConverter
    app.url_map.strict_slashes = False
    app.url_map.merge_slashes = False
    if settings.trusted_proxies:
        app.wsgi_app = ProxyFix(app.wsgi_app, x_for=settings.trusted_proxies, x_proto=0, x_host=0)

    api = Api(app)
    for module in (db, logs, gate, inputs, errors, webhooks, cli):
        module.init_app(app)
    app.register_blueprint(health)
    for resource in (tasks, meetings, workspaces, dashboard, mail, knowledge, suggestions):
        api.register_blueprint(resource)
    return app
