"""The operations of the published document, each with its parameters and all its responses."""

import json
import re
import sys
from http import HTTPStatus
from inspect import getdoc
from pathlib import Path
from typing import NamedTuple, NotRequired, Self, TypedDict

from werkzeug.routing import Rule

from service.openapi.json_schema import JSON, Schemas, with_defaults
from service.values.schemas import Query
from service.values.types import camel_case, singular
from service.web.gate import is_public
from service.web.operation import Operation, View

RATE_LIMIT = "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"
WINDOWS = "RateLimit-Policy", "RateLimit"

SUCCESS = {200: "OK", 201: "Created", 204: "Deleted"}

PATH_ID = "The id of the object. An id that is unknown, malformed or not yours returns 404"

# The schema of this document itself allows everything, because generators of clients need no more.
OPENAPI: JSON = {"type": "object", "additionalProperties": True}

# The component of each error status.
ERRORS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    408: "RequestTimeout",
    409: "Conflict",
    410: "Gone",
    412: "PreconditionFailed",
    413: "ContentTooLarge",
    415: "UnsupportedMediaType",
    422: "UnprocessableContent",
    429: "TooManyRequests",
    500: "InternalServerError",
    503: "ServiceUnavailable",
}


class Failure(TypedDict):
    """An error in document.json: its description, and headers that only this error has."""

    description: str
    headers: NotRequired[dict[str, JSON]]


class Examples(NamedTuple):
    """The examples: ``errors`` by name, ``events`` by type, the others by operation."""

    paths: dict[str, dict[str, str]]
    requests: dict[str, JSON]
    responses: dict[str, object]
    errors: dict[str, JSON]
    events: dict[str, JSON]

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the files of a folder: one for each resource, and one for errors."""
        examples = cls({}, {}, {}, {}, {})
        for path in sorted(folder.glob("*.json")):
            for part, named in json.loads(path.read_text(encoding="utf-8")).items():
                getattr(examples, part).update(named)
        return examples


def refer(kind: str, *names: str) -> dict[str, JSON]:
    return {name: {"$ref": f"#/components/{kind}/{name}"} for name in names}


class Tag(NamedTuple):
    name: str
    description: str


def tag(view: View) -> Tag:
    """Group a view by its module, whose first sentence is the description."""
    module = sys.modules[view.__module__]
    name = module.__name__.rpartition(".")[2]
    if name in ("health", "openapi"):
        return Tag("service", "The service itself")
    return Tag(name, (module.__doc__ or "").partition(".")[0])


def name_parameter(segment: re.Match[str]) -> str:
    """Name the id in a path after the collection before it: ``tasks/{taskId}``."""
    return f"{segment[1]}/{{{singular(segment[1])}Id}}"


class Endpoint:
    """One view under one path."""

    def __init__(self, rule: Rule, view: View, operation: Operation) -> None:
        self.view, self.operation = view, operation
        self.path = re.sub(r"(\w+)/<(?:\w+:)?\w+>", name_parameter, rule.rule)
        self.gated = not is_public(rule)
        (self.method,) = (rule.methods or set()) - {"HEAD", "OPTIONS"}
        self.name = camel_case(view.__name__)

    def document(self, schemas: Schemas, examples: Examples, errors: dict[str, Failure]) -> JSON:
        summary, _, description = (getdoc(self.view) or "").partition("\n\n")
        document: JSON = {
            "operationId": self.name,
            "summary": summary,
            # The docstring is wrapped for the code, so the document drops its line breaks.
            "description": description.replace("``", "`").replace("\n", " "),
            "tags": [tag(self.view).name],
        }
        if not self.gated:
            document["security"] = []
        if self.operation.session_only:
            document["security"] = [{"session": []}]
        if self.operation.by_login_key:
            document["security"] = [{"loginKey": []}]
        parameters = self.parameters(schemas, examples.paths.get(self.name, {}))
        if parameters:
            document["parameters"] = parameters
        arguments = self.operation.arguments
        if arguments and not isinstance(arguments, Query):
            body: JSON = {"schema": schemas.body(arguments)}
            if self.name in examples.requests:
                body["example"] = examples.requests[self.name]
            document["requestBody"] = {"required": True, "content": {"application/json": body}}
        document["responses"] = {
            str(self.operation.status): self.success(schemas, examples.responses.get(self.name)),
            **self.not_modified(),
            **{
                str(status): self.failure(status, errors, examples)
                for status in self.error_statuses()
            },
        }
        return document

    def parameters(self, schemas: Schemas, path_example: dict[str, str]) -> list[JSON]:
        arguments = self.operation.arguments
        query = arguments.fields.values() if isinstance(arguments, Query) else ()
        return [
            *(
                {
                    "name": name,
                    "in": "path",
                    "required": True,
                    "description": PATH_ID,
                    "schema": {"type": "string", "format": "uuid"},
                    **({"example": path_example[name]} if name in path_example else {}),
                }
                for name in re.findall(r"{(\w+)}", self.path)
            ),
            *map(schemas.parameter, query),
            *refer("parameters", *self.request_headers()).values(),
        ]

    def request_headers(self) -> list[str]:
        """List the request headers that change the effect of the operation."""
        headers = self.workspace_header()
        if self.operation.idempotent:
            headers.append("Idempotency-Key")
        if self.method != "POST" and self.operation.kind in ("versioned", "live"):
            headers.append("If-Match")
            if self.method != "GET" or self.operation.kind == "versioned":
                headers.append("If-None-Match")
        return headers

    def workspace_header(self) -> list[str]:
        """Name the header, unless the view does not read it."""
        unread = self.operation.by_login_key or self.operation.ignores_workspace_header
        return ["Workspace-Id"] if self.gated and not unread else []

    def common_headers(self) -> tuple[str, ...]:
        """List the headers that every response to a counted request has."""
        return (*RATE_LIMIT, *WINDOWS, "X-Request-Id") if self.gated else ("X-Request-Id",)

    def success(self, schemas: Schemas, example: object) -> JSON:
        status, kind = self.operation.status, self.operation.kind
        names = [
            *self.common_headers(),
            *(["Location"] if status == 201 else []),
            *(["Link"] if kind == "page" else []),
            *(["ETag"] if kind in ("versioned", "live") and self.operation.response else []),
            *(["Idempotent-Replayed"] if self.operation.idempotent else []),
        ]
        response: JSON = {"description": SUCCESS[status], "headers": refer("headers", *names)}
        if status != 204:
            content: JSON = {"schema": self.body(schemas)}
            if example is not None:
                content["example"] = with_defaults(example, self.operation.response)
            response["content"] = {"application/json": content}
        return response

    def body(self, schemas: Schemas) -> JSON:
        """Refer to the schema of the response to a request that succeeds."""
        if self.operation.response is None:
            return schemas.refer("OpenAPIDocument", OPENAPI)
        if self.operation.kind == "page":
            return schemas.page(self.operation.response)
        schema = schemas.response(self.operation.response)
        return {"type": "array", "items": schema} if self.operation.kind == "list" else schema

    def not_modified(self) -> dict[str, JSON]:
        """Describe the response 304; returns nothing unless a GET reads If-None-Match."""
        if self.method != "GET" or "If-None-Match" not in self.request_headers():
            return {}
        headers = refer("headers", *self.common_headers(), "ETag")
        return {"304": {"description": "You have the current version", "headers": headers}}

    def error_statuses(self) -> list[int]:
        """List the statuses of all errors of the operation, in ascending order."""
        statuses = {400, 500, *self.operation.also}
        if self.gated:
            statuses |= {401, 404, 405, 408, 429, 503}
        if self.method != "GET":
            statuses |= {403, 409, 413}
        if self.method in ("PATCH", "POST"):
            statuses.add(415)
        if self.operation.idempotent:
            statuses.add(422)
        if "If-Match" in self.request_headers():
            statuses.add(412)
        return sorted(statuses)

    def failure(self, status: int, errors: dict[str, Failure], examples: Examples) -> JSON:
        """Refer to the response of an error; a public operation's response has no rate limits."""
        name = ERRORS[status]
        # A batch names versions in its body, so there is no single version for a header.
        plain = (
            status == HTTPStatus.PRECONDITION_FAILED and "If-Match" not in self.request_headers()
        )
        if plain:
            failure: Failure = {"description": errors[name]["description"]}
            return error_response(status, failure, examples, limited=True)
        if self.gated:
            return refer("responses", name)[name]
        return error_response(status, errors[name], examples, limited=False)


def error_response(status: int, failure: Failure, examples: Examples, *, limited: bool) -> JSON:
    """Describe the response of an error with examples; ``limited`` adds the rate-limit headers."""
    # The gate does not count a request that did not arrive in time, or for which there was no
    # database.
    counted = status < 500 and status != HTTPStatus.REQUEST_TIMEOUT
    limits = (*RATE_LIMIT, *(WINDOWS if counted else ())) if limited else ()
    content = {
        "schema": {"$ref": "#/components/schemas/ErrorResponse"},
        "examples": {
            name: {"value": error}
            for name, error in examples.errors.items()
            if error["status"] == status
        },
    }
    return {
        "description": failure["description"],
        "headers": {**refer("headers", *limits, "X-Request-Id"), **failure.get("headers", {})},
        "content": {"application/json": content},
    }
