"""Knowledge base entries."""

from flask import Blueprint, Response

from service.database import db
from service.http.requests import Values, arguments
from service.http.responses import Page, reply_page, response
from service.values import fields, schemas

knowledge = Blueprint("knowledge", __name__)


class Knowledge(schemas.Resource):
    """An entry of the knowledge base. Only the command ``load`` creates entries."""

    id = fields.Id(description="The id of the entry")
    title = fields.Text(
        fields.MAX_TITLE, min=1, trim=True, required=True, description="What the entry is about"
    )
    content = fields.Text(fields.MAX_TEXT, load_default="", description="The text of the entry")
    tags = fields.StringList(
        fields.Text(fields.MAX_NAME, min=1), 50, load_default=list, description="Keywords"
    )
    created_at = fields.Timestamp(description="When the entry was created")
    updated_at = fields.Timestamp(description="When the entry was last changed")


class KnowledgeFilter(schemas.PageQuery):
    q = fields.Text(
        fields.MAX_TITLE,
        load_default=None,
        description="Words and phrases in double quotes to search for; - before a word excludes it",
    )
    cursor = fields.Cursor(keyed=True)


@knowledge.get("/knowledge")
@arguments(KnowledgeFilter())
@response(Knowledge, kind="page")
def list_knowledge(query: Values) -> Response:
    """List or search the knowledge entries of the active workspace

    Without ``q``, the newest entries come first. With ``q``, the best matches come first, but if
    more than 5 000 entries match, the newest matches come first.
    """
    if query["q"] is None:
        return reply_page(db.row(Page, "knowledge/list", **query))
    return reply_page(db.row(Page, "knowledge/search", **query))
