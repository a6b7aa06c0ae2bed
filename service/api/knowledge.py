"""Knowledge base entries."""

from flask import Blueprint, Response

from service.context import db
from service.values import Values, schemas, types
from service.web.operation import operation
from service.web.responses import Page, reply_page

knowledge = Blueprint("knowledge", __name__)


class Knowledge(schemas.Resource):
    """An entry of the knowledge base. Only the command ``load`` creates entries."""

    id = types.Id(description="The id of the entry")
    title = types.Text(
        types.MAX_TITLE, min=1, trim=True, required=True, description="What the entry is about"
    )
    content = types.Text(types.MAX_TEXT, load_default="", description="The text of the entry")
    tags = types.StringList(
        types.Text(types.MAX_NAME, min=1), 50, load_default=list, description="Keywords"
    )
    created_at = types.Timestamp(description="When the entry was created")
    updated_at = types.Timestamp(description="When the entry was last changed")


class KnowledgeFilter(schemas.PageQuery):
    q = types.Text(
        types.MAX_TITLE,
        load_default=None,
        description="Words and phrases in double quotes to search for; - before a word excludes it",
    )
    cursor = types.Cursor(keyed=True)


@knowledge.get("/knowledge")
@operation(KnowledgeFilter(), Knowledge, kind="page")
def list_knowledge(query: Values) -> Response:
    """List or search the knowledge entries of the active workspace

    Without ``q``, the newest entries come first. With ``q``, the best matches come first, but if
    more than 5 000 entries match, the newest matches come first.
    """
    if query["q"] is None:
        return reply_page(db.row(Page, "knowledge/list", **query))
    return reply_page(db.row(Page, "knowledge/search", **query))
