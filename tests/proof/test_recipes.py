"""Three recipes of CONTRIBUTING, followed in a copy of the project.

After all steps, the tests pass. If a statement lacks the tenant, a field or the condition of a
filter, a test fails and names the file of that statement.
"""

import os
import subprocess
import sys

import pytest
from support.project import copy_project
from support.recipes import NEW, add_a_field, change, create

pytestmark = [pytest.mark.proof, pytest.mark.nodatabase]

# The tests that check whether all parts fit together, in the order of how clear their messages are.
TESTS = """
    test_sql test_docs commands/test_export openapi/test_openapi test_tenants test_constraints
    openapi/test_json_schema api/test_every_field commands/test_load api/test_page_size
    api/test_meetings api/test_writes openapi/test_examples test_layers commands/test_migrate
    api/test_lists
"""
PYTEST = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
PYTEST += [f"tests/{name}.py" for name in TESTS.split()]

PLATFORM = """    platform = OneOf(
        *PLATFORMS, schema_name="Platform", description="Where they take place"
    )
"""
CONDITION = (
    "       AND (filters ->> 'platform' IS NULL OR meeting.platform = filters ->> 'platform')\n"
)


def add_a_filter(folder):
    limit = "    limit = Limit(20, 100)\n"
    change(folder / "service/api/meetings.py", limit, PLATFORM + limit)
    last = "'starts_before', workspace_id), 'infinity'\n           )\n"
    change(folder / "sql/functions/meetings.sql", last, last + CONDITION)
    change(
        folder / "docs/api.md",
        "| `upcoming`, `workspaceId`,",
        "| `upcoming`, `platform`, `workspaceId`,",
    )


def add_a_field_with_a_filter(folder):
    add_a_field(folder)
    add_a_filter(folder)


TABLE = """-- Tags of a workspace.

CREATE TABLE tags (
    workspace_id uuid NOT NULL
        REFERENCES workspaces (id) ON DELETE CASCADE,
    id uuid NOT NULL DEFAULT new_id(),
    name text NOT NULL
        CONSTRAINT "name must have 1 to 120 characters"
        CHECK (length(name) BETWEEN 1 AND 120),
    kind text NOT NULL
        CONSTRAINT "kind must be one of: public, private"
        CHECK (kind IN ('public', 'private')),
    day date NOT NULL
        CONSTRAINT "day must be in the years 1900 to 9998"
        CHECK (day >= '1900-01-01' AND day < '9999-01-01'),
    PRIMARY KEY (workspace_id, id)
);
"""
LIST = """-- One page of the tags of the active workspace, newest first.
SELECT row_to_json(tag) AS body, id_cursor(lag(id) OVER (ORDER BY id DESC)) AS cursor
  FROM (
       SELECT id, name, kind, day
         FROM tags
        WHERE workspace_id = %(workspace_id)s
          AND id < coalesce(%(after_id)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
       ) AS tag
 ORDER BY id DESC
 LIMIT %(limit)s + 1;
"""
VIEW = '''"""Tags."""

from flask import Blueprint, Response

from service.context import db
from service.values import Values, schemas, types
from service.web.operation import operation
from service.web.responses import Listed, reply_page

blueprint = Blueprint("tags", __name__)


class Label(schemas.Resource):
    """A tag of a workspace."""

    id = types.Id("The id of the tag", dump_only=True)
    name = types.Text(types.MAX_NAME, "What it says", min=1, dump_only=True)
    kind = types.OneOf(
        "public", "private", schema_name="TagKind", dump_only=True, description="Who sees it"
    )
    day = types.Day("The day that it marks", dump_only=True)


@blueprint.get("/tags")
@operation(schemas.PageQuery(), Label, kind="page")
def list_tags(query: Values) -> Response:
    """List the tags of the active workspace, newest first

    The list has all tags.
    """
    return reply_page(db.rows(Listed, "tags/list", **query), query["limit"])
'''
ENTRY = """    TableEntry(
        "tags",
        path="/tags",
        required={"name": "Tea", "kind": "public", "day": "2026-12-24"},
        rejected={"name": [""], "kind": ["other"], "day": ["1899-12-31", "9999-01-01"]},
        left_out=True,
        lists={"tags": PagedList()},
    ),
"""


def add_an_endpoint(folder):
    create(folder / f"sql/schema/{NEW}-tags.sql", TABLE)
    create(folder / "sql/tags/list.sql", LIST)
    create(folder / "service/api/tags.py", VIEW)
    for file, new, old in (
        ("service/api/__init__.py", "    tags,\n", "    tasks,\n"),
        ("service/api/__init__.py", "tags, ", "tasks, batch,"),
        ("docs/api.md", "| GET | `/api/tags` | lists tags |\n", "| GET | `/api/workspaces` |"),
        ("docs/api.md", "| `/api/tags` | newest first | | 50, 200 |\n", "| `/api/mail` | newest"),
        ("tests/support/resources.py", ENTRY, '    TableEntry(\n        "workspaces",'),
    ):
        change(folder / file, old, new + old)


def first_failure(folder, *, processes=0):
    """Run the tests in the copy up to the first failure; return its text, or None if all pass."""
    folders = folder, folder / "tests", *folder.glob("testkit/*/src")
    path = os.pathsep.join(map(str, folders))
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [*PYTEST, f"-n{processes}"]
    run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    return None if run.returncode == 0 else run.stdout + run.stderr


def files_of(folder):
    return {
        path.relative_to(folder): path.read_bytes()
        for name in ("service", "sql", "docs", "tests")
        for path in folder.joinpath(name).rglob("*.*")
        if path.is_file()
    }


@pytest.mark.parametrize("recipe", [add_a_field_with_a_filter, add_an_endpoint])
def test_a_recipe_needs_at_most_6_files(tmp_path, recipe):
    copy_project(tmp_path)
    before = files_of(tmp_path)
    recipe(tmp_path)
    written = {path for path, text in files_of(tmp_path).items() if before.get(path) != text}
    assert 4 < len(written) <= 6, written


@pytest.mark.parametrize("recipe", [add_a_field, add_a_filter, add_an_endpoint])
def test_all_tests_pass_after_a_recipe_was_followed(tmp_path, recipe):
    copy_project(tmp_path)
    recipe(tmp_path)
    failure = first_failure(tmp_path, processes=3)
    assert failure is None, failure


TENANT = "WHERE workspace_id = %(workspace_id)s\n"
EVERYTHING = "WHERE %(workspace_id)s::uuid IS NOT NULL\n"


@pytest.mark.parametrize(
    ("recipe", "file", "right", "wrong"),
    [
        (add_a_field, "sql/functions/meetings.sql", "\n           location = after.location,", ""),
        (add_a_field, "sql/meetings/create.sql", "%(location)s", "NULL"),
        (add_a_filter, "sql/functions/meetings.sql", CONDITION, ""),
        (
            add_a_filter,
            "sql/functions/meetings.sql",
            "OR meeting.platform",
            "OR filters ->> 'platform'",
        ),
        (add_an_endpoint, "sql/tags/list.sql", TENANT, EVERYTHING),
    ],
    ids=[
        "a field that an update does not store",
        "a field that a new object does not store",
        "a filter without its condition",
        "a filter that leaves out nothing",
        "a tenant that excludes nothing",
    ],
)
def test_a_test_names_the_file_if_a_part_of_a_recipe_is_left_out(
    tmp_path, recipe, file, right, wrong
):
    copy_project(tmp_path)
    recipe(tmp_path)
    change(tmp_path / file, right, wrong)
    failure = first_failure(tmp_path)
    assert failure, "no test has noticed"
    assert file in failure, failure[-3000:]
