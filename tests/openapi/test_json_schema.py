"""The schemas of the published document, as generators of clients need them."""

import builtins

import pytest
from openapi_check import document, resolve

from service.fields import Enum
from service.openapi.json_schema import Schemas
from service.schemas import StrictSchema

pytestmark = pytest.mark.nodatabase

# Globals of JavaScript that the name of a type would hide.
JAVASCRIPT = {
    "Array", "Boolean", "Date", "Error", "Event", "Function", "Headers", "JSON", "Map", "Number",
    "Object", "Promise", "Proxy", "Record", "Request", "Response", "Set", "String", "Symbol", "URL",
    "Window",
}  # fmt: skip


def schemas():
    return document()["components"]["schemas"]


def bodies(name):
    """The schemas of all bodies below ``requestBody`` or ``responses``, events included."""
    for item in [*document()["paths"].values(), *document()["webhooks"].values()]:
        for operation in item.values():
            part = operation.get(name, {})
            for body in [part] if "content" in part else part.values():
                for content in resolve(body).get("content", {}).values():
                    yield content["schema"]


def keywords(part, path=()):
    """Every keyword of every schema, with its path."""
    for key, value in part.items() if isinstance(part, dict) else enumerate(part):
        yield (*path, key), value
        if isinstance(value, (dict, list)):
            yield from keywords(value, (*path, key))


def test_every_body_is_a_component_or_a_list_of_one():
    found = [*bodies("requestBody"), *bodies("responses")]
    assert len(found) > 100
    for schema in found:
        assert set(schema.get("items", schema)) == {"$ref"}, schema


def test_every_enum_is_a_component_that_all_its_uses_refer_to():
    enums = {name for name, schema in schemas().items() if "enum" in schema}
    assert enums == {
        "TaskStatus", "TaskPriority", "Platform", "MeetingStatus", "Role", "SuggestionStatus",
        "HealthStatus", "Scope", "CredentialKind", "AssigneeWord",
    }  # fmt: skip
    inside = [path for path, _ in keywords(schemas()) if path[-1] == "enum"]
    assert sorted(inside) == sorted((name, "enum") for name in enums)
    assert "enum" not in {path[-1] for path, _ in keywords(document()["paths"])}
    reference = {"$ref": "#/components/schemas/TaskStatus"}
    for name in ("Task", "NewTask", "TaskChanges"):
        status = schemas()[name]["properties"]["status"]
        assert {"$ref": status["$ref"]} == reference, name


def test_an_enum_that_can_be_null_is_its_component_or_null():
    expected = [{"$ref": "#/components/schemas/Platform"}, {"type": "null"}]
    for name in ("Meeting", "NewMeeting", "MeetingChanges"):
        assert schemas()[name]["properties"]["platform"]["anyOf"] == expected


@pytest.mark.parametrize(
    "other", [Enum("b", schema_name="Letter"), Enum("a", "b", schema_name="Letter")]
)
def test_two_enums_of_one_name_are_an_error(other):
    pair = StrictSchema.from_dict(
        {"one": Enum("a", schema_name="Letter"), "other": other}, name="Pair"
    )
    with pytest.raises(ValueError, match="have the name Letter"):
        Schemas({}).response(pair)


def test_requests_are_strict_and_responses_open_for_new_members():
    requests = {schema["$ref"].rpartition("/")[2] for schema in bodies("requestBody")}
    events = {name for name in requests if name.endswith("Event")}
    strict = {
        name for name, schema in schemas().items() if schema.get("additionalProperties") is False
    }
    assert strict == requests - events
    assert len(strict) >= 5
    # All of it is checked by the validator of OpenAPI.
    assert schemas()["OpenAPIDocument"] == {"type": "object", "additionalProperties": True}


def test_no_member_has_a_default_that_a_generator_could_take_for_its_presence():
    assert [path for path, _ in keywords(schemas()) if path[-1] == "default"] == []
    assert schemas()["NewTask"]["properties"]["status"]["description"] == "Default: todo"


def test_a_field_has_the_same_format_in_requests_and_responses():
    compared = 0
    for request, response in (
        ("NewTask", "Task"),
        ("TaskChanges", "Task"),
        ("NewMeeting", "Meeting"),
        ("MeetingChanges", "MeetingDetails"),
        ("WorkspaceChanges", "WorkspaceDetails"),
    ):
        for name, field in schemas()[request]["properties"].items():
            returned = schemas()[response]["properties"][name]
            for keyword in ("type", "format", "$ref", "anyOf"):
                assert field.get(keyword) == returned.get(keyword), (request, name)
            compared += 1
    assert compared > 30


def test_no_component_hides_a_builtin_of_python_or_javascript():
    assert schemas().keys() & {*vars(builtins), *JAVASCRIPT} == set()
