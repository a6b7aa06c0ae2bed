"""Dashboard: the figures of one workspace."""

from marshmallow import fields

from service import db
from service.errors import NotHere
from service.fields import Id, Query
from service.inputs import Blueprint
from service.replies import reply
from service.shapes import Shape, answers, moment, uuid, whole

dashboard = Blueprint("dashboard", "Figures of a workspace")


class Priorities(Shape):
    urgent = whole()
    high = whole()
    medium = whole()
    low = whole()


class TaskFigures(Shape):
    total = whole()
    todo = whole()
    in_progress = whole()
    done = whole()
    overdue = whole()
    due_today = whole()
    by_priority = fields.Nested(Priorities)


class MeetingFigures(Shape):
    total = whole()
    upcoming = whole()
    completed = whole()


class MailFigures(Shape):
    unread = whole()


class SuggestionFigures(Shape):
    pending = whole()


class Stats(Shape):
    workspace_id = uuid()
    generated_at = moment()
    tasks = fields.Nested(TaskFigures)
    meetings = fields.Nested(MeetingFigures)
    members = whole()
    mail = fields.Nested(MailFigures)
    suggestions = fields.Nested(SuggestionFigures)


class StatsFilter(Query):
    only_workspace_id = Id(data_key="workspaceId", load_default=None)


@dashboard.get("/dashboard/stats")
@dashboard.arguments(StatsFilter, location="query")
@answers(Stats, form="figures", also=(404,))
def get_stats(wanted):
    """Count the tasks, meetings, members, unread mail and pending suggestions of a workspace"""
    stats = db.row("dashboard/stats", **wanted)
    if stats is None:
        raise NotHere("workspaces")
    return reply(stats.body)
