"""Workspaces."""

from functools import partial
from typing import NamedTuple

from flask import Blueprint, Response

from service.context import db
from service.database.statements import to_json
from service.values import Values, schemas
from service.values.types import (
    MAX_NAME,
    MAX_REFERENCE,
    Id,
    ReadOnlyInteger,
    Text,
    Timestamp,
    Timezone,
)
from service.web.errors import http_error
from service.web.operation import operation
from service.web.responses import Body, One, reply_list, reply_one, require_match
from service.web.safe_writes import expected_versions

Slug = partial(
    Text,
    MAX_REFERENCE,
    "The short name in URLs",
    min=1,
    json_schema={"pattern": "^[a-z0-9][a-z0-9-]{0,127}$"},
)
Plan = partial(
    Text,
    MAX_REFERENCE,
    "The plan, which determines the rate limits",
    min=1,
    json_schema={"examples": ["Starter", "Pro", "Team"]},
)

blueprint = Blueprint("workspaces", __name__)


class Workspace(schemas.Resource):
    """A workspace in lists: the six fields of docs/specification.md, section 2."""

    id = Id("The id of the workspace", dump_only=True)
    name = Text(MAX_NAME, "The display name", min=1, trim=True, required=True)
    slug = Slug(dump_only=True)
    plan = Plan(dump_only=True)
    member_count = ReadOnlyInteger("The number of members")
    created_at = Timestamp("When the workspace was created", dump_only=True)


class WorkspaceDetails(Workspace):
    timezone = Timezone("An IANA timezone name. It determines when a day begins and ends")


class ChangedWorkspace(NamedTuple):
    """The row of a PATCH; the workspace changes only if ``permitted`` and ``matched`` are true."""

    body: bytes
    version: int
    permitted: bool
    matched: bool


@blueprint.get("/workspaces")
@operation(response=Workspace, kind="list", ignores_workspace_header=True)
def list_workspaces() -> Response:
    """List all your workspaces

    The list has no pages.
    """
    return reply_list(row.body for row in db.rows(Body, "workspaces/list"))


@blueprint.get("/workspaces/<id:id>")
@operation(response=WorkspaceDetails, kind="versioned")
def get_workspace(id: str) -> Response:
    """Return a workspace

    Its timezone determines when a day begins and ends, for due dates and for the dashboard.
    """
    return reply_one(db.row(One, "workspaces/get", id=id))


@blueprint.patch("/workspaces/<id:id>")
@operation(
    WorkspaceDetails(partial=True), WorkspaceDetails, idempotent="workspace", kind="versioned"
)
def update_workspace(changes: Values, id: str) -> Response:
    """Change the name or the timezone of a workspace; owners and admins only

    Other members get 403. Absent fields keep their values. The service ignores read-only fields.
    """
    workspace = db.row(
        ChangedWorkspace,
        "workspaces/update",
        id=id,
        changes=to_json(changes),
        versions=expected_versions(),
    )
    if not workspace.permitted:
        raise http_error("role")
    require_match(workspace)
    return reply_one(One(workspace.body, workspace.version))
