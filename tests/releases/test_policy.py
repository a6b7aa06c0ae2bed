"""The comparers of support/policy.py find each change that the policy forbids, and no other."""

import copy

import pytest
from support import policy

pytestmark = pytest.mark.nodatabase

TASK = {
    "type": "object",
    "required": ["id", "state"],
    "properties": {
        "id": {"type": "string", "format": "uuid"},
        "state": {"$ref": "#/components/schemas/State"},
        "due": {"type": ["string", "null"], "format": "date-time"},
        "subtasks": {"type": "array", "items": {"$ref": "#/components/schemas/Task"}},
    },
}
INPUT = {
    "type": "object",
    "required": ["title"],
    "additionalProperties": False,
    "properties": {
        "title": {"type": "string", "maxLength": 200, "minLength": 0},
        "scope": {"type": "string", "enum": ["read", "write"]},
        "state": {"$ref": "#/components/schemas/State"},
    },
}
CREATED = {"type": "object", "properties": {"type": {"const": "task.created"}}}
EVENT = {
    "anyOf": [{"$ref": "#/components/schemas/Created"}],
    "discriminator": {"propertyName": "type"},
}
JSON = "application/json"


def content(name):
    return {"content": {JSON: {"schema": {"$ref": f"#/components/schemas/{name}"}}}}


POST = {
    "operationId": "createTask",
    "security": [{"bearer": []}],
    "parameters": [
        {"$ref": "#/components/parameters/Key"},
        {"in": "query", "name": "limit", "schema": {"type": "integer", "maximum": 200}},
    ],
    "requestBody": {"required": False, **content("Input")},
    "responses": {
        "201": {**content("Task"), "headers": {"ETag": {"schema": {"type": "string"}}}},
        "422": {"$ref": "#/components/responses/Invalid"},
    },
}
DOCUMENT = {
    "paths": {"/tasks": {"post": POST}},
    "webhooks": {
        "event": {
            "post": {"requestBody": content("Event"), "responses": {"200": {"description": ""}}}
        }
    },
    "components": {
        "parameters": {"Key": {"in": "header", "name": "Key", "schema": {"type": "string"}}},
        "responses": {"Invalid": {"content": {JSON: {"schema": {"type": "object"}}}}},
        "schemas": {
            "Task": TASK,
            "Input": INPUT,
            "State": {"type": "string", "enum": ["todo", "done"]},
            "Created": CREATED,
            "Event": EVENT,
        },
    },
}


def changed(*path, to=None, document=DOCUMENT):
    """Return the document with another value at this path, or without the path if ``to`` is None.

    "tasks" stands for the operation, and the name of a schema for the schema.
    """
    document = copy.deepcopy(document)
    short = {"tasks": ["paths", "/tasks", "post"]}
    first = short.get(path[0]) or (
        ["components", "schemas", path[0]] if path[0][0].isupper() else [path[0]]
    )
    *parents, last = [*first, *path[1:]]
    place = document
    for part in parents:
        place = place[part]
    if to is None:
        del place[last]
    else:
        place[last] = to
    return document


LIMIT = {"in": "query", "name": "limit", "schema": {"type": "integer", "maximum": 200}}
NEW = {"in": "query", "name": "new", "schema": {"type": "string"}}
KEY, _ = POST["parameters"]
SEVERAL = {"style": "form", "explode": False}
BREAKS = {
    "POST /tasks is gone": changed("paths", "/tasks", "post"),
    "POST event is gone": changed("webhooks", "event"),
    "operationId was createTask and is addTask": changed("tasks", "operationId", to="addTask"),
    "security was": changed("tasks", "security", to=[{"session": []}]),
    "parameter Key is gone": changed("tasks", "parameters", to=[LIMIT]),
    "parameter limit is required now": changed("tasks", "parameters", 1, "required", to=True),
    "the new parameter new is required": changed(
        "tasks", "parameters", to=[KEY, LIMIT, {**NEW, "required": True}]
    ),
    "parameter limit: maximum was 200 and is 100": changed(
        "tasks", "parameters", 1, "schema", "maximum", to=100
    ),
    "parameter limit: type was integer and is string": changed(
        "tasks",
        "parameters",
        1,
        to={**LIMIT, **SEVERAL, "schema": {"type": "array", "items": {"type": "string"}}},
    ),
    "parameter limit: explode changed": changed("tasks", "parameters", 1, "explode", to=False),
    "parameter Key: type was string and is integer": changed(
        "components", "parameters", "Key", "schema", "type", to="integer"
    ),
    "the body is required now": changed("tasks", "requestBody", "required", to=True),
    f"body: {JSON} is gone": changed("tasks", "requestBody", "content", JSON),
    "the status 422 is gone": changed("tasks", "responses", "422"),
    "the status 202 is new": changed("tasks", "responses", "202", to={"description": ""}),
    "header ETag is gone": changed("tasks", "responses", "201", "headers", "ETag"),
    f"422: {JSON} is gone": changed("components", "responses", "Invalid", "content", JSON),
    "the schema Created is gone": changed("components", "schemas", "Created", document=DOCUMENT)
    | {"webhooks": {}},
    "body: the member title is gone": changed("Input", "properties", "title"),
    "body: the member scope is required now": changed("Input", "required", to=["title", "scope"]),
    "body, title: maxLength was 200 and is 100": changed(
        "Input", "properties", "title", "maxLength", to=100
    ),
    "body, title: minLength was 0 and is 1": changed(
        "Input", "properties", "title", "minLength", to=1
    ),
    "body, title: pattern was None and is ^x": changed(
        "Input", "properties", "title", "pattern", to="^x"
    ),
    "body, title: only some values are allowed now": changed(
        "Input", "properties", "title", "enum", to=["x"]
    ),
    "body, scope: the value write is gone": changed(
        "Input", "properties", "scope", "enum", to=["read"]
    ),
    "201: the member due is gone": changed("Task", "properties", "due"),
    "201: the member id may be absent now": changed("Task", "required", to=["state"]),
    "201, id: format was uuid and is None": changed("Task", "properties", "id", "format"),
    "201, due: type was ['null', 'string'] and is string": changed(
        "Task", "properties", "due", "type", to="string"
    ),
    "201, state: the value late is new": changed("State", "enum", to=["todo", "done", "late"]),
    "201, state: the value done is gone": changed("State", "enum", to=["todo"]),
    "201, state: any value is allowed now": changed("State", "enum"),
    "201, subtasks, items: type was object and is string": changed(
        "Task", "properties", "subtasks", "items", to={"type": "string"}
    ),
    "type: const was task.created and is task.made": changed(
        "Created", "properties", "type", "const", to="task.made"
    ),
    "anyOf had 1 schemas and has 0": changed("Event", "anyOf", to=[]),
}


@pytest.mark.parametrize(("fault", "document"), BREAKS.items(), ids=BREAKS)
def test_a_change_that_breaks_a_client_is_found(fault, document):
    found = [*policy.of_openapi(DOCUMENT, document)]
    assert any(fault in each for each in found), found


ADDITIONS = {
    "an operation": changed("paths", "/new", to={"get": POST}),
    "an optional parameter": changed("tasks", "parameters", to=[NEW, LIMIT, KEY]),
    "several values of a parameter": changed(
        "tasks",
        "parameters",
        1,
        to={**LIMIT, **SEVERAL, "schema": {"type": "array", "items": LIMIT["schema"]}},
    ),
    "an optional member of a request": changed("Input", "properties", "new", to={"type": "string"}),
    "a value in requests alone": changed(
        "Input", "properties", "scope", "enum", to=["read", "write", "admin"]
    ),
    "longer texts in requests": changed("Input", "properties", "title", "maxLength", to=300),
    "a member of a response": changed("Task", "properties", "new", to={"type": "string"}),
    "a member that responses always have": changed("Task", "required", to=["id", "state", "due"]),
    "an error": changed("tasks", "responses", "409", to={"description": ""}),
    "a header": changed(
        "tasks", "responses", "201", "headers", "Link", to={"schema": {"type": "string"}}
    ),
    "a type of event": changed("Event", "anyOf", to=[*EVENT["anyOf"], {"type": "object"}]),
    "a description": changed("Task", "description", to="A task."),
    "a deprecation": changed("tasks", "deprecated", to=True),
}


@pytest.mark.parametrize("document", ADDITIONS.values(), ids=ADDITIONS)
def test_an_addition_is_no_fault(document):
    assert [*policy.of_openapi(DOCUMENT, document)] == []


def test_a_released_migration_that_is_edited_missing_or_preceded_is_named_with_the_reason():
    released = {"0001-a": "1", "0002-b": "2"}
    never = "databases already have it, so released migrations never change; restore the file"
    cases = {
        f"sql/schema/0002-b.sql differs from the released file: {never}": {"0002-b": "3"},
        f"sql/schema/0002-b.sql is missing: {never}": {"0002-b": None},
        "sql/schema/0001-b.sql is new: its number must be above 0002-b": {"0001-b": "3"},
    }
    for fault, change in cases.items():
        new = {name: hash for name, hash in {**released, **change}.items() if hash}
        (found,) = policy.of_migrations(released, new)
        assert found.startswith(fault)
    assert [*policy.of_migrations(released, {**released, "0003-c": "3"})] == []


def test_a_column_that_is_gone_or_has_another_type_is_named():
    old = {"tasks.id": "uuid", "tasks.title": "text"}
    (gone,) = policy.of_columns(old, {"tasks.id": "uuid"})
    (other,) = policy.of_columns(old, {**old, "tasks.title": "json", "tasks.new": "text"})
    assert gone == "the column tasks.title is gone"
    assert other == "the column tasks.title was text and is json"


def test_a_name_that_is_gone_and_an_argument_that_is_needed_are_named():
    command = {"arguments": ["SLUG"], "options": ["--json"], "required": []}
    old = {"settings": ["PORT"], "commands": {"list": command}}
    cases = {
        "names, settings: PORT is gone": {**old, "settings": []},
        "names, commands: list is gone": {**old, "commands": {}},
        "names: commands is gone": {"settings": ["PORT"]},
        **{
            f"names, commands, list, {fault}": {**old, "commands": {"list": {**command, **change}}}
            for fault, change in {
                "options: --json is gone": {"options": ["--json="]},
                "required: --new was optional": {"required": ["--new"]},
                "arguments: SLUG became SLUG NAME": {"arguments": ["SLUG", "NAME"]},
                "arguments: SLUG became ": {"arguments": []},
            }.items()
        },
    }
    for fault, new in cases.items():
        assert [*policy.of_names(old, new)] == [fault]
    more = {**command, "arguments": ["SLUG", "[NAME]"], "options": ["--json", "--new"]}
    new = {"settings": ["NEW", "PORT"], "commands": {"list": more, "new": command}, "new": []}
    assert [*policy.of_names(old, new)] == []


def test_an_object_that_load_loses_or_changes_is_named():
    task = {"type": "task", "id": "1", "title": "Tea"}
    end = {"type": "end", "lines": 1}
    ids = ("task", "1", None, None, None)
    assert [*policy.of_lines([task], [])] == [f"the line {ids} is gone"]
    (found,) = policy.of_lines([task], [{"type": "task", "id": "1"}])
    assert found == f"the line {ids}: title was 'Tea' and is None"
    begin = {"type": "export", "release": "1.0.0"}
    new = [{**begin, "release": "1.1.0"}, {**task, "new": 1}, {**end, "lines": 2}]
    assert [*policy.of_lines([begin, task, end], new)] == []
