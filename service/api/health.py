"""The service itself."""

import json
from typing import NamedTuple

import psycopg
from flask import Blueprint, Response, current_app

from service import db, fields, schemas
from service.http.errors import http_error
from service.http.responses import reply, response
from service.state import state
from service.statements import migrations

health = Blueprint("health", __name__)

# A migration takes seconds; a client that comes back sooner learns nothing new.
RETRY_AFTER = 5
# Seconds from the arrival of the request until its response.
TIME_LIMIT = 1.9


class Readiness(NamedTuple):
    """The row of the check; ``pending`` tells that the database lacks migrations."""

    body: bytes
    pending: bool


class ServiceIndex(schemas.Resource):
    """Where to go on from the root; ``docs`` only where the setting DOCS is on."""

    optional = ("docs",)

    name = fields.Text(fields.MAX_NAME, dump_only=True)
    docs = fields.Text(fields.MAX_NAME, dump_only=True)
    openapi = fields.Text(fields.MAX_NAME, dump_only=True)
    health = fields.Text(fields.MAX_NAME, dump_only=True)


class Health(schemas.Resource):
    """The service can answer."""

    status = fields.Enum("ok", schema_name="HealthStatus", dump_only=True)


@health.get("/")
@response(ServiceIndex, kind="object")
def get_index() -> Response:
    """Find the documents that need no credential

    ``docs`` is there only where the reference page is served.
    """
    docs = {"docs": "/docs"} if current_app.config["SETTINGS"].docs else {}
    paths = {**docs, "openapi": "/openapi.json", "health": "/healthz"}
    return reply(json.dumps({"name": "Task, Meeting and Workspace service", **paths}))


@health.get("/healthz")
@response(Health, kind="object", also=(503,))
def check_health() -> Response:
    """Answer 200 when the database does, stores UTF-8 and has all migrations, else 503

    For load balancers; it is not counted, and answered within two seconds.
    """
    # Probes give up before other clients do; the time in a queue counts.
    state().deadline = state().arrived + TIME_LIMIT
    try:
        health = db.row_with_retry(Readiness, "health/check", migrations=migrations())
    except db.WrongEncoding:
        raise http_error("wrong_encoding", RETRY_AFTER) from None
    except psycopg.errors.UndefinedTable:
        # Nothing was ever migrated here.
        raise http_error("migrations_pending", RETRY_AFTER) from None
    if health.pending:
        raise http_error("migrations_pending", RETRY_AFTER)
    return reply(health.body)
