"""Your mail."""

from flask import Blueprint, Response

from service.context import db
from service.values import Values, schemas, types
from service.web.operation import operation
from service.web.responses import Page, reply_page

mail = Blueprint("mail", __name__)


class Mail(schemas.Resource):
    """An e-mail that the user received. Only the command ``load`` creates e-mails."""

    id = types.Id("The id of the e-mail")
    sender = types.Email("The address of the sender", data_key="from", required=True)
    recipients = types.StringList(
        types.Email(), 200, "The addresses of the recipients", data_key="to", load_default=list
    )
    subject = types.Text(types.MAX_TITLE, "The subject", load_default="")
    snippet = types.Text(2000, "The beginning of the text", load_default="")
    read = types.Boolean("Whether you have read the e-mail", load_default=False)
    received_at = types.Timestamp("When the e-mail was received", required=True)


class MailFilter(schemas.PageQuery):
    cursor = types.Cursor(keyed=True)


@mail.get("/mail")
@operation(MailFilter(), Mail, kind="page")
def list_mail(query: Values) -> Response:
    """List your mail in the active workspace, newest first

    Nobody else can see your mail.
    """
    return reply_page(db.row(Page, "mail/list", **query))
