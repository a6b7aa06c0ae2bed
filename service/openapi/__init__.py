"""The published document (OpenAPI 3.1), generated from the routes and the schemas.

``document.json`` and ``description.md`` have the parts that all operations share. ``errors.md``
lists all errors. ``examples/`` has a file for each resource, with requests to the demo data and
their responses. Everything else comes from the views: from ``@operation`` and from the docstrings.
"""

import json
from functools import cache
from pathlib import Path

from flask import Blueprint, Flask, Response, current_app

from service.openapi import page
from service.openapi.events import WEBHOOKS, feed, webhook
from service.openapi.json_schema import JSON, Schemas
from service.openapi.operations import ERRORS, Endpoint, Examples, error_response, tag
from service.web.operation import operation, operation_of
from service.web.responses import reply

HERE = Path(__file__).parent

openapi = Blueprint("openapi", __name__)


def init_app(app: Flask) -> None:
    """Serve the document; the first request for it builds it."""
    app.extensions["openapi"] = cache(lambda: json.dumps(build(app), indent=1).encode())
    app.register_blueprint(openapi)
    page.init_app(app)


def document() -> bytes:
    """Build the document at the first call; later calls return the same bytes."""
    made: bytes = current_app.extensions["openapi"]()
    return made


@openapi.get("/openapi.json")
@operation(kind="object")
def get_openapi() -> Response:
    """Return this document

    The command ``task-service openapi`` prints it too.
    """
    return reply(document())


def read(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def build(app: Flask) -> JSON:
    """Generate the document; raises ValueError if two schemas have one name."""
    common = json.loads(read("document.json"))
    examples = Examples.read(HERE / "examples")
    components = common["components"]
    schemas, errors = Schemas(components["schemas"]), components["responses"]
    feed(schemas, examples)
    tags: dict[str, JSON] = {}
    paths: dict[str, JSON] = {}
    for rule in app.url_map.iter_rules():
        view = app.view_functions[rule.endpoint]
        if described := operation_of(view):
            endpoint = Endpoint(rule, view, described)
            path = paths.setdefault(endpoint.path, {})
            path[endpoint.method.lower()] = endpoint.document(schemas, examples, errors)
            tags[tag(view).name] = tag(view)._asdict()
    if not app.config["SETTINGS"].login_keys:
        del components["securitySchemes"]["loginKey"]
    responses = {
        name: error_response(status, errors[name], examples, limited=True)
        for status, name in ERRORS.items()
    }
    return {
        **common,
        "info": {**common["info"], "description": read("description.md") + read("errors.md")},
        "components": {**components, "responses": responses},
        "tags": list(tags.values()),
        "paths": paths,
        "webhooks": {name: webhook(name, schemas, examples) for name in WEBHOOKS},
    }
