"""The published contract: OpenAPI 3.1, made from the routes and schemas that run.

``document.json`` and ``description.md`` say what all operations have in common, ``errors.md`` lists
all errors, ``examples.json`` has requests to the demo data with their responses. The views'
``arguments``, ``response`` and docstring say the rest.
"""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from flask import Blueprint, Flask, Response, current_app

from service.http.responses import reply, response
from service.openapi import page
from service.openapi.events import EVENTS, webhook
from service.openapi.json_schema import Schemas
from service.openapi.operations import ERRORS, Operation, error_response, tag

HERE = Path(__file__).parent

openapi = Blueprint("openapi", __name__)


def init_app(app: Flask) -> None:
    """Serve the document, built when it is first asked for."""
    app.extensions["openapi"] = once(lambda: json.dumps(build(app), indent=1).encode())
    app.register_blueprint(openapi)
    page.init_app(app)


def once(make: Callable[[], bytes]) -> Callable[[], bytes]:
    """Call ``make`` once; threads that need the result meanwhile wait."""
    lock, made = Lock(), cache(make)

    def get() -> bytes:
        with lock:
            return made()

    return get


def document() -> bytes:
    """The document as JSON."""
    return current_app.extensions["openapi"]()  # type: ignore[no-any-return]


@openapi.get("/openapi.json")
@response(kind="object")
def get_openapi() -> Response:
    """Read this document

    The command ``task-service openapi`` prints the same.
    """
    return reply(document())


def read(name: str) -> str:
    """The text of a file beside this one."""
    return (HERE / name).read_text(encoding="utf-8")


def build(app: Flask) -> dict[str, Any]:
    """The document of this app."""
    document = json.loads(read("document.json"))
    examples = json.loads(read("examples.json"))
    document["info"]["description"] = read("description.md") + read("errors.md")
    components = document["components"]
    schemas = Schemas(components["schemas"])
    errors = {
        name: error_response(status, components["responses"][name], examples)
        for status, name in ERRORS.items()
    }
    tags: dict[str, dict[str, str]] = {}
    paths: dict[str, Any] = {}
    for rule in app.url_map.iter_rules():
        view = app.view_functions[rule.endpoint]
        if hasattr(view, "response"):
            operation = Operation(rule, view)
            path = paths.setdefault(operation.path, {})
            path[operation.method.lower()] = operation.document(schemas, examples, errors)
            tags[tag(view)["name"]] = tag(view)
    components["responses"] = errors
    return {
        **document,
        "tags": list(tags.values()),
        "paths": paths,
        "webhooks": {name: webhook(name, schemas, examples["events"]) for name in EVENTS},
    }
