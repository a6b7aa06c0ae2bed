"""The API: one module per resource, with its schemas and its views."""

from flask import Flask

from service.api.batch import batch
from service.api.dashboard import dashboard
from service.api.deliveries import deliveries
from service.api.events import events
from service.api.health import health
from service.api.knowledge import knowledge
from service.api.mail import mail
from service.api.me import me
from service.api.meetings import meetings
from service.api.members import members
from service.api.sessions import sessions
from service.api.suggestions import suggestions
from service.api.tasks import tasks
from service.api.tokens import tokens
from service.api.webhooks import webhooks
from service.api.workspaces import workspaces


def init_app(app: Flask) -> None:
    """Register the resources, in the order in which they are documented."""
    work = tasks, batch, meetings, workspaces, members, me, dashboard, mail, knowledge, suggestions
    for resource in (*work, events, tokens, webhooks, deliveries):
        app.register_blueprint(resource, url_prefix="/api")
    if app.config["SETTINGS"].login_keys:
        app.register_blueprint(sessions, url_prefix="/api")
    app.register_blueprint(health)
