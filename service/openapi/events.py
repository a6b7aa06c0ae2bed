"""The six events (specification section 6), as the published contract shows them to receivers."""

from typing import Any

from service.api.meetings import MeetingDetails
from service.api.suggestions import Suggestion
from service.api.tasks import Task
from service.openapi.json_schema import Schemas, object_of
from service.openapi.operations import refer
from service.schemas import Resource

EVENTS: dict[str, tuple[type[Resource], str]] = {
    "task.created": (Task, "A task was created"),
    "task.updated": (Task, "A task was updated"),
    "task.deleted": (Task, "A task was deleted; data is its last state"),
    "meeting.created": (MeetingDetails, "A meeting was created"),
    "meeting.completed": (MeetingDetails, "A meeting was completed"),
    "ai.suggestion.created": (Suggestion, "An AI suggestion was created"),
}

HEADERS = "X-Service-Signature", "webhook-id", "webhook-timestamp", "webhook-signature"

RESPONSES = {
    "2XX": {"description": "Received; redirects and all other responses count as failures"},
    "410": {"description": "Gone: the webhook is disabled"},
    "default": {"description": "Not received: it is retried later; Retry-After counts"},
}


def webhook(name: str, schemas: Schemas, examples: dict[str, Any]) -> dict[str, Any]:
    """The request that the receivers of an event get."""
    resource, summary = EVENTS[name]
    envelope = {
        "id": {"type": "string", "pattern": "^evt_[0-9a-f]{32}$"},
        "type": {"type": "string", "const": name},
        "timestamp": {"type": "string", "format": "date-time"},
        "workspaceId": {"type": "string", "format": "uuid"},
        "data": schemas.response(resource),
    }
    words = name.title().replace(".", "")
    event = schemas.refer(f"{words}Event", object_of(envelope, list(envelope)))
    content = {"schema": event, "example": examples[name]}
    return {
        "post": {
            "operationId": f"on{words}",
            "summary": summary,
            "tags": ["webhooks"],
            "security": [],
            # Clients do not send events. Without this, openapi-generator makes calls of them that
            # do not compile.
            "x-internal": True,
            "parameters": list(refer("parameters", *HEADERS).values()),
            "requestBody": {"required": True, "content": {"application/json": content}},
            "responses": RESPONSES,
        }
    }
