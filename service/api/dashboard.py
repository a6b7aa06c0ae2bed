"""Counts for the dashboard of a workspace."""

from flask import Blueprint, Response

from service.api.tasks import PRIORITIES, STATUSES
from service.context import db
from service.database.statements import NotFound
from service.values import Values, schemas
from service.values.types import Id, Nested, ReadOnlyInteger, Timestamp
from service.web.operation import operation
from service.web.responses import Body, reply

blueprint = Blueprint("dashboard", __name__)


def figures(name: str, description: str, counts: dict[str, str], **nested: Nested) -> Nested:
    """Return a field whose value is an object of counts.

    ``counts`` maps the name of each count to its description. ``name`` is the name of the object's
    schema in the document.
    """
    members = {count: ReadOnlyInteger(counts[count]) for count in counts}
    schema = schemas.Resource.from_dict({**members, **nested}, name=name)
    return Nested(schema, description)


class DashboardStats(schemas.Resource):
    workspace_id = Id("The workspace that was counted")
    generated_at = Timestamp("When the service counted")
    tasks = figures(
        "TaskCounts",
        "The tasks",
        {
            "total": "All tasks",
            **{status: f"Tasks with the status {status}" for status in STATUSES},
            "overdue": "Open tasks whose due date has passed",
            "due_today": "Open tasks due today, in the workspace's timezone",
        },
        by_priority=figures(
            "PriorityCounts",
            "All tasks, by priority",
            {priority: f"Tasks with the priority {priority}" for priority in PRIORITIES},
        ),
    )
    meetings = figures(
        "MeetingCounts",
        "The meetings",
        {
            "total": "All meetings",
            "upcoming": "Meetings that start in the future",
            "completed": "Meetings with the status completed",
        },
    )
    members = ReadOnlyInteger("The members of the workspace")
    mail = figures("MailCounts", "Your mail", {"unread": "E-mails that you have not read"})
    suggestions = figures(
        "SuggestionCounts", "The AI suggestions", {"pending": "Pending suggestions"}
    )


class StatsFilter(schemas.Query):
    only_workspace_id = Id(
        "The workspace to count; by default the active one. If you do not belong to it,"
        " the response is 404",
        data_key="workspaceId",
    )


@blueprint.get("/dashboard/stats")
@operation(StatsFilter(), DashboardStats)
def get_stats(query: Values) -> Response:
    """Count the tasks, meetings, members, unread mail and pending suggestions of a workspace

    Without ``workspaceId``, the service counts in your active workspace. All counts are from the
    same moment. ``dueToday`` uses the timezone of the workspace.
    """
    stats = db.row_or_none(Body, "dashboard/stats", **query)
    if stats is None:
        raise NotFound("workspace")
    return reply(stats.body)
