"""The service itself."""

from flask import Blueprint, Response

from service import db, fields
from service.http.responses import reply, response

health = Blueprint("health", __name__)


class Health(fields.Resource):
    """The service can answer."""

    status = fields.Enum("ok", dump_only=True)


@health.get("/healthz")
@response(Health, kind="object", also=(503,))
def check_health() -> Response:
    """Answer 200 when the database does; when it does not, 503 like everywhere"""
    return reply(db.row_with_retry("health/check").body)
