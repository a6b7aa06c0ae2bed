"""The six events of the specification (section 6), as the published contract shows them to receivers."""

from service.contract import ID, parameter, pointer

EVENTS = {
    "task.created": ("Task", "A task was created"),
    "task.updated": ("Task", "A task was changed"),
    "task.deleted": ("Task", "A task was deleted; data is its last state"),
    "meeting.created": ("MeetingDetails", "A meeting was created"),
    "meeting.completed": ("MeetingDetails", "A meeting was completed"),
    "ai.suggestion.created": ("Suggestion", "An AI suggestion was created"),
}

SIGNATURES = (
    parameter(
        "X-Service-Signature",
        "Lowercase hex HMAC-SHA256 of the body, key: the secret as shown. For 24 hours after a"
        " rotation two, the newest first",
        required=True,
        pattern="^[0-9a-f]{64}(, [0-9a-f]{64})*$",
    ),
    parameter("webhook-id", "The id of the event; a repeat has the same", required=True),
    parameter(
        "webhook-timestamp",
        "When this attempt was made: seconds since 1970",
        required=True,
        pattern="^[0-9]+$",
    ),
    parameter(
        "webhook-signature",
        "The signature of Standard Webhooks, of id, timestamp and body",
        required=True,
        pattern="^v1,[A-Za-z0-9+/]{43}=( v1,[A-Za-z0-9+/]{43}=)*$",
    ),
)

RECEIVED = {
    "2XX": {"description": "Received; redirects and all other answers count as failures"},
    "410": {"description": "Gone: the webhook is disabled"},
    "default": {
        "description": "Not received: it is sent again, later and later; Retry-After counts"
    },
}


def webhook(name, examples):
    """What receivers of an event are sent."""
    shape, text = EVENTS[name]
    return {
        "post": {
            "operationId": "on" + name.title().replace(".", ""),
            "summary": text,
            "tags": ["webhooks"],
            "security": [],
            "parameters": list(SIGNATURES),
            "requestBody": {
                "required": True,
                "content": {
                    "application/json": {
                        "schema": message(name, pointer("schemas", shape)),
                        "example": examples[name],
                    }
                },
            },
            "responses": RECEIVED,
        }
    }


def message(name, shape):
    """The envelope around a resource."""
    properties = {
        "id": {"type": "string", "pattern": "^evt_[0-9a-f]{32}$"},
        "type": {"type": "string", "const": name},
        "timestamp": {"type": "string", "format": "date-time"},
        "workspaceId": ID,
        "data": shape,
    }
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(properties),
        "properties": properties,
    }
