"""Pending AI suggestions."""

from flask import Blueprint, Response

from service.context import db
from service.values import Values, schemas
from service.values.types import MAX_REFERENCE, MAX_TEXT, MAX_TITLE, Id, OneOf, Text, Timestamp
from service.web.operation import operation
from service.web.responses import reply_page

STATUSES = "pending", "accepted", "dismissed"

blueprint = Blueprint("suggestions", __name__)


class Suggestion(schemas.Resource):
    """A suggestion by the AI. Only the command ``load`` creates suggestions."""

    id = Id("The id of the suggestion")
    kind = Text(
        MAX_REFERENCE,
        "What the AI suggests",
        min=1,
        required=True,
        json_schema={"examples": ["task", "due_date", "assignee"]},
    )
    title = Text(MAX_TITLE, "The suggestion in brief", min=1, trim=True, required=True)
    body = Text(MAX_TEXT, "Details", load_default=None)
    task_id = Id("The task that the suggestion is about, or null", load_default=None)
    status = OneOf(
        *STATUSES,
        schema_name="SuggestionStatus",
        load_default="pending",
        description="Whether a user has accepted or dismissed the suggestion",
    )
    created_at = Timestamp("When the suggestion was created")


@blueprint.get("/ai/suggestions")
@operation(schemas.PageQuery(), Suggestion, kind="page")
def list_suggestions(query: Values) -> Response:
    """List the pending suggestions of the active workspace, newest first

    The list omits accepted and dismissed suggestions.
    """
    return reply_page(db.page("suggestions/list", **query))
