"""The service itself."""

import psycopg
from flask import Blueprint, Response

from service import db, fields
from service.http.errors import http_error
from service.http.responses import reply, response

health = Blueprint("health", __name__)

# A migration takes seconds; a client that comes back sooner learns nothing new.
RETRY_AFTER = 5


class Health(fields.Resource):
    """The service can answer."""

    status = fields.Enum("ok", dump_only=True)


@health.get("/healthz")
@response(Health, kind="object", also=(503,))
def check_health() -> Response:
    """Answer 200 when the database does and has all migrations, else 503"""
    try:
        row = db.row_with_retry("health/check", migrations=db.migrations())
    except psycopg.errors.UndefinedTable:
        # Nothing was ever migrated here.
        raise http_error("migrations_pending", RETRY_AFTER) from None
    if row.pending:
        raise http_error("migrations_pending", RETRY_AFTER)
    return reply(row.body)
