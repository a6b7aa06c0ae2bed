"""Reads responses of the service with the models that datamodel-code-generator makes.

test_generators.py runs it; ``models`` are generated with ``--field-constraints``.
"""

import json
import os
import re
from datetime import UTC, datetime
from typing import Any
from urllib.request import Request, urlopen

import models
from pydantic import BaseModel

URL, TOKEN = os.environ["URL"], os.environ["TOKEN"]


def send(method: str, path: str, body: BaseModel | None = None) -> Any:
    content = body.model_dump_json(exclude_unset=True).encode() if body else None
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    with urlopen(Request(URL + path, content, headers, method=method)) as response:
        return json.load(response)


def model_of(schema: dict[str, Any]) -> type[BaseModel]:
    model: type[BaseModel] = getattr(models, schema["$ref"].rpartition("/")[2])
    return model


task = models.Task(
    **send(
        "POST",
        "/api/tasks",
        models.TaskInput(title="Call Ada", dueDate=datetime(2036, 5, 2, 15, tzinfo=UTC)),
    )
)
meeting = models.MeetingInput(
    title="Planning",
    startTime=datetime(2036, 5, 5, 9, tzinfo=UTC),
    endTime=datetime(2036, 5, 5, 10, tzinfo=UTC),
    attendees=["ada@example.com"],
)
meeting_id = send("POST", "/api/meetings", meeting)["id"]
workspace_id = str(task.workspaceId)

# The task as it was read, with its read-only fields, and one change.
changes = models.TaskChanges(**task.model_dump(mode="json"))
changes.status = models.TaskStatus.done
changed = models.Task(**send("PATCH", f"/api/tasks/{task.id}", changes))
assert (changed.status, changed.version) == (models.TaskStatus.done, 2)

document = send("GET", "/openapi.json")
read = 0
for path, item in document["paths"].items():
    if "get" in item and path != "/openapi.json":
        ids = {"tasks": str(task.id), "meetings": meeting_id, "workspaces": workspace_id}
        kind = path.split("/")[2] if path.startswith("/api/") else ""
        body = send("GET", re.sub(r"\{id\}", ids.get(kind, ""), path))
        schema = item["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        for part in body if isinstance(body, list) else [body]:
            model_of(schema.get("items", schema)).model_validate(part)
        read += 1
for event in document["webhooks"].values():
    content = event["post"]["requestBody"]["content"]["application/json"]
    model_of(content["schema"]).model_validate(content["example"])
    read += 1
print(read)
