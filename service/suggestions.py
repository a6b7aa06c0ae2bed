"""AI suggestions that nobody has decided yet."""

from service import db
from service.fields import REFERENCE, TEXT, TITLE, Page
from service.inputs import Blueprint
from service.replies import reply_page
from service.shapes import Shape, answers, moment, text, uuid, word

suggestions = Blueprint("suggestions", "Pending AI suggestions")


class Suggestion(Shape):
    id = uuid()
    kind = text(REFERENCE, 1)
    title = text(TITLE, 1)
    body = text(TEXT, null=True)
    task_id = uuid(null=True)
    status = word("pending", "accepted", "dismissed")
    created_at = moment()


@suggestions.get("/ai/suggestions")
@suggestions.arguments(Page, location="query")
@answers(Suggestion, form="page")
def list_suggestions(wanted):
    """List the pending suggestions of the active workspace, newest first"""
    _, after_id = wanted["cursor"]
    return reply_page(db.row("suggestions/list", after_id=after_id, limit=wanted["limit"]))
