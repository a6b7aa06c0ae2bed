"""The published document (OpenAPI 3.1), generated from the routes and the schemas.

``document.json`` and ``description.md`` have the parts that all operations share. ``events.json``
has the parts that all events share. ``errors.md`` lists all errors. ``examples/`` has a file for
each resource, with requests to the demo data and the responses to them. Everything else comes from
the views: from ``@operation`` and from the docstrings.
"""

import json
from functools import cache
from pathlib import Path

from flask import Blueprint, Flask, Response, current_app

from service.openapi import page
from service.openapi.events import WEBHOOKS, feed, webhook
from service.openapi.json_schema import JSON, Schemas
from service.openapi.operations import Endpoint, Shared, error_response, read_examples, tag
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
@operation()
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
    components = common["components"]
    schemas, examples = Schemas(components["schemas"]), read_examples(HERE / "examples")
    shared = Shared(schemas, examples, components["responses"])
    feed(schemas, examples)
    tags: dict[str, dict[str, str]] = {}
    paths: dict[str, JSON] = {}
    for rule in app.url_map.iter_rules():
        view = app.view_functions[rule.endpoint]
        if described := operation_of(view):
            endpoint = Endpoint(rule, view, described, shared)
            paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = endpoint.document()
            found = tag(view)
            tags[found["name"]] = found
    if not app.config["SETTINGS"].login_keys:
        del components["securitySchemes"]["loginKey"]
    components["responses"] = {
        name: error_response(error, examples, limited=True) for name, error in shared.errors.items()
    }
    common["info"]["description"] = read("description.md") + read("errors.md")
    return {
        **common,
        "tags": [*tags.values()],
        "paths": paths,
        "webhooks": {name: webhook(name, schemas, examples) for name in WEBHOOKS},
    }
