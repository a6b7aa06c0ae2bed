"""Check every response of the suite against the published document: status, headers and body.

The suite is stricter than the document. A response must not have members that are not documented, a
timestamp must have milliseconds and Z, and JSON must not have spaces between its values.
"""

import json
import re
from functools import cache, lru_cache
from typing import NamedTuple

from jsonschema_rs import Draft202012Validator, Registry
from support import policy

from service.app import create_app, openapi
from service.settings import Settings

# A response may have these headers only if the document names them for it.
DOCUMENTED = {
    "ETag", "Location", "Link", "Retry-After", "WWW-Authenticate", "Allow", "Idempotent-Replayed",
    "Dry-Run", "RateLimit", "RateLimit-Policy", "Accept-Encoding",
    "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset",
}  # fmt: skip


# With this setting the service has all its routes.
LOGIN_KEY = "login-key-of-the-tests+/=._~-0123"
WITH_LOGIN = Settings.read({"LOGIN_KEY": LOGIN_KEY})


@cache
def document():
    with create_app(WITH_LOGIN).app_context():
        return json.loads(openapi.document())


TIMESTAMP = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T([0-9]{2}:){2}[0-9]{2}\.[0-9]{3}Z$"


def closed(part):
    """Return a part of the document with stricter rules for responses.

    They allow no undocumented members, and only one form of timestamps.
    """
    if isinstance(part, list):
        return [closed(inner) for inner in part]
    if not isinstance(part, dict):
        return part
    if "propertyNames" in part or part.get("additionalProperties") is False:
        # Leave the schema of a request as it is. It is strict already, and allows other forms of
        # timestamps.
        return part
    part = {name: closed(inner) for name, inner in part.items()}
    if part.get("type") == "object" and "properties" in part:
        part.setdefault("additionalProperties", False)
    if part.get("format") == "date-time":
        part["pattern"] = TIMESTAMP
    return part


@cache
def routes():
    """Return pairs of a pattern for paths, and the operations of these paths by method."""
    return [
        (re.compile(re.sub(r"\{\w+\}", "[^/]+", path) + "/?"), item)
        for path, item in document()["paths"].items()
    ]


@cache
def registry():
    return Registry([("urn:document", closed(document()))])


@cache
def validator(schema, formats):
    """Return the validator of a schema in JSON; ``formats`` says whether it checks formats."""
    return Draft202012Validator(
        closed(json.loads(schema.replace('"#/', '"urn:document#/'))),
        registry=registry(),
        validate_formats=formats,
    )


def violations(schema, value, *, formats=True):
    return [error.message for error in validator(json.dumps(schema), formats).iter_errors(value)]


# Many responses of the tests are the same.
@lru_cache(maxsize=1024)
def violations_of_text(schema, text):
    """Like :func:`violations`, of a schema and a value in JSON."""
    return [error.message for error in validator(schema, True).iter_errors(json.loads(text))]


def resolve(part):
    """Return the part itself, or the part that its ``$ref`` refers to."""
    return policy.follow(document(), part)


@lru_cache(maxsize=4096)
def operation_of(method, path):
    """Return the operation, or None; a path without variables goes before one with variables."""
    name = "get" if method == "HEAD" else method.lower()
    found = [item[name] for pattern, item in routes() if pattern.fullmatch(path) and name in item]
    exact = document()["paths"].get(path, {})
    return exact.get(name) or next(iter(found), None)


class Documented(NamedTuple):
    """A response in the document: headers with ``required`` and schema, and the body's schema."""

    headers: dict[str, tuple[bool, dict, str]]
    body: str | None


@lru_cache(maxsize=4096)
def documented_response(method, path, status):
    operation = operation_of(method, path)
    if operation:
        assert str(status) in operation["responses"], f"{method} {path} {status} is not documented"
        part = resolve(operation["responses"][str(status)])
    else:
        # The path has no such operation. Take the response that all operations share for this
        # status.
        part = next(
            part
            for part in document()["components"]["responses"].values()
            if next(iter(part["content"]["application/json"]["examples"].values()))["value"][
                "status"
            ]
            == status
        )
    headers = {name: resolve(header) for name, header in part["headers"].items()}
    content = part.get("content", {}).get("application/json")
    return Documented(
        {
            name: (header["required"], header["schema"], json.dumps(header["schema"]))
            for name, header in headers.items()
        },
        content and json.dumps(content["schema"]),
    )


def check_against_document(response):
    """Fail unless the document allows this response to its request."""
    request = response.request
    status = response.status_code
    where = f"{request.method} {request.path} {status}"
    documented = documented_response(request.method, request.path, status)
    check_headers(response, documented.headers, where)
    if documented.body is None:
        assert not response.data, f"{where} has a body"
    elif request.method != "HEAD":
        assert response.mimetype == "application/json", where
        wrong = violations_of_text(documented.body, response.data)
        assert not wrong, f"{where}: {wrong}"
        require_compact(response.data, where)


def require_compact(body, where):
    """Fail if the JSON of a body has white space outside of its strings."""
    # Without the escaped characters, each quotation mark begins or ends a string.
    parts = body.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"')
    if re.search(rb"\s", b"".join(parts[::2])):
        first = next(n for n in range(0, len(parts), 2) if re.search(rb"\s", parts[n]))
        raise AssertionError(
            f"{where} has a space after {parts[max(first - 3, 0) : first]}: write it with"
            " row_to_json, or in Python with to_json"
        )


def check_headers(response, expected, where):
    for name, (required, schema, text) in expected.items():
        value = response.headers.get(name)
        if value is None:
            assert not required, f"{where} lacks {name}"
            continue
        if schema["type"] == "integer":
            assert re.fullmatch("[0-9]+", value), f"{where} {name}: {value}"
            value = int(value)
        wrong = violations_of_text(text, json.dumps(value))
        assert not wrong, f"{where} {name}: {wrong}"
    if response.status_code < 500:
        undocumented = DOCUMENTED & set(response.headers.keys()) - set(expected)
        assert not undocumented, f"{where} has {undocumented}"
