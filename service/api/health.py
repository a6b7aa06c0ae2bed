"""The service itself."""

from typing import NamedTuple

from flask import Blueprint, Response
from psycopg import errors

from service.context import current_settings, current_state, db, retried
from service.database.pool import UnusableDatabase
from service.database.statements import (
    FunctionFile,
    Part,
    UnusableObject,
    migrations,
    parts_of_tables,
    schema_objects,
    texts_of_functions,
    to_json,
)
from service.values import schemas
from service.values.types import MAX_NAME, OneOf, Text
from service.web.errors import http_error
from service.web.operation import operation
from service.web.responses import reply

blueprint = Blueprint("health", __name__)

# The seconds after which to try again. A migration takes seconds, so an earlier request would get
# the same response.
RETRY_AFTER = 5
# The time for the response in seconds, from the arrival of the request.
TIME_LIMIT = 1.9


class Readiness(NamedTuple):
    # The database lacks migrations.
    pending: bool
    # A newer release has migrated the database.
    newer: bool


class ServiceIndex(schemas.Resource):
    """The paths of the public documents; ``docs`` is present only if the setting DOCS is on."""

    optional = ("docs",)

    name = Text(MAX_NAME, "The name of the service")
    docs = Text(MAX_NAME, "The path of the reference page")
    openapi = Text(MAX_NAME, "The path of this document")
    health = Text(MAX_NAME, "The path of the health check")


class Health(schemas.Resource):
    status = OneOf(
        "ok", schema_name="HealthStatus", description="ok if the service can serve requests"
    )


@blueprint.get("/")
@operation(response=ServiceIndex)
def get_index() -> Response:
    """Return the paths that need no credential

    ``docs`` is present only if the operator has switched on the reference page.
    """
    docs = {"docs": "/docs"} if current_settings().docs else {}
    name = {"name": "Task, Meeting and Workspace service"}
    return reply(to_json({**name, **docs, "openapi": "/openapi.json", "health": "/healthz"}))


@blueprint.get("/healthz")
@operation(response=Health, also=(503,))
def check_health() -> Response:
    """Return 200 if the service can serve requests, and 503 if it cannot

    The service can serve requests if the database is PostgreSQL 15 or later, accepts writes, stores
    UTF-8 and has all migrations, and if the service has all its tables, functions, triggers and
    constraints, and the rights to use them.

    This request is for load balancers. It does not count against a rate limit, and it is answered
    within two seconds.
    """
    # Load balancers wait less long than other clients. The time limit includes the wait for a
    # thread.
    current_state().deadline = current_state().arrived + TIME_LIMIT
    is_newer = False
    try:
        found = retried(lambda: db.row(Readiness, "health/check", migrations=migrations()))
        is_newer = found.newer
        if found.pending or db.rows(FunctionFile, "health/functions", **texts_of_functions()):
            raise http_error("migrations_pending", RETRY_AFTER)
    except (errors.UndefinedTable, errors.InsufficientPrivilege):
        # The next statement finds out what is missing, or what this role may not use.
        pass
    except UnusableDatabase as error:
        raise http_error(error.name, RETRY_AFTER) from None
    except errors.ReadOnlySqlTransaction:
        raise http_error("read_only", RETRY_AFTER) from None
    unusable = db.rows(UnusableObject, "status/unusable", **schema_objects())
    # A newer release may have replaced parts of tables.
    if not unusable and not is_newer:
        parts = db.rows(Part, "status/parts", tables=parts_of_tables())
        if not all(part.is_tolerable for part in parts):
            raise http_error("part_missing", RETRY_AFTER)
    if not unusable:
        return reply(to_json({"status": "ok"}))
    if any(item.owner for item in unusable):
        raise http_error("no_rights", RETRY_AFTER)
    # The command migrate creates this table; if it is missing, the command has never run on this
    # database.
    missing = any(item.name == "schema_migrations" for item in unusable)
    raise http_error("migrations_pending" if missing else "part_missing", RETRY_AFTER)
