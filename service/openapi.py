"""The published contract: OpenAPI 3.1, made from the routes and schemas that run.

Parameters and request bodies come from the ``arguments`` of the views, answers from their ``answers``;
what all operations have in common is said in ``contract.py``, and ``examples.json`` holds real replies.
"""

import json
from copy import deepcopy
from functools import cache
from pathlib import Path

import flask_smorest
from flask import Blueprint, current_app

from service import contract
from service.fields import Timezone, timezones
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
    app.extensions["openapi"] = cache(lambda: json.dumps(build(app, api), indent=1).encode())
    app.register_blueprint(openapi)
    return api


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
        "webhooks": {name: webhook(name, examples["events"]) for name in contract.EVENTS},
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


def describe(operation, path, method, view, api, examples):
    """Complete an operation: its name, its headers, and every answer that it can give."""
    said = view.answers
    gated = path.startswith("/api/")
    first, *rest = view.__name__.split("_")
    name = operation["operationId"] = first + "".join(map(str.title, rest))
    operation["summary"] = view.__doc__.strip().split("\n")[0]
    if not gated:
        operation["security"] = []
    if "requestBody" in operation:
        content = operation["requestBody"]["content"]["application/json"]
        content["example"] = examples["requests"][name]
        if method == "PATCH":
            forget_defaults(api.spec.components.schemas[content["schema"]["$ref"].split("/")[-1]])
    for parameter in operation.get("parameters", ()):
        plain(parameter["schema"])
    header_parameters = conditions(method, said)
    if header_parameters:
        found = (pointer("parameters", header) for header in header_parameters)
        operation["parameters"] = [*operation.get("parameters", ()), *found]
    refer = api.ma_plugin.resolver.resolve_schema_dict
    operation["responses"] = {
        str(said["status"]): success(said, method, gated, refer, examples["answers"].get(name))
    }
    if "If-None-Match" in header_parameters:
        operation["responses"]["304"] = {
            "description": "There is still the version that you have",
            "headers": headers(*contract.ALWAYS, "ETag"),
        }
    for status in failures(path, method, said, gated):
        component, text, names = contract.ERRORS[status]
        operation["responses"][str(status)] = (
            pointer("responses", component)
            if gated
            else failure(status, examples, text, set(names) - {*contract.ALWAYS} | {"X-Request-Id"})
        )


def plain(schema):
    """What an absent parameter stands for inside, like None, is no value that a query could have."""
    if not isinstance(schema.get("default", ""), (int, str)):
        del schema["default"]
    if isinstance(schema["type"], list):
        schema["type"] = schema["type"][0]


def forget_defaults(schema):
    """In a PATCH an absent field is kept as it is."""
    for field in schema["properties"].values():
        field.pop("default", None)


def conditions(method, said):
    """The request headers that the operation heeds."""
    if method == "GET":
        return ["If-None-Match"] if said["form"] == "one" else []
    return ["Idempotency-Key"] if method == "POST" else ["Idempotency-Key", "If-Match"]


def failures(path, method, said, gated):
    """The statuses that the operation fails with, in order."""
    statuses = {400, 500, *said["also"]}
    if gated:
        statuses |= {401, 405, 429, 503}
    if "{" in path:
        statuses.add(404)
    if method != "GET":
        statuses |= {403, 409, 413, 415, 422}
    if method in ("PATCH", "DELETE"):
        statuses.add(412)
    return sorted(statuses)


def success(said, method, gated, refer, example):
    """The answer of an operation that went well."""
    names = list(contract.ALWAYS if gated else contract.TRACE)
    if said["status"] == 201:
        names.append("Location")
    if said["form"] == "page":
        names.append("Link")
    if said["form"] == "one" and said["shape"]:
        names.append("ETag")
    if method != "GET":
        names.append("Idempotent-Replayed")
    answer = {"description": contract.SUCCESS[said["status"]], "headers": headers(*names)}
    if said["shape"]:
        schema = refer(said["shape"])
        if said["form"] == "page":
            schema = contract.page_of(schema)
        elif said["form"] == "list":
            schema = {"type": "array", "items": schema}
        answer["content"] = {"application/json": {"schema": schema}}
        if example is not None:
            answer["content"]["application/json"]["example"] = example
    return answer


def failure(status, examples, text, names):
    """An answer that says what went wrong."""
    content = {
        "schema": pointer("schemas", "Error"),
        "examples": {
            name: {"value": error}
            for name, error in examples["errors"].items()
            if error["status"] == status
        },
    }
    return {
        "description": text,
        "headers": headers(*sorted(names)),
        "content": {"application/json": content},
    }


def webhook(name, examples):
    """What receivers of an event are sent."""
    shape, text = contract.EVENTS[name]
    return {
        "post": {
            "operationId": "on" + name.title().replace(".", ""),
            "summary": text,
            "tags": ["webhooks"],
            "security": [],
            "parameters": list(contract.SIGNATURES),
            "requestBody": {
                "required": True,
                "content": {
                    "application/json": {
                        "schema": contract.event_of(name, pointer("schemas", shape)),
                        "example": examples[name],
                    }
                },
            },
            "responses": contract.RECEIVED,
        }
    }


def headers(*names):
    return {name: pointer("headers", name) for name in names}


def pointer(kind, name):
    return {"$ref": f"#/components/{kind}/{name}"}
