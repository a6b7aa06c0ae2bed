"""The requests that an OpenAPI document shows as examples, and the rows that they need.

``document`` is the document of this code, or the document that an earlier release published.
"""

import json

from support.receivers import FINGERPRINT

from service.devkit.local import OWNER

# The demo data has none of these, because secrets and hosts belong to an installation.
NOT_IN_THE_DEMO = {"tokens", "webhooks", "deliveries"}


def operations(document):
    """Yield each operation below /api that has all its examples, in the order of the document.

    tests/openapi/test_openapi.py fails if an example is missing.
    """
    for path, item in document["paths"].items():
        if path.startswith("/api/"):
            for method, operation in item.items():
                body = operation.get("requestBody")
                needed = [*parameters_in_path(operation), *([{}] if body else [])]
                if all("example" in part or example_of(body or {}) for part in needed):
                    yield path.removeprefix("/api"), method, operation


def parameters_in_path(operation):
    return [part for part in operation.get("parameters", ()) if part.get("in") == "path"]


def path_with_examples(path, operation):
    for parameter in parameters_in_path(operation):
        path = path.replace(f"{{{parameter['name']}}}", parameter["example"])
    return path


def example_of(body):
    return body.get("content", {}).get("application/json", {}).get("example")


def credential_of(operation):
    """Return which credential an operation needs: bearer, session or loginKey."""
    (scheme,) = operation.get("security", [{"bearer": []}]) or [{}]
    return "".join(scheme)


def success_of(operation):
    (status,) = (status for status in operation["responses"] if status.startswith("2"))
    return int(status)


def shown(document, operation_id):
    """Return the body of the successful response that the document shows."""
    (operation,) = (
        operation
        for _, _, operation in operations(document)
        if operation["operationId"] == operation_id
    )
    return example_of(operation["responses"][str(success_of(operation))])


def needs_settings(path, operation):
    return operation["tags"][0] in NOT_IN_THE_DEMO and "{" in path


def insert_settings(connection, document):
    """Insert the token, the webhook and the delivery of the examples, unless they are there."""
    (token,) = shown(document, "listTokens")
    webhook, delivery = shown(document, "getWebhook"), shown(document, "getDelivery")
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
