"""Knowledge base entries."""

from flask import Blueprint, Response

from service.context import db
from service.values import Values, schemas
from service.values.types import (
    MAX_NAME,
    MAX_TEXT,
    MAX_TITLE,
    Cursor,
    Id,
    StringList,
    Text,
    Timestamp,
)
from service.web.operation import operation
from service.web.responses import reply_page

blueprint = Blueprint("knowledge", __name__)


class Knowledge(schemas.Resource):
    """An entry of the knowledge base. Only the command ``load`` creates entries."""

    id = Id("The id of the entry")
    title = Text(MAX_TITLE, "What the entry is about", min=1, trim=True, required=True)
    content = Text(MAX_TEXT, "The text of the entry", load_default="")
    tags = StringList(Text(MAX_NAME, min=1), 50, "Keywords", load_default=list)
    created_at = Timestamp("When the entry was created")
    updated_at = Timestamp("When the entry was last changed")


class KnowledgeFilter(schemas.PageQuery):
    q = Text(
        MAX_TITLE,
        "Words and phrases in double quotes to search for; - before a word excludes it",
    )
    cursor = Cursor(keyed=True)


@blueprint.get("/knowledge")
@operation(KnowledgeFilter(), Knowledge, kind="page")
def list_knowledge(query: Values) -> Response:
    """List or search the knowledge entries of the active workspace

    Without ``q``, the newest entries come first. With ``q``, the best matches come first, but if
    more than 5 000 entries match, the newest matches come first.
    """
    statement = "knowledge/list" if query["q"] is None else "knowledge/search"
    return reply_page(db.page(statement, **query))
