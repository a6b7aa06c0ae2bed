"""The part of the document about events, in webhooks and in the feed. Only webhooks get pings."""

from service.api.event_types import EVENT_TYPES
from service.openapi.json_schema import JSON, Schemas, object_of, with_defaults
from service.openapi.operations import Examples, refer

# The summary of each webhook.
WEBHOOKS = {name: kind.summary for name, kind in EVENT_TYPES.items()}
WEBHOOKS["ping"] = "A user tested the webhook with POST …/ping"

HEADERS = "X-Service-Signature", "webhook-id", "webhook-timestamp", "webhook-signature"

ACTOR = "The user who made the request, even with an API token; null for commands of the operator"
CHANGED = (
    "The members of data that an update changed, in the order of data, without updatedAt and"
    " version, which every update changes, and without updatedBy. Empty for all other events"
)
PREVIOUS = (
    "For an update, the old values of the members in changed, and nothing else. Empty for all other"
    " events. Events from before release 1.1.0 lack it"
)

RESPONSES = {
    "2XX": {"description": "Received. Any other response, including a redirect, is a failure"},
    "410": {"description": "Gone: the service disables the webhook"},
    "default": {
        "description": "Failed: the service retries later. If the response has Retry-After, the"
        " service waits that long"
    },
}


def words(name: str) -> str:
    return name.title().replace(".", "")


def event(name: str, schemas: Schemas) -> JSON:
    data: JSON = {"type": "object", "description": "Empty"}
    previous: JSON = {"type": "object"}
    kind = EVENT_TYPES.get(name)
    if kind:
        about = (
            "The object after the event, as the API returns it; after a deletion, its last state"
        )
        data = {**schemas.response(kind.data), "description": about}
    if kind and kind.is_update:
        previous = schemas.some_members(kind.data)
    envelope: dict[str, JSON] = {
        "id": {
            "type": "string",
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
        "actorId": {"type": ["string", "null"], "format": "uuid", "description": ACTOR},
        "changed": {"type": "array", "items": {"type": "string"}, "description": CHANGED},
        "data": data,
    }
    required = [*envelope]
    envelope["previous"] = {**previous, "description": PREVIOUS}
    return schemas.refer(f"{words(name)}Event", object_of(envelope, required))


def example_of(name: str, examples: Examples) -> JSON:
    shown = examples.events[name]
    schema = EVENT_TYPES[name].data if name in EVENT_TYPES else None
    return {**shown, "data": with_defaults(shown["data"], schema)}


def feed(schemas: Schemas, examples: Examples) -> None:
    """Add the schemas of the events of the feed, and an example of a page.

    The schema for events of later releases has no properties. Therefore the type that
    openapi-typescript makes of it is excluded once a program has compared ``type`` with a known
    type, and the compiler then knows the type of ``data``.
    """
    examples.responses["listEvents"] = {
        "data": [example_of("meeting.updated", examples)],
        "nextCursor": "4711.5f0d8a1cbe2a4c7e9d3b6f8a0c1e2d4f",
        "hasMore": False,
    }
    # The values themselves, instead of a reference to the component EventType: FastMCP does not
    # resolve a reference below "not".
    known = {"enum": [*EVENT_TYPES], "description": "A type of this release"}
    described = {name: event(name, schemas) for name in EVENT_TYPES}
    mapping = {name: schema["$ref"] for name, schema in described.items()}
    schemas.refer(
        "WorkspaceEvent",
        {
            "anyOf": [*described.values()],
            "discriminator": {"propertyName": "type", "mapping": mapping},
        },
    )
    schemas.refer(
        "OtherEvent",
        {
            "type": "object",
            "description": "An event of a later release: ignore it",
            "required": ["id", "type"],
            "not": {"properties": {"type": known}},
        },
    )


def webhook(name: str, schemas: Schemas, examples: Examples) -> JSON:
    content = {"schema": event(name, schemas), "example": example_of(name, examples)}
    return {
        "post": {
            "operationId": f"on{words(name)}",
            "summary": WEBHOOKS[name],
            "tags": ["webhooks"],
            "security": [],
            # Without this, openapi-generator would make functions that send events, and that do not
            # compile.
            "x-internal": True,
            "parameters": list(refer("parameters", *HEADERS).values()),
            "requestBody": {"required": True, "content": {"application/json": content}},
            "responses": RESPONSES,
        }
    }
