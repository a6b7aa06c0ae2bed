"""Events of the active workspace, for staying in sync without a webhook."""

from typing import NamedTuple

from flask import Blueprint, Response
from marshmallow import post_load

from service.api.event_types import EVENT_TYPES
from service.context import db
from service.values import Values, schemas
from service.values.types import MAX_REFERENCE, Boolean, Cursor, Field, Id, Limit, SomeOf, Text
from service.web.errors import http_error
from service.web.operation import operation
from service.web.responses import Body, reply

NEXT = "The cursor for the next request, even if the page is empty"

# The schemas of the events; openapi/events.py describes them.
EVENT = [{"$ref": f"#/components/schemas/{name}"} for name in ("WorkspaceEvent", "OtherEvent")]

blueprint = Blueprint("events", __name__)


class EventPage(schemas.Resource):
    data = Field(
        "The oldest events after the cursor",
        json_schema={
            "type": "array",
            "items": {"anyOf": EVENT, "description": "An event, as webhooks receive it"},
        },
    )
    next_cursor = Text(MAX_REFERENCE, NEXT)
    has_more = Boolean(
        "True if more events are ready: send the next request immediately. False if not: wait"
        " before you send the next request"
    )


class EventFilter(schemas.Query):
    after = Cursor(
        keyed=True,
        description="The nextCursor of an earlier response; opaque. If events after it may be"
        " missing, the response is 410. Without a cursor, the page is empty and its"
        " nextCursor marks the present",
    )
    limit = Limit(100, 500)
    type = SomeOf(
        *EVENT_TYPES,
        schema_name="EventType",
        description="Only events of one of these types",
    )
    about = Id("Only events about this task, meeting or suggestion: its history, as far as kept")
    actor_id = Id("Only events that this user caused; an id, or `me` (yourself)", words=("me",))

    @post_load
    def split_cursor(self, values: Values, **_: object) -> Values:
        after, history, _ = values.pop("after")
        return {**values, "after": after, "after_id": history}


class Feed(NamedTuple):
    # True once every change records an event; null for a caller without a workspace.
    ready: bool | None


class Settled(NamedTuple):
    """The position up to which no running or future transaction can add an event."""

    position: int


@blueprint.get("/events")
@operation(EventFilter(), EventPage, also=(409, 410))
def list_events(query: Values) -> Response:
    """List the events of the active workspace after a cursor, oldest first

    Without ``after`` the page is empty, and ``nextCursor`` marks the present. Take this cursor
    first, then list everything once, then poll with ``after``. While ``hasMore`` is true, send the
    next request immediately. You get every event, and the events of one object come in the order of
    its versions. If events since the cursor may be missing, the response is 410: take a new cursor
    without ``after``, then list everything.

    With ``type``, ``about`` or ``actorId``, each request searches the next 10 000 events, or fewer
    if they are very long. So a page can be empty although ``hasMore`` is true. A cursor goes on
    under other filters.
    """
    if query["after"] is None:
        feed = db.row(Feed, "events/begin")
        if feed.ready is None:
            raise http_error("no_workspace")
        if not feed.ready and not db.row(Feed, "events/await_older_releases").ready:
            raise http_error("unready_feed", retry_after=1)
    # This is a separate statement, because the page must be read with a later snapshot than the
    # position.
    settled = db.row(Settled, "events/settle").position
    page = db.row_or_none(Body, "events/list", settled=settled, **query)
    if page is None:
        raise http_error("cursor_gone")
    return reply(page.body)
