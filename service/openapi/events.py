"""The part of the document about events, in webhooks and in the feed. Only webhooks get pings.

``events.json`` has what does not depend on the type of an event. Its ``x-internal`` keeps
openapi-generator from making functions that send events, and that do not compile.
"""

import json
from pathlib import Path

from service.api.event_types import EVENT_TYPES, EventType
from service.openapi.json_schema import JSON, Schemas, with_defaults
from service.openapi.operations import Examples
from service.values.schemas import Resource

# A ping has no data.
PING = EventType("A user tested the webhook with POST …/ping", Resource)
WEBHOOKS = {**EVENT_TYPES, "ping": PING}

SHARED = Path(__file__).with_suffix(".json").read_bytes()
DATA = "The object after the event, as the API returns it; after a deletion, its last state"


def words(name: str) -> str:
    return name.title().replace(".", "")


def event(name: str, schemas: Schemas) -> JSON:
    shared = json.loads(SHARED)
    schema = shared["event"]
    members = schema["properties"]
    members["type"]["const"] = name
    if kind := EVENT_TYPES.get(name):
        members["data"] = {**schemas.response(kind.data), "description": DATA}
        if kind.is_update:
            del members["previous"]["type"]
            members["previous"].update(schemas.some_members(kind.data))
            for member, description in shared["update"].items():
                members[member]["description"] = description
    return schemas.refer(f"{words(name)}Event", schema)


def example_of(name: str, examples: Examples) -> JSON:
    shown = examples["events"][name]
    return {**shown, "data": with_defaults(shown["data"], WEBHOOKS[name].data)}


def feed(schemas: Schemas, examples: Examples) -> None:
    """Add the schemas of the events of the feed, and an example of a page.

    The schema for events of later releases has no properties. Therefore the type that
    openapi-typescript makes of it is excluded once a program has compared ``type`` with a known
    type, and the compiler then knows the type of ``data``.
    """
    shared = json.loads(SHARED)
    shown = [example_of("meeting.updated", examples)]
    examples["responses"]["listEvents"] = {"data": shown, **shared["page"]}
    mapping = {name: event(name, schemas)["$ref"] for name in EVENT_TYPES}
    schemas.refer(
        "WorkspaceEvent",
        {
            "anyOf": [{"$ref": reference} for reference in mapping.values()],
            "discriminator": {"propertyName": "type", "mapping": mapping},
        },
    )
    # The values themselves, instead of a reference to the component EventType: FastMCP does not
    # resolve a reference below "not".
    shared["otherEvent"]["not"]["properties"]["type"]["enum"] = [*EVENT_TYPES]
    schemas.refer("OtherEvent", shared["otherEvent"])


def webhook(name: str, schemas: Schemas, examples: Examples) -> JSON:
    content = {"schema": event(name, schemas), "example": example_of(name, examples)}
    return {
        "post": {
            "operationId": f"on{words(name)}",
            "summary": WEBHOOKS[name].summary,
            "requestBody": {"required": True, "content": {"application/json": content}},
            **json.loads(SHARED)["webhook"],
        }
    }
