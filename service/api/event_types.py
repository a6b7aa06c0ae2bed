"""The types of events.

docs/specification.md, section 6, requires all of them except ``meeting.updated`` and
``meeting.deleted``. With these two, a client can keep a copy of the meetings.
"""

from typing import NamedTuple

from service.api.meetings import MeetingDetails
from service.api.suggestions import Suggestion
from service.api.tasks import Task
from service.values.schemas import Resource


class EventType(NamedTuple):
    # The summary of its webhook in the document.
    summary: str
    # The schema of its data.
    data: type[Resource]
    # Whether the event says what has changed, and has the old values.
    is_update: bool = False


EVENT_TYPES = {
    "task.created": EventType("A task was created", Task),
    "task.updated": EventType("A task was changed", Task, is_update=True),
    "task.deleted": EventType("A task was deleted; data is the last state of the task", Task),
    "meeting.created": EventType("A meeting was created", MeetingDetails),
    "meeting.updated": EventType(
        "A meeting was changed, but not completed", MeetingDetails, is_update=True
    ),
    "meeting.completed": EventType("A meeting was completed", MeetingDetails, is_update=True),
    "meeting.deleted": EventType(
        "A meeting was deleted; data is the last state of the meeting", MeetingDetails
    ),
    "ai.suggestion.created": EventType("An AI suggestion was created", Suggestion),
}
