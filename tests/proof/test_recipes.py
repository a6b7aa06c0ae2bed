"""The two recipes of CONTRIBUTING, followed in a copy of the project with each step left out once.

With all steps the tests pass. Without one of them, the first test that fails says what is missing.
"""

import json
import os
import re
import subprocess
import sys

import pytest
from copies import PROJECT, copy_project

pytestmark = [pytest.mark.proof, pytest.mark.nodatabase]

# The tests that hold the parts together, the clearest first.
TESTS = [
    "tests/test_sql.py",
    "tests/test_readme.py::test_the_endpoint_table_of_the_readme_has_every_route_and_no_other",
    "tests/test_docs_scaling.py",
    "tests/openapi/test_openapi.py",
    "tests/api/test_lists.py::test_every_paged_list_is_in_the_table_of_lists",
    "tests/test_tenants.py",
    "tests/test_constraints.py",
    "tests/api/test_every_field.py",
    "tests/commands/test_load.py",
    "tests/api/test_page_size.py",
    "tests/api/test_meetings.py",
    "tests/api/test_writes.py",
    "tests/openapi/test_examples.py",
    "tests/test_layers.py",
    "tests/commands/test_migrate.py",
]
NEW = f"{max(int(path.name[:4]) for path in PROJECT.glob('sql/schema/*.sql')) + 1:04}"


class Step:
    """A change of one file; ``missing`` is what the first failure says without it."""

    def __init__(self, file, *replacements, missing, content=None):
        self.file, self.replacements = file, replacements
        self.missing, self.content = missing, content

    def follow(self, folder):
        path = folder / self.file
        if self.content is not None:
            path.parent.mkdir(exist_ok=True)
            path.write_text(self.content, encoding="utf-8")
        text = path.read_text(encoding="utf-8")
        for old, new in self.replacements:
            assert text.count(old) >= 1, f"{self.file} has changed: the recipe does not fit"
            text = text.replace(old, new, 1)
        path.write_text(text, encoding="utf-8")


class JsonStep(Step):
    """A change of a file of examples by a function."""

    def __init__(self, file, change, *, missing):
        super().__init__(file, missing=missing)
        self.change = change

    def follow(self, folder):
        path = folder / self.file
        content = json.loads(path.read_text(encoding="utf-8"))
        self.change(content)
        path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def function(name):
    """The newest definition of a function in sql/schema."""
    schema = "".join(path.read_text("utf-8") for path in sorted(PROJECT.glob("sql/schema/*.sql")))
    found = re.findall(rf"(?ms)^CREATE (?:OR REPLACE )?(FUNCTION {name}\(.*?^\$\$;\n)", schema)
    return f"CREATE OR REPLACE {found[-1]}"


def add_location(examples):
    """Give every meeting in a response and in an event a location."""

    def visit(part):
        if isinstance(part, dict):
            if "attendees" in part and "version" in part:
                # The fields of an outcome come after those of a meeting in a list.
                rest = {name: part.pop(name) for name in list(part) if name in OUTCOME}
                part.update({"location": None}, **rest)
            for inner in part.values():
                visit(inner)
        elif isinstance(part, list):
            for inner in part:
                visit(inner)

    visit(examples["responses"])
    visit(examples["events"])


OUTCOME = "summary", "actionItems", "decisions"
VERSION = "    version = fields.Integer(min=1, metadata=fields.VERSION)\n"
ADD_A_FIELD = {
    "the schema": Step(
        "service/api/meetings.py",
        (
            VERSION,
            VERSION + "    location = fields.Text(\n"
            '        500, allow_none=True, load_default=None, description="Where it takes place"\n'
            "    )\n",
        ),
        missing="'location' was unexpected",
    ),
    "the migration": Step(
        f"sql/schema/{NEW}-locations.sql",
        content=(
            "-- Meetings have a location.\n\n"
            "ALTER TABLE meetings ADD COLUMN location text\n"
            '    CONSTRAINT "location must have at most 500 characters"\n'
            "    CHECK (length(location) <= 500);\n\n"
            'ALTER TYPE meeting_document ADD ATTRIBUTE "location" text;\n\n'
            + function("meeting_json").replace(
                "meeting.version\n", "meeting.version,\n                   meeting.location\n"
            )
        ),
        missing='column "location"',
    ),
    "create.sql": Step(
        "sql/meetings/create.sql",
        ("agenda, notes, created_by", "agenda, notes, location, created_by"),
        ("%(notes)s::text,", "%(notes)s::text,\n               %(location)s::text,"),
        missing="sql/meetings/create.sql",
    ),
    "update.sql": Step(
        "sql/meetings/update.sql",
        (
            "notes = (after).notes,",
            "notes = (after).notes,\n           location = (after).location,",
        ),
        missing="sql/meetings/update.sql",
    ),
    "load": Step(
        "sql/load/meeting.sql",
        ("agenda, notes,\n", "agenda, notes,\n           location,\n"),
        ("       item.notes,", "       item.notes,\n       item.location,"),
        ("           notes text,", "           notes text,\n           location text,"),
        missing="sql/load/meeting.sql",
    ),
    "the examples": JsonStep(
        "service/openapi/examples/meetings.json",
        add_location,
        missing="service/openapi/examples",
    ),
}


TAG = {"id": "0190163d-8694-7000-8000-000000000071", "name": "Release"}
ADD_AN_ENDPOINT = {
    "the migration": Step(
        f"sql/schema/{NEW}-tags.sql",
        content="""-- Tags of a workspace.

CREATE TABLE tags (
    workspace_id uuid NOT NULL
        REFERENCES workspaces (id) ON DELETE CASCADE,
    id uuid NOT NULL DEFAULT new_id(),
    name text NOT NULL
        CONSTRAINT "name must have 1 to 120 characters"
        CHECK (length(name) BETWEEN 1 AND 120),
    PRIMARY KEY (workspace_id, id)
);

CREATE TYPE tag_document AS ("id" uuid, "name" text);

CREATE FUNCTION tag_json(tag tags) RETURNS json
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT row_to_json(ROW(tag.id, tag.name)::tag_document)
$$;
""",
        missing='relation "tags" does not exist',
    ),
    "the statement": Step(
        "sql/tags/list.sql",
        content="""-- One page of the tags of the active workspace, newest first.
WITH page AS MATERIALIZED (
    SELECT tag.*
      FROM tags AS tag
     WHERE tag.workspace_id = %(workspace_id)s::uuid
       AND tag.id < coalesce(%(after_id)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
     ORDER BY tag.id DESC
     LIMIT %(limit)s::integer + 1
), page_end AS (
    SELECT last_row(array_agg(0 ORDER BY id DESC), 0, %(limit)s::integer) AS number FROM page
)
SELECT coalesce(json_agg(tag_json(ROW(tag.*)::tags) ORDER BY tag.id DESC), '[]') AS data,
       id_cursor(
           (array_agg(tag.id ORDER BY tag.id DESC))[(SELECT number FROM page_end)]
       ) AS next_cursor
  FROM (SELECT * FROM page ORDER BY id DESC LIMIT (SELECT number FROM page_end)) AS tag;
""",
        missing="tags/list",
    ),
    "the view": Step(
        "service/api/tags.py",
        content='''"""Tags."""

from flask import Blueprint, Response

from service.database import db
from service.values import fields, schemas
from service.http.requests import Values, arguments
from service.http.responses import Page, reply_page, response

tags = Blueprint("tags", __name__)


class Tag(schemas.Resource):
    """A tag of a workspace."""

    id = fields.Id(dump_only=True, description="The id of the tag")
    name = fields.Text(fields.MAX_NAME, min=1, dump_only=True, description="What it says")


@tags.get("/tags")
@arguments(schemas.PageQuery())
@response(Tag, kind="page")
def list_tags(query: Values) -> Response:
    """List the tags of the active workspace, newest first

    The list has all tags.
    """
    return reply_page(db.row(Page, "tags/list", **query))
''',
        missing="service.api.tags",
    ),
    "its registration": Step(
        "service/api/__init__.py",
        (
            "from service.api.tasks import tasks\n",
            "from service.api.tags import tags\nfrom service.api.tasks import tasks\n",
        ),
        (" = tasks, meetings,", " = tags, tasks, meetings,"),
        missing="service/api/__init__.py",
    ),
    "the examples": Step(
        "service/openapi/examples/tags.json",
        content=json.dumps({"responses": {"listTags": {"data": [TAG], "nextCursor": None}}}),
        missing="service/openapi/examples lacks responses.listTags",
    ),
    "the row of the README": Step(
        "README.md",
        (
            "| GET | `/api/workspaces` |",
            "| GET | `/api/tags` | lists tags |\n| GET | `/api/workspaces` |",
        ),
        missing="README.md, Endpoints: add [('GET', '/api/tags')]",
    ),
    "the world of the tenants": Step(
        "tests/world.py",
        (
            '        self.insert("knowledge",',
            '        self.insert("tags", name=WORD)\n        self.insert("knowledge",',
        ),
        missing="tests/world.py: World.fill() inserts no row into the table tags",
    ),
    "the table of lists": Step(
        "tests/lists.py",
        (
            '    "tasks": PagedList(',
            '    "tags": PagedList("/tags", "tags"),\n    "tasks": PagedList(',
        ),
        missing="tests/lists.py",
    ),
    "the hints for its query": Step(
        "tests/api/test_lists.py",
        ('    "/mail": {"limits"', '    "/tags": {"limits": "limit"},\n    "/mail": {"limits"'),
        missing="test_lists.py",
    ),
    "the move of a workspace": Step(
        "docs/move-workspace.sql",
        (
            r"\qecho 'COPY mail FROM stdin;'",
            "\\qecho 'COPY tags FROM stdin;'\n"
            "COPY (SELECT * FROM tags WHERE workspace_id = :'id') TO STDOUT;\n"
            "\\qecho '\\\\.'\n"
            r"\qecho 'COPY mail FROM stdin;'",
        ),
        missing="docs/move-workspace.sql does not copy ['tags']",
    ),
    "the rows of its tests": Step(
        "tests/conftest.py",
        (
            '            "knowledge": {"title": "Tea"},',
            '            "knowledge": {"title": "Tea"},\n            "tags": {"name": "Tea"},',
        ),
        missing="tests/conftest.py: insert_into has no required columns of tags",
    ),
    "a row that its check rejects": Step(
        "tests/test_constraints.py",
        ('    ("plans", "name", ""),\n', '    ("plans", "name", ""),\n    ("tags", "name", ""),\n'),
        missing="add to OTHERS in",
    ),
}
# Steps with which the project is complete, and wrong.
MISTAKES = {
    "no tenant": (
        ADD_AN_ENDPOINT,
        Step(
            "sql/tags/list.sql",
            ("tag.workspace_id = %(workspace_id)s::uuid\n       AND ", ""),
            missing="sql/tags/list.sql",
        ),
    ),
    "a tenant that excludes nothing": (
        ADD_AN_ENDPOINT,
        Step(
            "sql/tags/list.sql",
            (" = %(workspace_id)s::uuid\n", " IS NOT DISTINCT FROM tag.workspace_id\n"
             "       AND %(workspace_id)s::uuid IS NOT NULL\n"),
            missing="sql/tags/list.sql",
        ),
    ),
}  # fmt: skip


def first_failure(folder):
    """Run the tests in the copy up to the first failure; return its text, or None if all pass."""
    tests = list(TESTS)
    environment = {
        **os.environ,
        "PYTHONPATH": f"{folder}{os.pathsep}{folder / 'tests'}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider", *tests]
    run = subprocess.run(
        [*command, "tests/api/test_lists.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert "collected 0 items" not in run.stdout
    return None if run.returncode == 0 else run.stdout + run.stderr


def follow(folder, steps):
    copy_project(folder)
    for step in steps:
        step.follow(folder)
    return first_failure(folder)


RECIPES = {"add a field": ADD_A_FIELD, "add an endpoint": ADD_AN_ENDPOINT}


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_makes_a_project_whose_tests_pass(tmp_path, recipe):
    failure = follow(tmp_path, RECIPES[recipe].values())
    assert failure is None, failure


@pytest.mark.parametrize(
    ("recipe", "left_out"), [(recipe, step) for recipe in RECIPES for step in RECIPES[recipe]]
)
def test_without_a_step_the_first_failure_says_what_is_missing(tmp_path, recipe, left_out):
    steps = RECIPES[recipe]
    failure = follow(tmp_path, [step for name, step in steps.items() if name != left_out])
    assert failure, "no test has noticed"
    assert steps[left_out].missing in failure, failure[-3000:]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_list_without_its_tenant_is_noticed(tmp_path, mistake):
    recipe, wrong = MISTAKES[mistake]
    failure = follow(tmp_path, [*recipe.values(), wrong])
    assert failure, "no test has noticed"
    assert wrong.missing in failure, failure[-3000:]
