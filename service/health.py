"""Whether the service can answer: for load balancers, without credentials."""

from flask import Blueprint

from service import db
from service.replies import reply

health = Blueprint("health", __name__)


@health.get("/healthz")
def check_health():
    """200 when the database answers; a database that does not is 503, like everywhere."""
    return reply(db.first_row("health/check").body)
