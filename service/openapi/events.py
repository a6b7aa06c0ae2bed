"""The webhooks of the document: the events of docs/specification.md, section 6, and ping."""

from service.api.meetings import MeetingDetails
from service.api.suggestions import Suggestion
from service.api.tasks import Task
from service.openapi.json_schema import JSON, Schemas, object_of, with_nulls
from service.openapi.operations import refer
from service.values.schemas import Resource

# Each event with its summary and the schema of its data, or None if the data is empty.
EVENTS: dict[str, tuple[type[Resource] | None, str]] = {
    "task.created": (Task, "A task was created"),
    "task.updated": (Task, "A task was updated"),
    "task.deleted": (Task, "A task was deleted; data is its last state"),
    "meeting.created": (MeetingDetails, "A meeting was created"),
    "meeting.updated": (MeetingDetails, "A meeting was changed, but not completed"),
    "meeting.completed": (MeetingDetails, "A meeting was completed"),
    "meeting.deleted": (MeetingDetails, "A meeting was deleted; data is its last state"),
    "ai.suggestion.created": (Suggestion, "An AI suggestion was created"),
    "ping": (None, "A user tested the webhook with POST …/ping"),
}

HEADERS = "X-Service-Signature", "webhook-id", "webhook-timestamp", "webhook-signature"

RESPONSES = {
    "2XX": {"description": "Received; redirects and all other responses count as failures"},
    "410": {"description": "Gone: the service disables the webhook"},
    "default": {
        "description": "Failed: the service retries later, after Retry-After if the response has it"
    },
}


def webhook(name: str, schemas: Schemas, examples: dict[str, JSON]) -> JSON:
    resource, summary = EVENTS[name]
    data: JSON = {"type": "object", "description": "Empty"}
    if resource:
        about = "The object after the event, as the API returns it; if deleted, its last state"
        data = {**schemas.response(resource), "description": about}
    envelope: dict[str, JSON] = {
        "id": {
            "type": "string",
            "pattern": "^evt_[0-9a-f]{32}$",
            "description": "The id of the event, as in the header webhook-id",
        },
        "type": {"type": "string", "const": name, "description": "The type of the event"},
        "timestamp": {
            "type": "string",
            "format": "date-time",
            "description": "When the event occurred",
        },
        "workspaceId": {
            "type": "string",
            "format": "uuid",
            "description": "The workspace of the event",
        },
        "data": data,
    }
    example = {**examples[name], "data": with_nulls(examples[name]["data"], resource)}
    words = name.title().replace(".", "")
    event = schemas.refer(f"{words}Event", object_of(envelope, list(envelope)))
    return {
        "post": {
            "operationId": f"on{words}",
            "summary": summary,
            "tags": ["webhooks"],
            "security": [],
            # Otherwise openapi-generator makes functions that send events, and they do not compile.
            "x-internal": True,
            "parameters": list(refer("parameters", *HEADERS).values()),
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": event, "example": example}},
            },
            "responses": RESPONSES,
        }
    }
