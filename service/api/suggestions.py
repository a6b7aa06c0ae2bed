"""Pending AI suggestions."""

from flask import Blueprint, Response

from service.context import db
from service.values import Values, schemas, types
from service.web.operation import operation
from service.web.responses import Page, reply_page

KIND: Values = {
    "description": "What the AI suggests",
    "json_schema": {"examples": ["task", "due_date", "assignee"]},
}
STATUSES = "pending", "accepted", "dismissed"

suggestions = Blueprint("suggestions", __name__)


class Suggestion(schemas.Resource):
    """A suggestion by the AI. Only the command ``load`` creates suggestions."""

    id = types.Id(description="The id of the suggestion")
    kind = types.Text(types.MAX_REFERENCE, min=1, required=True, **KIND)
    title = types.Text(
        types.MAX_TITLE, min=1, trim=True, required=True, description="The suggestion in brief"
    )
    body = types.Text(types.MAX_TEXT, load_default=None, description="Details")
    task_id = types.Id(
        load_default=None, description="The task that the suggestion is about, or null"
    )
    status = types.OneOf(
        *STATUSES,
        schema_name="SuggestionStatus",
        load_default="pending",
        description="Whether a user has accepted or dismissed the suggestion",
    )
    created_at = types.Timestamp(description="When the suggestion was created")


@suggestions.get("/ai/suggestions")
@operation(schemas.PageQuery(), Suggestion, kind="page")
def list_suggestions(query: Values) -> Response:
    """List the pending suggestions of the active workspace, newest first

    The list omits accepted and dismissed suggestions.
    """
    return reply_page(db.row(Page, "suggestions/list", **query))
