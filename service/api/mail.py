"""Your mail."""

from flask import Blueprint, Response

from service.context import db
from service.values import Values, schemas, types
from service.web.operation import operation
from service.web.responses import Page, reply_page

mail = Blueprint("mail", __name__)


class Mail(schemas.Resource):
    """An e-mail that the user received. Only the command ``load`` creates e-mails."""

    id = types.Id(description="The id of the e-mail")
    sender = types.Email(data_key="from", required=True, description="The address of the sender")
    recipients = types.StringList(
        types.Email(),
        200,
        data_key="to",
        load_default=list,
        description="The addresses of the recipients",
    )
    subject = types.Text(types.MAX_TITLE, load_default="", description="The subject")
    snippet = types.Text(2000, load_default="", description="The beginning of the text")
    read = types.Boolean(load_default=False, description="Whether you have read the e-mail")
    received_at = types.Timestamp(required=True, description="When the e-mail was received")


class MailFilter(schemas.PageQuery):
    cursor = types.Cursor(keyed=True)


@mail.get("/mail")
@operation(MailFilter(), Mail, kind="page")
def list_mail(query: Values) -> Response:
    """List your mail in the active workspace, newest first

    Nobody else can see your mail.
    """
    return reply_page(db.row(Page, "mail/list", **query))
