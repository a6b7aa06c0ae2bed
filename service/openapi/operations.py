"""The operations of the published document, each with its parameters and all its responses."""

import json
import re
import sys
from collections import defaultdict
from collections.abc import Mapping
from http import HTTPStatus
from inspect import getdoc
from pathlib import Path
from typing import NamedTuple

from werkzeug.routing import Rule

from service.openapi.json_schema import JSON, Schemas, with_defaults
from service.values.schemas import Query
from service.values.types import camel_case, singular
from service.web.gate import is_public
from service.web.operation import DRY_RUN, Operation, View

RATE_LIMIT = "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"
LIMITS = *RATE_LIMIT, "RateLimit-Policy", "RateLimit"

SUCCESS = {200: "OK", 201: "Created", 204: "Deleted"}

PATH_ID: JSON = {
    "in": "path",
    "required": True,
    "description": "The id of the object. An id that is unknown, malformed or not yours returns"
    " 404",
    "schema": {"type": "string", "format": "uuid"},
}

# What a program with few tools needs, such as an agent. This is no second tag, because
# openapi-generator makes a class for each tag, with types whose names Go then declares twice.
CORE = {
    *("listTasks", "getTask", "createTask", "updateTask", "deleteTask", "changeTasks"),
    *("listMeetings", "getMeeting", "createMeeting", "getMe", "getStats", "listEvents"),
}

# The schema of this document itself allows everything, because generators of clients need no more.
OPENAPI: JSON = {"type": "object", "additionalProperties": True}

# The examples: ``errors`` by name, ``events`` by type, ``paths``, ``requests`` and ``responses`` by
# operation.
Examples = dict[str, JSON]


def read_examples(folder: Path) -> Examples:
    """Read the files of a folder: one for each resource, and one for errors."""
    examples: Examples = defaultdict(dict)
    for path in sorted(folder.glob("*.json")):
        for part, named in json.loads(path.read_bytes()).items():
            examples[part].update(named)
    return examples


class Shared(NamedTuple):
    """The parts of the document to which every operation refers or adds."""

    schemas: Schemas
    examples: Examples
    # By the name of a component: the status and the description of an error, and the headers that
    # only responses with this error have.
    errors: JSON


def refer(kind: str, *names: str) -> JSON:
    return {name: {"$ref": f"#/components/{kind}/{name}"} for name in names}


def chosen(names: Mapping[str, object]) -> list[str]:
    """List the names with a true value."""
    return [name for name, value in names.items() if value]


def with_example(part: JSON, example: object) -> JSON:
    return part if example is None else {**part, "example": example}


def tag(view: View) -> dict[str, str]:
    """Group a view by its module, whose first sentence is the description."""
    name = view.__module__.rpartition(".")[2]
    if name in ("health", "openapi"):
        return {"name": "service", "description": "The service itself"}
    about = sys.modules[view.__module__].__doc__ or ""
    return {"name": name, "description": about.partition(".")[0]}


def name_parameter(segment: re.Match[str]) -> str:
    """Name the id in a path after the collection before it: ``tasks/{taskId}``."""
    return f"{segment[1]}/{{{singular(segment[1])}Id}}"


class Endpoint:
    """One view under one path."""

    def __init__(self, rule: Rule, view: View, operation: Operation, shared: Shared) -> None:
        self.view, self.operation, kind = view, operation, operation.kind
        self.schemas, self.examples, self.errors = shared
        self.path = re.sub(r"(\w+)/<(?:\w+:)?\w+>", name_parameter, rule.rule)
        self.gated = not is_public(rule)
        (self.method,) = (rule.methods or set()) - {"HEAD", "OPTIONS"}
        self.name = camel_case(view.__name__)
        # The headers that every response to a counted request has.
        self.common_headers = (*(LIMITS if self.gated else ()), "X-Request-Id")
        unread = operation.by_login_key or operation.ignores_workspace_header
        self.locks = self.method != "POST" and kind in ("versioned", "live")
        self.has_304 = self.method == "GET" and kind == "versioned"
        # The request headers that change the effect of the operation.
        self.headers = chosen(
            {
                "Workspace-Id": self.gated and not unread,
                "Idempotency-Key": operation.idempotent,
                "If-Match": self.locks,
                "If-None-Match": self.has_304 or (self.locks and self.method != "GET"),
            }
        )

    def document(self) -> JSON:
        operation, arguments = self.operation, self.operation.arguments
        summary, _, description = (getdoc(self.view) or "").partition("\n\n")
        document: JSON = {
            "operationId": self.name,
            "summary": summary,
            # The docstring is wrapped for the code, so the document drops its line breaks.
            "description": description.replace("``", "`").replace("\n", " "),
            "tags": [tag(self.view)["name"]],
            **({"x-core": True} if self.name in CORE else {}),
            "x-mcp-hints": self.hints(),
        }
        schemes = {"session": operation.session_only, "loginKey": operation.by_login_key}
        security: list[JSON] = [{scheme: []} for scheme in chosen(schemes)]
        if security or not self.gated:
            document["security"] = security
        if parameters := self.parameters():
            document["parameters"] = parameters
        if arguments and not isinstance(arguments, Query):
            example = self.examples["requests"].get(self.name)
            body = with_example({"schema": self.schemas.body(arguments)}, example)
            document["requestBody"] = {"required": True, "content": {"application/json": body}}
        document["responses"] = {
            str(operation.status): self.success(),
            **{str(status): self.failure(status) for status in self.error_statuses()},
        }
        if self.has_304:
            headers = refer("headers", *self.common_headers, "ETag")
            not_modified = {"description": "You have the current version", "headers": headers}
            document["responses"]["304"] = not_modified
        return document

    def hints(self) -> dict[str, bool]:
        """Return what the host of an agent wants to know, as MCP defines it in ToolAnnotations.

        A write destroys unless it only adds an object: a PATCH overwrites, and a batch can delete.
        """
        reads = self.method == "GET"
        return {
            "readOnlyHint": reads,
            "destructiveHint": not reads and self.operation.status != HTTPStatus.CREATED,
            "idempotentHint": self.method != "POST",
        }

    def parameters(self) -> list[object]:
        query = self.operation.query
        examples = self.examples["paths"].get(self.name, {})
        return [
            *(
                with_example({"name": name, **PATH_ID}, examples.get(name))
                for name in re.findall(r"{(\w+)}", self.path)
            ),
            *map(self.schemas.parameter, query.fields.values() if query else ()),
            *refer("parameters", *self.headers).values(),
        ]

    def success(self) -> JSON:
        operation = self.operation
        status, kind, schema = operation.status, operation.kind, operation.response
        others = {
            "Location": status == 201,
            "Link": kind == "page",
            "ETag": kind in ("versioned", "live") and schema,
            "Idempotent-Replayed": operation.idempotent,
            "Dry-Run": operation.query is DRY_RUN,
        }
        headers = refer("headers", *self.common_headers, *chosen(others))
        response: JSON = {"description": SUCCESS[status], "headers": headers}
        if status == 204:
            return response
        if schema is None:
            body = self.schemas.refer("OpenAPIDocument", OPENAPI)
        elif kind == "page":
            body = self.schemas.page(schema)
        else:
            body = self.schemas.response(schema)
        if kind == "list":
            body = {"type": "array", "items": body}
        example = with_defaults(self.examples["responses"].get(self.name), schema)
        response["content"] = {"application/json": with_example({"schema": body}, example)}
        return response

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
        if self.locks:
            statuses.add(412)
        return sorted(statuses)

    def failure(self, status: int) -> JSON:
        """Refer to the response of an error; a public operation's response has no rate limits."""
        (name,) = (name for name, error in self.errors.items() if error["status"] == status)
        if status == HTTPStatus.PRECONDITION_FAILED and not self.locks:
            # A batch names versions in its body, so there is no single version for a header.
            return error_response({**self.errors[name], "headers": {}}, self.examples, limited=True)
        if self.gated:
            return {"$ref": f"#/components/responses/{name}"}
        return error_response(self.errors[name], self.examples, limited=False)


def error_response(error: JSON, examples: Examples, *, limited: bool) -> JSON:
    """Describe the response of an error with examples; ``limited`` adds the rate-limit headers."""
    status = error["status"]
    # The gate does not count a request that did not arrive in time, or for which there was no
    # database.
    counted = status < 500 and status != HTTPStatus.REQUEST_TIMEOUT
    names = (*(LIMITS if counted else RATE_LIMIT), "Dry-Run") if limited else ()
    content = {
        "schema": {"$ref": "#/components/schemas/ErrorResponse"},
        "examples": {
            name: {"value": example}
            for name, example in examples["errors"].items()
            if example["status"] == status
        },
    }
    return {
        "description": error["description"],
        "headers": {**refer("headers", *names, "X-Request-Id"), **error.get("headers", {})},
        "content": {"application/json": content},
    }
