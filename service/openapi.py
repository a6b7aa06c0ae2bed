"""The published contract: OpenAPI 3.1, made from the routes and schemas that run.

Parameters and request bodies come from the ``arguments`` of the views, answers from their ``answers``;
what all operations have in common is said in ``contract.py``, and ``examples.json`` holds real replies.
"""

import json
from copy import deepcopy
from functools import cache
from pathlib import Path
from threading import Lock

import flask_smorest
from flask import Blueprint, current_app

from service import contract
from service.events import EVENTS, webhook
from service.fields import Timezone, timezones
from service.operations import describe, failure
from service.replies import reply
from service.shapes import Error, answers
from service.urls import IdConverter

EXAMPLES = Path(__file__).with_name("examples.json")

openapi = Blueprint("openapi", __name__)


class Api(flask_smorest.Api):
    """Collects routes and schemas as they are registered."""

    ERROR_SCHEMA = Error


def init_app(app):
    """Serve the document, built once, when it is first wanted; returns what blueprints register with."""
    about = {"title": contract.TITLE, "version": "1", "openapi_version": "3.1.0"}
    api = Api(app, spec_kwargs=about)
    api.ma_plugin.converter.add_attribute_function(name_timezones)
    api.register_converter(IdConverter, lambda _converter: contract.ID)
    app.extensions["openapi"] = once(lambda: json.dumps(build(app, api), indent=1).encode())
    app.register_blueprint(openapi)
    return api


def once(make):
    """Have something made by whoever wants it first; threads that want it meanwhile wait."""
    lock, made = Lock(), cache(make)

    def get():
        with lock:
            return made()

    return get


def name_timezones(_converter, field, **_options):
    """The zones take a while to find, so they are not looked for before the document is built."""
    return {"enum": sorted(timezones())} if isinstance(field, Timezone) else {}


def document():
    """The bytes of the document."""
    return current_app.extensions["openapi"]()


@openapi.get("/openapi.json")
@answers({"type": "object"}, form="figures")
def get_openapi():
    """Read this document"""
    return reply(document())


def build(app, api):
    """The document of this app, as a dict."""
    examples = json.loads(EXAMPLES.read_text(encoding="utf-8"))
    paths = deepcopy(api.spec.to_dict()["paths"])
    for rule in app.url_map.iter_rules():
        view = app.view_functions[rule.endpoint]
        if hasattr(view, "answers"):
            path = api.flask_plugin.flaskpath2openapi(rule.rule)
            (method,) = rule.methods - {"HEAD", "OPTIONS"}
            operation = paths.setdefault(path, {}).setdefault(method.lower(), {"tags": ["service"]})
            describe(operation, path, method, view, api, examples)
    api.ma_plugin.resolver.resolve_schema_dict(Error)
    spec = api.spec.to_dict()
    # flask-smorest's own pages, which are not used here.
    schemas = {k: v for k, v in spec["components"]["schemas"].items() if k != "PaginationMetadata"}
    return {
        "openapi": spec["openapi"],
        "info": {**spec["info"], "description": contract.ABOUT},
        "servers": [{"url": "/"}],
        "security": [{name: []} for name in contract.SECURITY],
        "tags": [*spec["tags"], {"name": "service", "description": "The service itself"}],
        "paths": paths,
        "webhooks": {name: webhook(name, examples["events"]) for name in EVENTS},
        "components": {
            "schemas": schemas,
            "responses": {
                name: failure(status, examples, text, names)
                for status, (name, text, names) in contract.ERRORS.items()
            },
            "parameters": contract.PARAMETERS,
            "headers": contract.HEADERS,
            "securitySchemes": contract.SECURITY,
        },
    }
