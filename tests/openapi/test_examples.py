"""The examples of the published document, sent unchanged to the demo data."""

import pytest
from client import Client
from openapi_check import document

from service.devkit.dev import DEMO, OWNER

# Fields whose values differ in each run.
VOLATILE = "createdAt", "updatedAt", "completedAt"


@pytest.fixture
def newcomer(app):
    """A client with a token of the demo's owner, on fresh demo data."""
    run = app.test_cli_runner().invoke
    assert run(args=["load", str(DEMO)]).exit_code == 0
    return Client(app, run(args=["token", "create", OWNER]).stdout.strip())


def operations():
    """Every operation below /api that has examples, in the order of the document.

    test_openapi.py names examples that are missing.
    """
    for path, item in document()["paths"].items():
        if path.startswith("/api/"):
            for method, operation in item.items():
                body = operation.get("requestBody")
                needed = [*parameters_in_path(operation), *([{}] if body else [])]
                if all("example" in part or example_of(body or {}) for part in needed):
                    yield path.removeprefix("/api"), method, operation


def parameters_in_path(operation):
    return [part for part in operation.get("parameters", ()) if part.get("in") == "path"]


def example_of(body):
    return body.get("content", {}).get("application/json", {}).get("example")


def send_example(client, path, method, operation):
    """Send the request that the document shows, and return its response."""
    for parameter in parameters_in_path(operation):
        path = path.replace(f"{{{parameter['name']}}}", parameter["example"])
    return client.send(method.upper(), path, json=example_of(operation.get("requestBody", {})))


def stable(body):
    return {name: value for name, value in body.items() if name not in VOLATILE}


def test_every_request_succeeds_in_the_order_of_the_document_with_the_response_shown(newcomer):
    compared = 0
    for path, method, operation in operations():
        response = send_example(newcomer, path, method, operation)
        (success,) = (status for status in operation["responses"] if status.startswith("2"))
        assert response.status_code == int(success), (operation["operationId"], response.text)
        shown = example_of(operation["responses"][success])
        if "{" in path and isinstance(shown, dict):
            assert stable(response.get_json()) == stable(shown), operation["operationId"]
            compared += 1
        elif method == "post":
            shown = {**shown, "id": response.get_json()["id"]}
            assert stable(response.get_json()) == stable(shown), operation["operationId"]
            compared += 1
    assert compared >= 8


def test_the_demo_data_has_every_id_of_the_paths_before_anything_is_created(newcomer):
    shown = [
        (path, operation["parameters"][0]["example"])
        for path, _, operation in operations()
        if "{id}" in path
    ]
    assert len(shown) >= 8
    for path, id in shown:
        assert newcomer.get(path.replace("{id}", id)).status_code == 200, (path, id)


def test_no_query_parameter_or_header_has_an_example_that_a_page_would_send():
    """The reference page fills fields in with examples: a filter, or a key for two requests."""
    for path, _, operation in operations():
        for parameter in operation.get("parameters", ()):
            if parameter.get("in") == "query":
                assert {"example", "examples"}.isdisjoint(parameter), path
                assert {"example", "examples"}.isdisjoint(parameter["schema"]), path
    for parameter in document()["components"]["parameters"].values():
        assert {"example", "examples"}.isdisjoint({**parameter, **parameter["schema"]})
