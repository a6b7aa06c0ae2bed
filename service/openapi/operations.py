"""The operations of the published contract: what each one takes and every response it can give."""

import re
import sys
from http import HTTPStatus
from inspect import getdoc
from typing import Any

from marshmallow import Schema
from werkzeug.routing import Rule

from service.http.gate import is_public
from service.http.requests import View
from service.http.responses import Documented
from service.openapi.json_schema import Schemas
from service.schemas import Query

JSON = dict[str, Any]

RATE_LIMIT = "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"
WINDOWS = "RateLimit-Policy", "RateLimit"

SUCCESS = {200: "OK", 201: "Created", 204: "Removed for good"}

# Of what this document says of itself, a generator needs no more.
OPENAPI = {"type": "object", "additionalProperties": True}

# The component of each error status.
ERRORS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    408: "RequestTimeout",
    409: "Conflict",
    412: "PreconditionFailed",
    413: "ContentTooLarge",
    415: "UnsupportedMediaType",
    422: "UnprocessableContent",
    429: "TooManyRequests",
    500: "InternalServerError",
    503: "ServiceUnavailable",
}


def refer(kind: str, *names: str) -> JSON:
    """Components by name, each as a reference."""
    return {name: {"$ref": f"#/components/{kind}/{name}"} for name in names}


def tag(view: View) -> JSON:
    """The module of a view, and how it describes itself."""
    module = sys.modules[view.__module__]
    name = module.__name__.rpartition(".")[2]
    if name in ("health", "openapi"):
        return {"name": "service", "description": "The service itself"}
    return {"name": name, "description": (module.__doc__ or "").partition(".")[0]}


class Operation:
    """One view under one path, in the words of OpenAPI."""

    def __init__(self, rule: Rule, view: View) -> None:
        self.view = view
        self.documented: Documented = view.response  # type: ignore[attr-defined]
        self.arguments: Schema | None = getattr(view, "arguments", None)
        self.path = re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule)
        self.gated = not is_public(rule)
        (self.method,) = (rule.methods or set()) - {"HEAD", "OPTIONS"}
        head, *rest = view.__name__.split("_")
        self.name = head + "".join(map(str.title, rest))

    def document(self, schemas: Schemas, examples: JSON, errors: JSON) -> JSON:
        """The operation object."""
        summary, _, description = (getdoc(self.view) or "").partition("\n\n")
        operation: JSON = {
            "operationId": self.name,
            "summary": summary,
            # The lines of a docstring are as wide as the code, not as the page.
            "description": description.replace("``", "`").replace("\n", " "),
            "tags": [tag(self.view)["name"]],
        }
        if not self.gated:
            operation["security"] = []
        parameters = self.parameters(schemas, examples["paths"].get(self.name, {}))
        if parameters:
            operation["parameters"] = parameters
        if self.arguments and not isinstance(self.arguments, Query):
            content = {
                "schema": schemas.body(self.arguments),
                "example": examples["requests"][self.name],
            }
            operation["requestBody"] = {"required": True, "content": {"application/json": content}}
        example = examples["responses"].get(self.name)
        operation["responses"] = {
            str(self.documented.status): self.success(schemas, example),
            **self.not_modified(),
            **{str(status): self.failure(status, errors) for status in self.error_statuses()},
        }
        return operation

    def parameters(self, schemas: Schemas, path_example: JSON) -> list[JSON]:
        """Path, query and headers."""
        variables = re.findall(r"{(\w+)}", self.path)
        id_schema = {"type": "string", "format": "uuid"}
        query = self.arguments.fields.values() if isinstance(self.arguments, Query) else ()
        return [
            *(
                {
                    "name": name,
                    "in": "path",
                    "required": True,
                    "schema": id_schema,
                    "example": path_example[name],
                }
                for name in variables
            ),
            *map(schemas.parameter, query),
            *refer("parameters", *self.request_headers()).values(),
        ]

    def request_headers(self) -> list[str]:
        """The headers that change what the operation does."""
        if self.method == "GET":
            return ["If-None-Match"] if self.documented.kind == "versioned" else []
        return ["Idempotency-Key"] if self.method == "POST" else ["Idempotency-Key", "If-Match"]

    def common_headers(self) -> tuple[str, ...]:
        """The headers of every response."""
        return (*RATE_LIMIT, *WINDOWS, "X-Request-Id") if self.gated else ("X-Request-Id",)

    def success(self, schemas: Schemas, example: Any) -> JSON:
        """The response of a request that succeeds."""
        status, kind = self.documented.status, self.documented.kind
        names = [
            *self.common_headers(),
            *(["Location"] if status == 201 else []),
            *(["Link"] if kind == "page" else []),
            *(["ETag"] if kind == "versioned" and self.documented.schema else []),
            *(["Idempotent-Replayed"] if self.method != "GET" else []),
        ]
        response: JSON = {"description": SUCCESS[status], "headers": refer("headers", *names)}
        if status != 204:
            content = {"schema": self.body(schemas)}
            if example is not None:
                content["example"] = example
            response["content"] = {"application/json": content}
        return response

    def body(self, schemas: Schemas) -> JSON:
        """The schema of that response."""
        if self.documented.schema is None:
            return schemas.refer("OpenAPIDocument", OPENAPI)
        if self.documented.kind == "page":
            return schemas.page(self.documented.schema)
        schema = schemas.response(self.documented.schema)
        return {"type": "array", "items": schema} if self.documented.kind == "list" else schema

    def not_modified(self) -> JSON:
        """304, where a reader may already have the current version."""
        if "If-None-Match" not in self.request_headers():
            return {}
        headers = refer("headers", *self.common_headers(), "ETag")
        return {"304": {"description": "You have the current version", "headers": headers}}

    def error_statuses(self) -> list[int]:
        """The statuses that the operation fails with, in order."""
        statuses = {400, 500, *self.documented.also}
        if self.gated:
            statuses |= {401, 405, 408, 429, 503}
        if "{" in self.path:
            statuses.add(404)
        if self.method != "GET":
            statuses |= {403, 409, 413, 415, 422}
        if self.method in ("PATCH", "DELETE"):
            statuses.add(412)
        return sorted(statuses)

    def failure(self, status: int, errors: JSON) -> JSON:
        """One error; outside of /api there are no rate limits to tell of."""
        if self.gated:
            return {"$ref": f"#/components/responses/{ERRORS[status]}"}
        error = errors[ERRORS[status]]
        headers = {k: v for k, v in error["headers"].items() if k not in (*RATE_LIMIT, *WINDOWS)}
        return {**error, "headers": headers}


def error_response(status: int, documented: JSON, examples: JSON) -> JSON:
    """The component of an error status: its headers and examples of its body."""
    # A request that did not arrive, or that met no database, has not been counted.
    counted = status < 500 and status != HTTPStatus.REQUEST_TIMEOUT
    names = (*RATE_LIMIT, *(WINDOWS if counted else ()), "X-Request-Id")
    content = {
        "schema": {"$ref": "#/components/schemas/ErrorResponse"},
        "examples": {
            name: {"value": error}
            for name, error in examples["errors"].items()
            if error["status"] == status
        },
    }
    return {
        **documented,
        "headers": {**refer("headers", *names), **documented.get("headers", {})},
        "content": {"application/json": content},
    }
