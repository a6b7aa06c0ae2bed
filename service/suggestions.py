"""AI suggestions that nobody has decided yet."""

from service import db
from service.fields import Page
from service.inputs import Blueprint
from service.replies import reply_page

suggestions = Blueprint("suggestions", "Pending AI suggestions")


@suggestions.get("/ai/suggestions")
@suggestions.arguments(Page, location="query")
def list_suggestions(wanted):
    """List the pending suggestions of the active workspace, newest first"""
    _, after_id = wanted["cursor"]
    return reply_page(db.row("suggestions/list", after_id=after_id, limit=wanted["limit"]))
