"""Knowledge: the entries of the active workspace, and the search for them."""

from service import db
from service.fields import NAME, TEXT, TITLE, Cursor, Page, Text
from service.inputs import Blueprint
from service.replies import reply_page
from service.shapes import Shape, answers, moment, text, texts, uuid

knowledge = Blueprint("knowledge", "Knowledge base entries")


class Knowledge(Shape):
    id = uuid()
    title = text(TITLE, 1)
    content = text(TEXT)
    tags = texts(50, NAME)
    created_at = moment()
    updated_at = moment()


class KnowledgeFilter(Page):
    q = Text(
        TITLE,
        load_default=None,
        metadata={
            "description": "Words to search for, phrases in double quotes; - before a word excludes it."
            " Best first, or newest first if more than 5 000 entries match"
        },
    )
    cursor = Cursor(keyed=True)


@knowledge.get("/knowledge")
@knowledge.arguments(KnowledgeFilter, location="query")
@answers(Knowledge, form="page")
def list_knowledge(wanted):
    """List the knowledge of the active workspace, newest first; with q the matches, best first"""
    after, after_id = wanted.pop("cursor")
    statement = "knowledge/list" if wanted["q"] is None else "knowledge/search"
    return reply_page(db.row(statement, after=after, after_id=after_id, **wanted))
