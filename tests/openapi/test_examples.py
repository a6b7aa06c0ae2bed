"""The examples of the published document, sent unchanged to the demo data."""

import json

import pytest
from support.commands import CommandRunner
from support.http import Client
from support.openapi_check import LOGIN_KEY, document
from support.receivers import FINGERPRINT
from support.resources import RESOURCES
from support.rows import row_of

from service.devkit.local import DEMO, OWNER

# Fields whose values differ in each run.
VOLATILE = (
    *("createdAt", "updatedAt", "completedAt"),
    *("token", "secret", "nextAttemptAt", "timestamp", "attempts"),
)
# The demo data has none of these, because secrets and hosts belong to an installation.
NOT_IN_THE_DEMO = {"tokens", "webhooks", "deliveries"}
# It has none of these either, because the command load does not write them.
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


def shown(operation_id):
    (responses,) = (
        operation["responses"]
        for _, _, operation in operations()
        if operation["operationId"] == operation_id
    )
    return example_of(next(responses[status] for status in responses if status.startswith("2")))


def insert_settings(connection):
    """Insert the token, the webhook and the delivery of the examples, unless they are there."""
    (token,), webhook, delivery = shown("listTokens"), shown("getWebhook"), shown("getDelivery")
    event = json.loads(delivery["body"])
    connection.execute(
        "INSERT INTO tokens (id, user_id, kind, name, scope, hash, expires_at)"
        " SELECT %s, id, 'api', %s, %s, sha256('example'), %s FROM users WHERE email = %s"
        " ON CONFLICT DO NOTHING",
        (token["id"], token["name"], token["scope"], token["expiresAt"], OWNER),
    )
    # A webhook that the examples have deleted keeps its row until the worker runs.
    connection.execute("DELETE FROM webhooks WHERE deleted_at IS NOT NULL")
    connection.execute(
        "INSERT INTO webhooks (workspace_id, id, url, events, key_fingerprint)"
        " VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
        (event["workspaceId"], webhook["id"], webhook["url"], webhook["events"], FINGERPRINT),
    )
    connection.execute(
        "INSERT INTO events (workspace_id, id, type, body) VALUES (%s, %s, %s, %s)"
        " ON CONFLICT DO NOTHING",
        (event["workspaceId"], event["id"].removeprefix("evt_"), event["type"], delivery["body"]),
    )
    connection.execute(
        "INSERT INTO deliveries (workspace_id, id, webhook_id, event_id, state, due_at)"
        " VALUES (%s, %s, %s, %s, 'delivered', now()) ON CONFLICT DO NOTHING",
        (event["workspaceId"], delivery["id"], webhook["id"], event["id"].removeprefix("evt_")),
    )


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
    """Return a body without the members that differ in each run; of a page, strip every item."""
    kept = {name: value for name, value in body.items() if name not in VOLATILE}
    return {**kept, "data": [*map(stable, body["data"])]} if "nextCursor" in body else kept


def test_every_example_request_sent_in_the_order_of_the_document_gets_the_response_shown(
    service, newcomer, browser, connection
):
    compared = 0
    for path, method, operation in operations():
        if operation["tags"][0] in NOT_IN_THE_DEMO and "{" in path:
            insert_settings(connection)
        if resource := not_loaded(path):
            insert_example(connection, resource, parameters_in_path(operation)[0]["example"])
        clients = {"session": browser, "loginKey": Client(service, LOGIN_KEY)}
        (scheme,) = operation.get("security", [{"bearer": []}]) or [{}]
        client = clients.get("".join(scheme), newcomer)
        response = send_example(client, path, method, operation)
        (success,) = (status for status in operation["responses"] if status.startswith("2"))
        assert response.status_code == int(success), (operation["operationId"], response.text)
        example = example_of(operation["responses"][success])
        if operation["operationId"] in NOT_COMPARED:
            assert response.get_json().keys() == example.keys()
            continue
        if "{" in path and isinstance(example, dict):
            assert stable(response.get_json()) == stable(example), operation["operationId"]
            compared += 1
        elif method == "post":
            example = {**example, "id": response.get_json()["id"]}
            assert stable(response.get_json()) == stable(example), operation["operationId"]
            compared += 1
    assert compared >= 8


def test_query_parameters_and_headers_have_no_examples_because_the_page_would_send_them():
    """The reference page would send them: it would filter lists, or repeat one key."""
    for path, _, operation in operations():
        for parameter in operation.get("parameters", ()):
            if parameter.get("in") == "query":
                assert {"example", "examples"}.isdisjoint(parameter), path
                assert {"example", "examples"}.isdisjoint(parameter["schema"]), path
    for parameter in document()["components"]["parameters"].values():
        assert {"example", "examples"}.isdisjoint({**parameter, **parameter["schema"]})
