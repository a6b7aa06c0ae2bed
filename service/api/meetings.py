"""Meetings and their outcomes."""

from typing import NamedTuple

from flask import Blueprint, Response

from service import webhooks
from service.api.filters import filters_of, require_order
from service.context import current_request, current_state, db
from service.database.statements import to_json
from service.values import Values, schemas
from service.values.types import (
    MAX_TEXT,
    MAX_TITLE,
    METADATA,
    UPDATED_BY,
    VERSION,
    Bound,
    Cursor,
    Email,
    Id,
    Limit,
    NewId,
    OneOf,
    Pairs,
    StringList,
    Text,
    Timestamp,
    TrueOrFalse,
)
from service.web.operation import operation
from service.web.responses import (
    Changed,
    Created,
    One,
    reply,
    reply_created,
    reply_one,
    reply_page,
    require_match,
)
from service.web.safe_writes import expected_versions

PLATFORMS = "google_meet", "zoom", "teams", "in_person"
STATUSES = "scheduled", "completed"
DAY = (
    "; a day, like 2026-11-20, means its beginning in the active workspace's timezone, or in UTC if"
    " there is no active workspace"
)
COMPLETION = "A completed meeting stays completed"

blueprint = Blueprint("meetings", __name__)


class Meeting(schemas.Resource):
    """A meeting as lists show it."""

    optional: tuple[str, ...] = ("updated_by", "metadata")

    id = NewId("The id of the meeting", load_default=None, allow_none=False)
    workspace_id = Id("The workspace of the meeting", dump_only=True)
    title = Text(MAX_TITLE, "What the meeting is about", min=1, trim=True, required=True)
    start_time = Timestamp("When the meeting starts", required=True)
    end_time = Timestamp("When the meeting ends; must be after startTime", required=True)
    platform = OneOf(
        *PLATFORMS,
        schema_name="Platform",
        load_default=None,
        description="Where the meeting takes place",
    )
    attendees = StringList(
        Email(),
        200,
        "The e-mail addresses of the people invited",
        unique=True,
        load_default=list,
    )
    agenda = Text(MAX_TEXT, "Topics to discuss", load_default=None)
    notes = Text(MAX_TEXT, "Notes on the meeting", load_default=None)
    status = OneOf(*STATUSES, schema_name="MeetingStatus", dump_only=True, description=COMPLETION)
    created_by = Id("The user who created the meeting", dump_only=True)
    created_at = Timestamp("When the meeting was created", dump_only=True)
    updated_at = Timestamp("When the meeting was last changed", dump_only=True)
    version = VERSION
    updated_by = UPDATED_BY
    metadata = METADATA


class MeetingDetails(Meeting):
    """A single meeting. PATCH completes it, and only a completed meeting has an outcome."""

    optional = (*Meeting.optional, "summary", "action_items", "decisions")

    status = OneOf(*STATUSES, schema_name="MeetingStatus", description=COMPLETION)
    summary = Text(MAX_TEXT, "The outcome of a completed meeting", allow_none=True)
    action_items = StringList(Text(2000, min=1), 200, "What to do after a completed meeting")
    decisions = StringList(Text(2000, min=1), 200, "What a completed meeting decided")


class MeetingFilter(schemas.PageQuery):
    upcoming = TrueOrFalse(
        "True: only meetings that start in the future, soonest first", load_default=False
    )
    only_workspace_id = Id(
        "Only meetings of this workspace; by default meetings of all your workspaces",
        data_key="workspaceId",
    )
    starts_from = Bound(f"Only meetings that start at this time or later{DAY}", data_key="from")
    starts_before = Bound(f"Only meetings that start before this time{DAY}", data_key="to")
    metadata = Pairs("Only meetings whose metadata has these pairs, like `metadata[ticket]=42`")
    limit = Limit(20, 100)
    cursor = Cursor(keyed=True, across_workspaces=True)


@blueprint.get("/meetings")
@operation(MeetingFilter(), Meeting, kind="page")
def list_meetings(query: Values) -> Response:
    """List meetings of all your workspaces, or of one

    The meeting that starts latest comes first. With ``upcoming``, the meeting that starts soonest
    comes first. If you do not belong to the workspace in ``workspaceId``, the list is empty. With
    ``metadata``, each request searches the next 10 000 meetings, or fewer if their metadata is very
    long. So a page can be empty although ``nextCursor`` is not null.
    """
    statement = "meetings/upcoming" if query["upcoming"] else "meetings/list"
    if query["metadata"]:
        statement = "meetings/search"
    require_order("from", "start_bounds", query["starts_from"], query["starts_before"])
    return reply_page(db.page(statement, **query, filters=filters_of(query)))


@blueprint.post("/meetings")
@operation(Meeting(), MeetingDetails, 201, idempotent="workspace", kind="versioned")
def create_meeting(meeting: Values) -> Response:
    """Create a meeting in the active workspace

    ``title``, ``startTime`` and ``endTime`` are required. A meeting must end after it starts. The
    service sends the event ``meeting.created``.
    """
    created = db.row(Created, "meetings/create", **meeting)
    webhooks.post_before_response(created.event_id)
    return reply_created(created)


@blueprint.get("/meetings/<id:id>")
@operation(response=MeetingDetails, kind="versioned")
def get_meeting(id: str) -> Response:
    """Return a meeting, with summary, action items and decisions if it is completed

    A meeting that is not completed does not have these three fields. If several of your
    workspaces have a meeting with this id, GET returns the meeting of your active workspace, or
    else of the oldest workspace. PATCH and DELETE use the meeting of the workspace that
    ``Workspace-Id`` or the token names. If neither names one, they use the meeting of your active
    workspace, and get 404 if it was deleted there. If your active workspace never had one, and
    several others do, the response is 409.
    """
    return reply_one(db.row(One, "meetings/get", id=id))


def named_workspace() -> object:
    """Return the id of the workspace that the request or its token names; None without one."""
    caller = current_state().caller
    names = "HTTP_WORKSPACE_ID" in current_request().environ
    return caller["workspace_id" if names else "token_workspace_id"]


@blueprint.patch("/meetings/<id:id>")
@operation(
    MeetingDetails(partial=True, dump_only=["id"]),
    MeetingDetails,
    idempotent="workspace",
    kind="versioned",
)
def update_meeting(changes: Values, id: str) -> Response:
    """Change some fields of a meeting; null clears a field (RFC 7396)

    Absent fields keep their values. A completed meeting stays completed. Only a completed meeting
    can have ``summary``, ``actionItems`` and ``decisions``. If the request completes the meeting,
    the service sends the event ``meeting.completed``; for any other change it sends
    ``meeting.updated``. The service ignores read-only fields.
    """
    meeting = db.row(
        Changed,
        "meetings/update",
        id=id,
        in_workspace_id=named_workspace(),
        changes=to_json(changes),
        versions=expected_versions(),
    )
    require_match(meeting)
    webhooks.post_before_response(meeting.event_id)
    return reply_one(meeting)


class DeletedMeeting(NamedTuple):
    version: int
    matched: bool
    # The meeting, if ``matched`` is false; otherwise null.
    body: bytes | None
    event_id: str | None


@blueprint.delete("/meetings/<id:id>")
@operation(status=204, idempotent="workspace", kind="versioned")
def delete_meeting(id: str) -> Response:
    """Delete a meeting permanently

    The service sends the event ``meeting.deleted``.
    """
    deleted = db.row(
        DeletedMeeting,
        "meetings/delete",
        id=id,
        in_workspace_id=named_workspace(),
        versions=expected_versions(),
    )
    require_match(deleted)
    webhooks.post_before_response(deleted.event_id)
    return reply(None, 204)
