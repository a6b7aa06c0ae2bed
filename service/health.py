"""Whether the service can answer: for load balancers, without credentials."""

from flask import Blueprint

from service import db
from service.replies import reply
from service.shapes import Health, answers

health = Blueprint("health", __name__)


@health.get("/healthz")
@answers(Health, form="figures", also=(503,))
def check_health():
    """Answer 200 when the database does; when it does not, 503 like everywhere"""
    return reply(db.first_row("health/check").body)
