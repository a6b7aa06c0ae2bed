"""The schemas of the published document, as generators of clients need them."""

import builtins

import pytest
from support.openapi_check import document, resolve, violations

from service.openapi.json_schema import with_defaults
from service.values import types
from service.values.schemas import RESERVED, Resource

pytestmark = pytest.mark.nodatabase

# The schema of each request, with the schema of its response.
CHANGES = [
    ("TaskChanges", "Task"),
    ("MeetingChanges", "MeetingDetails"),
    ("WorkspaceChanges", "WorkspaceDetails"),
    ("WebhookChanges", "Webhook"),
]
# A field that only requests have.
WRITTEN_ONLY = {"enabled"}
PAIRS = [
    ("TaskInput", "Task"),
    ("MeetingInput", "MeetingDetails"),
    ("TokenInput", "CreatedToken"),
    ("WebhookInput", "CreatedWebhook"),
    *CHANGES,
]

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


def reference(name):
    return {"$ref": f"#/components/schemas/{name}"}


def test_every_body_in_the_openapi_document_has_a_named_schema_or_lists_objects_of_one():
    found = [*bodies("requestBody"), *bodies("responses")]
    assert len(found) > 100
    for schema in found:
        assert set(schema.get("items", schema)) == {"$ref"}, schema


def test_every_enum_is_a_component_that_all_its_uses_refer_to():
    enums = {name for name, schema in schemas().items() if "enum" in schema}
    assert {"TaskStatus", "Role", "EventType"} <= enums
    inside = [
        path
        for path, _ in keywords(schemas())
        if path[-1] == "enum" and not {"propertyNames", "not"} & {*path}
    ]
    assert sorted(inside) == sorted((name, "enum") for name in enums)
    assert "enum" not in {path[-1] for path, _ in keywords(document()["paths"])}
    # A string that may get new values has examples instead of an enum.
    assert "Starter" in schemas()["Workspace"]["properties"]["plan"]["examples"]
    reference = {"$ref": "#/components/schemas/TaskStatus"}
    for name in ("Task", "TaskInput", "TaskChanges"):
        status = schemas()[name]["properties"]["status"]
        assert {"$ref": status["$ref"]} == reference, name


def test_a_field_with_an_enum_that_can_be_null_refers_to_the_component_or_null():
    expected = [{"$ref": "#/components/schemas/Platform"}, {"type": "null"}]
    for name in ("Meeting", "MeetingInput", "MeetingChanges"):
        assert schemas()[name]["properties"]["platform"]["anyOf"] == expected


def test_schemas_of_requests_reject_unknown_members_and_schemas_of_responses_allow_them():
    requests = {schema["$ref"].rpartition("/")[2] for schema in bodies("requestBody")}
    events = {name for name in requests if name.endswith("Event")}
    strict = {name for name in schemas() if violations(reference(name), {"unknown": 1})}
    assert strict >= requests - events, f"take unknown members: {requests - events - strict}"
    assert len(requests - events) >= 5
    # A request can contain lists of objects, whose schemas are those of requests.
    inside = {
        value.rpartition("/")[2]
        for name in requests - events
        for path, value in keywords(schemas()[name])
        if path[-2:] == ("items", "$ref")
    }
    assert strict >= inside, f"take unknown members: {inside - strict}"
    for name in schemas().keys() - requests - inside:
        assert schemas()[name].get("additionalProperties", True) is True, name
        assert "propertyNames" not in schemas()[name], name
    # The validator of OpenAPI checks the rest.
    assert schemas()["OpenAPIDocument"] == {"type": "object", "additionalProperties": True}


def test_no_member_declares_a_default_because_generators_would_take_it_as_always_present():
    assert [path for path, _ in keywords(schemas()) if path[-1] == "default"] == []
    assert schemas()["TaskInput"]["properties"]["status"]["description"].endswith(". Default: todo")


@pytest.mark.parametrize(("request_name", "response_name"), PAIRS)
def test_a_field_has_the_same_type_in_requests_and_responses(request_name, response_name):
    both = schemas()[request_name]["properties"].keys() - WRITTEN_ONLY
    for name in both:
        field = schemas()[request_name]["properties"][name]
        returned = schemas()[response_name]["properties"][name]
        if name == "metadata":
            # Null removes all pairs, and a response then has an empty object.
            assert (field["type"], returned["type"]) == (["object", "null"], "object")
            assert returned["additionalProperties"] == {"type": "string"}
            continue
        for keyword in ("type", "$ref", "anyOf", "format"):
            assert field.get(keyword) == returned.get(keyword), (
                f"{keyword} of {name} in {request_name} and {response_name}: see the field in"
                " service/api, and service/openapi/json_schema.py"
            )


def test_a_timestamp_has_one_type_everywhere_and_prose_says_which_other_forms_are_accepted():
    for name in ("MeetingInput", "MeetingChanges", "Meeting"):
        timestamp = schemas()[name]["properties"]["startTime"]
        assert (timestamp["type"], timestamp["format"]) == ("string", "date-time")
        assert ("no offset means UTC" in timestamp.get("description", "")) is (name != "Meeting")
    # The code of a client has a date object there, which cannot match a pattern.
    patterned = [path[:-1] for path, _ in keywords(document()) if path[-1] == "pattern"]
    dated = [path[:-1] for path, value in keywords(document()) if value == "date-time"]
    assert len(dated) > 20
    assert not set(patterned) & set(dated)


def test_lists_without_duplicates_are_described_in_prose_and_only_for_requests():
    """The keyword uniqueItems would make generators of clients use a set."""

    def noted(name, field):
        return "No duplicates" in schemas()[name]["properties"][field]["description"]

    assert noted("MeetingInput", "attendees")
    assert noted("MeetingChanges", "attendees")
    assert not noted("Meeting", "attendees")
    assert not noted("MeetingChanges", "decisions")
    assert "uniqueItems" not in {path[-1] for path, _ in keywords(schemas())}


@pytest.mark.parametrize(("request_name", "response_name"), CHANGES)
def test_a_schema_of_changes_lists_what_clients_set_and_accepts_an_object_as_it_was_read(
    request_name, response_name
):
    change, returned = schemas()[request_name], schemas()[response_name]["properties"]
    assert not {"id", "createdAt", "version"} & change["properties"].keys()
    hidden = change["properties"].keys() - WRITTEN_ONLY - returned.keys()
    assert not hidden, f"{response_name} does not show what {request_name} sets: {hidden}"
    known = {*change["propertyNames"]["enum"]}
    assert known - WRITTEN_ONLY == returned.keys() | RESERVED
    assert violations(change, {"id": "7", "createdAt": "today"}) == []
    assert violations(change, {"Id": "7"})
    assert "required" not in change


def test_every_integer_declares_a_format_int32_or_int64_for_the_end_of_a_window():
    found = dict(keywords({part: document()[part] for part in ("components", "paths")}))
    formats = {
        path[:-1]: found.get((*path[:-1], "format"))
        for path, value in found.items()
        if path[-1] == "type" and value == "integer"
    }
    assert len(formats) > 20
    assert {path[-2]: format for path, format in formats.items() if format != "int32"} == {
        "X-RateLimit-Reset": "int64"
    }


def test_no_component_has_the_name_of_a_builtin_of_python_or_javascript():
    taken = schemas().keys() & {*vars(builtins), *JAVASCRIPT}
    assert not taken, f"rename the schemas in service/api: {taken}"


class Plan(Resource):
    name = types.Text(20, required=True)
    kind = types.OneOf("short", "long", load_default="short")
    tags = types.StringList(types.Text(20), 5, load_default=list)
    notes = types.Text(20, load_default=None)
    id = types.Id(dump_only=True)


def test_an_example_has_the_default_or_null_of_each_field_that_its_file_leaves_out():
    given = {"name": "Tea", "tags": ["hot"]}
    assert with_defaults(given, Plan) == {**given, "kind": "short", "notes": None}
    assert with_defaults({"name": "Tea"}, Plan)["tags"] == []
