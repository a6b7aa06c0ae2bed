"""Mail: what has arrived for the caller in the active workspace."""

from service import db
from service.fields import ADDRESS, TITLE, Cursor, Page
from service.inputs import Blueprint
from service.replies import reply_page
from service.shapes import Shape, answers, moment, text, texts, truth, uuid

mail = Blueprint("mail", "E-mails of the caller")


class Mail(Shape):
    id = uuid()
    from_ = text(ADDRESS, 3)
    to = texts(200, ADDRESS)
    subject = text(TITLE)
    snippet = text(2000)
    read = truth()
    received_at = moment()


class MailFilter(Page):
    cursor = Cursor(keyed=True)


@mail.get("/mail")
@mail.arguments(MailFilter, location="query")
@answers(Mail, form="page")
def list_mail(wanted):
    """List your mail in the active workspace, latest first"""
    after, after_id = wanted["cursor"]
    return reply_page(db.row("mail/list", after=after, after_id=after_id, limit=wanted["limit"]))
