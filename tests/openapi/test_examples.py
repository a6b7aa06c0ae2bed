"""The examples of the published document, sent unchanged to the demo data."""

import pytest
from support.commands import CommandRunner
from support.examples import (
    credential_of,
    example_of,
    insert_settings,
    needs_settings,
    operations,
    parameters_in_path,
    path_with_examples,
    success_of,
)
from support.http import Client
from support.openapi_check import LOGIN_KEY, document
from support.resources import RESOURCES
from support.rows import row_of

from service.devkit.local import DEMO, OWNER

# Fields whose values differ in each run.
VOLATILE = (
    *("createdAt", "updatedAt", "completedAt"),
    *("token", "secret", "nextAttemptAt", "timestamp", "attempts"),
)
# The demo data has none of these, because the command load does not write them.
NOT_LOADED = [entry for entry in RESOURCES if entry.path and not entry.line]
# Operations whose response depends on the receiver, or has a new id.
NOT_COMPARED = {"pingWebhook", "createSession", "addMember"}


@pytest.fixture
def service(webhooks_app):
    """A service that may post to this machine, with fresh demo data."""
    app = webhooks_app
    assert CommandRunner(app).invoke(args=["load", str(DEMO)]).exit_code == 0
    return app


def credential(service, kind):
    ran = CommandRunner(service).invoke(args=[kind, "create", OWNER])
    assert ran.exit_code == 0
    return ran.stdout.strip()


@pytest.fixture
def newcomer(service):
    return Client(service, credential(service, "token"))


@pytest.fixture
def browser(service):
    client = Client(service, cookie=credential(service, "session"))
    client.headers["Content-Type"] = "application/json"
    return client


def not_loaded(path):
    """Return the resource of a path with an id if the command load does not write it, else None."""
    return next((entry for entry in NOT_LOADED if path.startswith(f"{entry.path}/{{")), None)


def insert_example(connection, resource, id):
    """Insert a row of a resource with the id of its examples, unless it is there."""
    if row_of(connection, resource.table, id) is None:
        sql = "SELECT id, active_workspace_id FROM users WHERE email = %s"
        owner = connection.execute(sql, (OWNER,)).fetchone()
        known = {"user": owner["id"]}
        resource.insert(connection, owner["active_workspace_id"], known, id=id)


def send_example(client, path, method, operation):
    """Send the request that the document shows, and return its response."""
    body = example_of(operation.get("requestBody", {}))
    return client.send(method.upper(), path_with_examples(path, operation), json=body)


def stable(body):
    """Return a body, and each object in its lists, without the members that differ in each run."""
    return {
        name: [stable(item) if isinstance(item, dict) else item for item in value]
        if isinstance(value, list)
        else value
        for name, value in body.items()
        if name not in VOLATILE
    }


def test_every_example_request_sent_in_the_order_of_the_document_gets_the_response_shown(
    service, newcomer, browser, connection
):
    compared = 0
    for path, method, operation in operations(document()):
        if needs_settings(path, operation):
            insert_settings(connection, document())
        if resource := not_loaded(path):
            insert_example(connection, resource, parameters_in_path(operation)[0]["example"])
        clients = {"session": browser, "loginKey": Client(service, LOGIN_KEY)}
        client = clients.get(credential_of(operation), newcomer)
        response = send_example(client, path, method, operation)
        success = success_of(operation)
        assert response.status_code == success, (operation["operationId"], response.text)
        example = example_of(operation["responses"][str(success)])
        if operation["operationId"] in NOT_COMPARED:
            assert response.get_json().keys() == example.keys()
            continue
        if "{" in path and isinstance(example, dict):
            assert stable(response.get_json()) == stable(example), operation["operationId"]
            compared += 1
        elif method == "post":
            # A batch has no id, and names the ids of its tasks.
            if "id" in example:
                example = {**example, "id": response.get_json()["id"]}
            assert stable(response.get_json()) == stable(example), operation["operationId"]
            compared += 1
    assert compared >= 8


def test_query_parameters_and_headers_have_no_examples_because_the_page_would_send_them():
    """The reference page would send them: it would filter lists, or repeat one key.

    An empty object is sent as nothing.
    """
    for path, _, operation in operations(document()):
        for parameter in operation.get("parameters", ()):
            if parameter.get("in") == "query":
                assert parameter.get("example", {}) == {}, path
                assert "examples" not in parameter, path
                assert {"example", "examples"}.isdisjoint(parameter["schema"]), path
    for parameter in document()["components"]["parameters"].values():
        assert {"example", "examples"}.isdisjoint({**parameter, **parameter["schema"]})
