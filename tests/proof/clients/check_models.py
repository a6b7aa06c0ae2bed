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

URL, TOKEN, COOKIE = os.environ["URL"], os.environ["TOKEN"], os.environ["COOKIE"]


def send(method: str, path: str, body: BaseModel | None = None, *, session: bool = False) -> Any:
    content = body.model_dump_json(exclude_unset=True).encode() if body else None
    headers = {"Content-Type": "application/json"}
    headers |= {"Cookie": f"session={COOKIE}"} if session else {"Authorization": f"Bearer {TOKEN}"}
    with urlopen(Request(URL + path, content, headers, method=method)) as response:
        return json.load(response)


def model_of(schema: dict[str, Any]) -> type[BaseModel]:
    model: type[BaseModel] = getattr(models, schema["$ref"].rpartition("/")[2])
    return model


webhook_id = send("POST", "/api/webhooks", models.WebhookInput(url=os.environ["HOOK"]))["id"]
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

(delivery, *_) = send("GET", f"/api/webhooks/{webhook_id}/deliveries")["data"]

document = send("GET", "/openapi.json")
read = 0
for path, item in document["paths"].items():
    if "get" in item and path != "/openapi.json":
        ids = {
            "tasks": str(task.id),
            "meetings": meeting_id,
            "workspaces": workspace_id,
            "webhooks": webhook_id,
        }
        kind = path.split("/")[2] if path.startswith("/api/") else ""
        path = re.sub(r"\{id\}", ids.get(kind, ""), path).replace("{delivery}", delivery["id"])
        session = item["get"].get("security") == [{"session": []}]
        body = send("GET", path, session=session)
        schema = item["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        for part in body if isinstance(body, list) else [body]:
            model_of(schema.get("items", schema)).model_validate(part)
        read += 1
for event in document["webhooks"].values():
    content = event["post"]["requestBody"]["content"]["application/json"]
    model_of(content["schema"]).model_validate(content["example"])
    read += 1
print(read)
