"""Meetings: list those of all the caller's workspaces; create, read, change and complete them."""

from service import db, webhooks
from service.fields import (
    ADDRESS,
    TEXT,
    TITLE,
    Address,
    Body,
    Choice,
    Cursor,
    Flag,
    Id,
    Limit,
    Moment,
    Query,
    Text,
    Texts,
)
from service.inputs import Blueprint
from service.preconditions import expected_versions, idempotent, reply_one
from service.replies import reply_page
from service.shapes import Shape, answers, moment, text, texts, uuid, whole, word

PLATFORMS = "google_meet", "zoom", "teams", "in_person"

meetings = Blueprint("meetings", "Meetings and what came of them")


class Meeting(Shape):
    id = uuid()
    workspace_id = uuid()
    title = text(TITLE, 1)
    start_time = moment()
    end_time = moment()
    platform = word(*PLATFORMS, null=True)
    attendees = texts(200, ADDRESS)
    agenda = text(TEXT, null=True)
    notes = text(TEXT, null=True)
    status = word("scheduled", "completed")
    created_by = uuid()
    created_at = moment()
    updated_at = moment()
    version = whole(1)


class MeetingDetails(Meeting):
    """A meeting by itself: with its outcome once it is completed."""

    sometimes = "summary", "action_items", "decisions"

    summary = text(TEXT, null=True)
    action_items = texts(200, 2000)
    decisions = texts(200, 2000)


class NewMeeting(Body):
    title = Text(TITLE, 1, trim=True, required=True)
    start_time = Moment(required=True)
    end_time = Moment(required=True)
    platform = Choice(*PLATFORMS, allow_none=True, load_default=None)
    attendees = Texts(Address(), 200, distinct=True, load_default=list)
    agenda = Text(TEXT, allow_none=True, load_default=None)
    notes = Text(TEXT, allow_none=True, load_default=None)


class MeetingChanges(NewMeeting):
    """Any of a meeting's fields; ``status`` completes it, and only then it can have an outcome."""

    status = Choice("completed")
    summary = Text(TEXT, allow_none=True)
    action_items = Texts(Text(2000, 1), 200)
    decisions = Texts(Text(2000, 1), 200)


class MeetingFilter(Query):
    upcoming = Flag(load_default=False)
    only_workspace_id = Id(data_key="workspaceId", load_default=None)
    limit = Limit(20, 100)
    cursor = Cursor(keyed=True)


@meetings.get("/meetings")
@meetings.arguments(MeetingFilter, location="query")
@answers(Meeting, form="page")
def list_meetings(wanted):
    """List meetings of all workspaces or of one: latest start first, upcoming ones soonest first"""
    after, after_id = wanted.pop("cursor")
    statement = "meetings/upcoming" if wanted.pop("upcoming") else "meetings/list"
    return reply_page(db.row(statement, after=after, after_id=after_id, **wanted))


@meetings.post("/meetings")
@meetings.arguments(NewMeeting)
@idempotent
@answers(MeetingDetails, 201)
def create_meeting(meeting):
    """Create a meeting in the active workspace"""
    created = db.row("meetings/create", **meeting)
    webhooks.announce(created.event_id)
    return reply_one(created, 201, {"Location": f"/api/meetings/{created.id}"})


@meetings.get("/meetings/<id:id>")
@answers(MeetingDetails)
def get_meeting(id):
    """Read one meeting, with its summary, action items and decisions once it is completed"""
    return reply_one(db.one("meetings/get", id=id))


@meetings.patch("/meetings/<id:id>")
@meetings.arguments(MeetingChanges(partial=True))
@idempotent
@answers(MeetingDetails)
def update_meeting(changes, id):
    """Change some fields of a meeting; null clears one (RFC 7396)"""
    meeting = db.one(
        "meetings/update", id=id, changes=db.document(changes), versions=expected_versions()
    )
    webhooks.announce(meeting.event_id)
    return reply_one(meeting)
