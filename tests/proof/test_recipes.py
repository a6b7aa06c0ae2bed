"""Three recipes of CONTRIBUTING, followed in a copy of the project.

After all steps, the tests pass. If a part is left out, one of the tests that the recipe names fails
and names the file.
"""

import os
import re
import subprocess
import sys

import pytest
from support.project import PROJECT, copy_project, output, section
from support.recipes import CATEGORY, NEXT, add_a_field, change, create

pytestmark = [pytest.mark.proof, pytest.mark.nodatabase]

# The tests that check whether all parts fit together, in the order of how clear their messages are.
TESTS = """
    test_sql test_docs commands/test_export openapi/test_openapi test_tenants test_constraints
    openapi/test_json_schema api/test_every_field statements/test_load api/test_page_size
    api/test_meetings api/test_writes openapi/test_examples test_layers commands/test_migrate
    commands/test_load commands/test_migration_rules api/test_lists
"""
PYTEST = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]

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


def add_a_required_field(folder):
    add_a_field(folder, "category", CATEGORY)


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
from service.web.responses import reply_page

blueprint = Blueprint("tags", __name__)


class Label(schemas.Resource):
    """A tag of a workspace."""

    id = types.Id("The id of the tag", dump_only=True)
    name = types.Text(types.MAX_NAME, "What it says", min=1, required=True)
    kind = types.OneOf(
        "public", "private", schema_name="TagKind", required=True, description="Who sees it"
    )
    day = types.Day("The day that it marks", required=True)


@blueprint.get("/tags")
@operation(schemas.PageQuery(), Label, kind="page")
def list_tags(query: Values) -> Response:
    """List the tags of the active workspace, newest first

    The list has all tags.
    """
    return reply_page(db.page("tags/list", **query))
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
    create(folder / f"sql/schema/{NEXT + 1:04}-tags.sql", TABLE)
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


EXPORT = """-- The tags of a workspace, oldest first.
SELECT row_to_json(tag) AS body
  FROM tags AS tag
 WHERE workspace_id = %(id)s
 ORDER BY id;
"""
LOAD = """-- Insert tags, in the order of their lines.
INSERT INTO tags (workspace_id, id, name, kind, day)
SELECT workspace_id,
       coalesce(id, new_id()),
       name,
       kind,
       day
  FROM json_populate_recordset(NULL::tags, %(rows)s) WITH ORDINALITY
 ORDER BY ordinality;
"""
LINE = """class TagLine(OwnedLine, Label):
    id = NewId(load_default=None)


"""
LEFT_OUT = """\
        rejected={"name": [""], "kind": ["other"], "day": ["1899-12-31", "9999-01-01"]},
        left_out=True,
"""


def add_an_endpoint_with_load_and_export(folder):
    add_an_endpoint(folder)
    create(folder / "sql/export/tag.sql", EXPORT)
    create(folder / "sql/load/tag.sql", LOAD)
    lines, entries = (
        folder / "service/commands/load/lines.py",
        folder / "tests/support/resources.py",
    )
    for file, new, old in (
        (lines, "from service.api.tags import Label\n", "from service.api.tasks import Task\n"),
        (lines, LINE, "class LoadedWebhook("),
        (lines, '    "tag": TagLine(),\n', "    # After the suggestions,"),
        (entries, "from service.api.tags import Label\n", "from service.api.tasks import Task\n"),
    ):
        change(file, old, new + old)
    change(entries, LEFT_OUT, '        schema=Label,\n        line="tag",\n')


def named(heading):
    """Return the tests that a recipe names, in its order."""
    found = re.findall(r"`(tests/[a-z_/]+(?:\.py)?)`", section("CONTRIBUTING.md", heading))
    return [path for path in dict.fromkeys(found) if not re.match("tests/(support|proof)/", path)]


def first_failure(folder, tests, *, processes=0):
    """Run tests in the copy up to the first failure; return its text, or None if all pass."""
    folders = folder, folder / "tests", *folder.glob("testkit/*/src")
    path = os.pathsep.join(map(str, folders))
    # The records of releases are in the history, which the copy lacks.
    history = output("git", "rev-parse", "--absolute-git-dir", cwd=PROJECT).strip()
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    environment["GIT_DIR"] = history
    command = [*PYTEST, f"-n{processes}", *tests]
    run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    return None if run.returncode == 0 else run.stdout + run.stderr


def files_of(folder):
    return {
        path.relative_to(folder): path.read_bytes()
        for name in ("service", "sql", "docs", "tests")
        for path in folder.joinpath(name).rglob("*.*")
        if path.is_file()
    }


@pytest.mark.parametrize(
    ("recipe", "files"),
    [
        (add_a_required_field, 4),
        (add_a_field_with_a_filter, 5),
        (add_an_endpoint, 6),
        (add_an_endpoint_with_load_and_export, 9),
    ],
)
def test_a_recipe_needs_few_files(tmp_path, recipe, files):
    copy_project(tmp_path)
    before = files_of(tmp_path)
    recipe(tmp_path)
    written = {path for path, text in files_of(tmp_path).items() if before.get(path) != text}
    assert len(written) == files, written


@pytest.mark.parametrize(
    "recipes",
    [
        (add_a_field_with_a_filter, add_an_endpoint),
        (add_a_required_field, add_an_endpoint_with_load_and_export),
    ],
    ids=["optional parts", "required parts"],
)
def test_all_tests_pass_after_recipes_were_followed(tmp_path, recipes):
    copy_project(tmp_path)
    for recipe in recipes:
        recipe(tmp_path)
    tests = [f"tests/{name}.py" for name in TESTS.split()]
    failure = first_failure(tmp_path, tests, processes=3)
    assert failure is None, failure


TENANT = "WHERE workspace_id = %(workspace_id)s\n"
EVERYTHING = "WHERE %(workspace_id)s::uuid IS NOT NULL\n"
MEETINGS = "sql/functions/meetings.sql"
ONE_OF = "OR meeting.platform"
PARTS = {
    "a field that an update does not store": (
        *("Add a field", add_a_field, MEETINGS),
        *("\n           location = after.location,", ""),
    ),
    "a field that a new object does not store": (
        *("Add a field", add_a_field, "sql/meetings/create.sql", "%(location)s", "NULL"),
    ),
    "a required field that load of an older release does not send": (
        *("Add a field", add_a_required_field, MEETINGS),
        *("coalesce(category, 'internal')", "category"),
    ),
    "a field that stored events lack": (
        *("Add a field", add_a_field, "service/api/meetings.py", ', "location"', ""),
    ),
    "a filter without its condition": (*("Add a filter", add_a_filter, MEETINGS, CONDITION, ""),),
    "a filter that leaves out nothing": (
        *("Add a filter", add_a_filter, MEETINGS, ONE_OF, "OR filters ->> 'platform'"),
    ),
    "a tenant that excludes nothing": (
        *("Add an endpoint", add_an_endpoint, "sql/tags/list.sql", TENANT, EVERYTHING),
    ),
}


@pytest.mark.parametrize(("heading", "recipe", "file", "right", "wrong"), PARTS.values(), ids=PARTS)
def test_a_test_that_the_recipe_names_names_the_file_of_a_part_that_is_left_out(
    tmp_path, heading, recipe, file, right, wrong
):
    copy_project(tmp_path)
    recipe(tmp_path)
    change(tmp_path / file, right, wrong)
    failure = first_failure(tmp_path, named(heading))
    assert failure, "no test has noticed"
    assert file in failure, failure[-3000:]
