"""Figures of a workspace."""

from flask import Blueprint, Response
from marshmallow.fields import Nested

from service import db, fields, schemas
from service.api.tasks import PRIORITIES, STATUSES
from service.http.requests import Values, arguments
from service.http.responses import Body, reply, response

dashboard = Blueprint("dashboard", __name__)


def figures(name: str, *counts: str, **nested: Nested) -> Nested:
    """Return the field of an object of counts; ``name`` names its schema in the document."""
    members = {count: fields.Integer() for count in counts}
    return Nested(schemas.Resource.from_dict({**members, **nested}, name=name))


class DashboardStats(schemas.Resource):
    """The figures of one workspace, all counted at one moment."""

    workspace_id = fields.Id(dump_only=True)
    generated_at = fields.Timestamp(dump_only=True)
    tasks = figures(
        "TaskCounts",
        *("total", *STATUSES, "overdue", "due_today"),
        by_priority=figures("PriorityCounts", *PRIORITIES),
    )
    meetings = figures("MeetingCounts", "total", "upcoming", "completed")
    members = fields.Integer()
    mail = figures("MailCounts", "unread")
    suggestions = figures("SuggestionCounts", "pending")


class StatsFilter(schemas.Query):
    """The query of the figures."""

    only_workspace_id = fields.Id(data_key="workspaceId", load_default=None)


@dashboard.get("/dashboard/stats")
@arguments(StatsFilter())
@response(DashboardStats, kind="object", also=(404,))
def get_stats(query: Values) -> Response:
    """Count the tasks, meetings, members, unread mail and pending suggestions of a workspace

    ``workspaceId`` selects the workspace; without it, your active workspace is counted. All counts
    are of one moment. ``dueToday`` counts the current day in the timezone of the workspace.
    """
    stats = db.row_or_none(Body, "dashboard/stats", **query)
    if stats is None:
        raise db.NotFound("workspace")
    return reply(stats.body)
