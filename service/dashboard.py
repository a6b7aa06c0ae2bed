"""Dashboard: the figures of one workspace."""

from service import db
from service.fields import Id, Query
from service.inputs import Blueprint
from service.replies import reply

dashboard = Blueprint("dashboard", "Figures of a workspace")


class StatsFilter(Query):
    only_workspace_id = Id(data_key="workspaceId", load_default=None)


@dashboard.get("/dashboard/stats")
@dashboard.arguments(StatsFilter, location="query")
def get_stats(wanted):
    """Count the tasks, meetings, members, unread mail and pending suggestions of a workspace"""
    return reply(db.one("dashboard/stats", **wanted).body)
