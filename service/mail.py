"""Mail: what has arrived for the caller in the active workspace."""

from service import db
from service.fields import Cursor, Page
from service.inputs import Blueprint
from service.replies import reply_page

mail = Blueprint("mail", "E-mails of the caller")


class MailFilter(Page):
    cursor = Cursor(keyed=True)


@mail.get("/mail")
@mail.arguments(MailFilter, location="query")
def list_mail(wanted):
    """List your mail in the active workspace, latest first"""
    after, after_id = wanted["cursor"]
    return reply_page(db.row("mail/list", after=after, after_id=after_id, limit=wanted["limit"]))
