"""The API: one module per resource, with its schemas and its views."""

from flask import Flask

from service.api import (
    batch,
    dashboard,
    deliveries,
    events,
    health,
    knowledge,
    mail,
    me,
    meetings,
    members,
    sessions,
    suggestions,
    tasks,
    tokens,
    webhooks,
    workspaces,
)


def init_app(app: Flask) -> None:
    """Register the resources, in the order in which they are documented."""
    work = tasks, batch, meetings, workspaces, members, me, dashboard, mail, knowledge, suggestions
    for resource in (*work, events, tokens, webhooks, deliveries):
        app.register_blueprint(resource.blueprint, url_prefix="/api")
    if app.config["SETTINGS"].login_keys:
        app.register_blueprint(sessions.blueprint, url_prefix="/api")
    app.register_blueprint(health.blueprint)
