"""Your mail."""

from flask import Blueprint, Response

from service.context import db
from service.values import Values, schemas
from service.values.types import MAX_TITLE, Boolean, Cursor, Email, Id, StringList, Text, Timestamp
from service.web.operation import operation
from service.web.responses import reply_page

blueprint = Blueprint("mail", __name__)


class Mail(schemas.Resource):
    """An e-mail that the user received. Only the command ``load`` creates e-mails."""

    id = Id("The id of the e-mail")
    sender = Email("The address of the sender", data_key="from", required=True)
    recipients = StringList(
        Email(), 200, "The addresses of the recipients", data_key="to", load_default=list
    )
    subject = Text(MAX_TITLE, "The subject", load_default="")
    snippet = Text(2000, "The beginning of the text", load_default="")
    read = Boolean("Whether you have read the e-mail", load_default=False)
    received_at = Timestamp("When the e-mail was received", required=True)


class MailFilter(schemas.PageQuery):
    cursor = Cursor(keyed=True)


@blueprint.get("/mail")
@operation(MailFilter(), Mail, kind="page")
def list_mail(query: Values) -> Response:
    """List your mail in the active workspace, newest first

    Nobody else can see your mail.
    """
    return reply_page(db.page("mail/list", **query))
