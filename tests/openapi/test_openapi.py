"""The published document: complete, valid, and in agreement with the service.

tests/support/http.py checks every response of the suite against it.
"""

import json
import re
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import psycopg
import pytest
from marshmallow import ValidationError
from marshmallow.fields import Nested
from support.commands import CommandRunner
from support.derived import Values, by_name, key, session, settable, views, views_of
from support.openapi_check import WITH_LOGIN, document, operation_of, resolve, violations
from support.releases import for_each_release, read_json
from support.resources import HERE
from support.rows import UNKNOWN

from service.api.event_types import EVENT_TYPES
from service.api.tasks import TaskFilter
from service.app import create_app
from service.openapi.events import WEBHOOKS
from service.openapi.json_schema import Schemas
from service.values import types

PROJECT = Path(__file__).parents[2]


def operations():
    for path, item in document()["paths"].items():
        for method, operation in item.items():
            if method != "parameters":
                yield method.upper(), path, operation


@pytest.mark.slow
@pytest.mark.nodatabase
def test_the_document_is_valid_openapi_3_1():
    # Slow to import.
    from openapi_spec_validator import OpenAPIV31SpecValidator

    assert document()["openapi"] == "3.1.0"
    assert list(OpenAPIV31SpecValidator(document()).iter_errors()) == []


@pytest.mark.nodatabase
def test_the_command_openapi_prints_the_published_document_without_a_database():
    app = create_app(WITH_LOGIN)
    printed = CommandRunner(app).invoke(args=["openapi"])
    assert printed.exit_code == 0
    assert json.loads(printed.stdout) == document()
    assert app.test_client().get("/openapi.json").get_json() == document()


@pytest.mark.nodatabase
def test_the_document_describes_every_route_and_nothing_else():
    app = create_app(WITH_LOGIN)
    routes = {
        (method, re.sub("<.*?>", "{}", rule.rule))
        for rule in app.url_map.iter_rules()
        for method in rule.methods - {"HEAD", "OPTIONS"}
    }
    assert {(method, re.sub("{.*?}", "{}", path)) for method, path, _ in operations()} == routes
    names = [operation["operationId"] for *_, operation in operations()]
    assert len(names) == len(set(names))
    for *_, operation in operations():
        assert operation["tags"]
        # Generators write these texts into code, where neither code markup nor line breaks belong.
        for text in (operation["summary"], operation["description"]):
            assert text, operation["operationId"]
            assert "``" not in text
            assert "\n" not in text


@pytest.mark.nodatabase
def test_the_document_has_a_contact_a_license_the_compatibility_policy_and_the_page_of_errors():
    info = document()["info"]
    assert info["version"] == version("task-meeting-workspace-service")
    assert info["license"] == {"name": "MIT", "identifier": "MIT"}
    assert info["contact"]["name"]
    errors = (PROJECT / "service/openapi/errors.md").read_text(encoding="utf-8")
    assert info["description"].endswith(errors)
    assert "\n## Compatibility\n" in info["description"]
    assert "`deprecated: true`" in info["description"]
    # Without a network, no test could check links, so the description has none.
    assert "](" not in info["description"]


@pytest.mark.nodatabase
def test_the_document_declares_both_credentials_and_only_public_documents_need_none():
    schemes = document()["components"]["securitySchemes"]
    assert schemes["bearer"]["scheme"] == "bearer"
    assert (schemes["session"]["in"], schemes["session"]["name"]) == ("cookie", "session")
    assert document()["security"] == [{"bearer": []}, {"session": []}]
    free = {path for _, path, operation in operations() if operation.get("security") == []}
    assert free == {"/", "/healthz", "/openapi.json"}


@pytest.mark.nodatabase
def test_every_write_takes_an_idempotency_key_unless_a_repeat_has_no_use():
    without = {
        operation["operationId"]
        for method, _, operation in operations()
        if method != "GET"
        and {"$ref": "#/components/parameters/Idempotency-Key"}
        not in operation.get("parameters", ())
    }
    # A ping changes nothing, and the repeat of a request that ends the session is 401.
    assert without == {"pingWebhook", "endSession"}


@pytest.mark.nodatabase
def test_an_operation_has_one_tag_because_openapi_generator_makes_a_class_of_each():
    assert {len(operation["tags"]) for *_, operation in operations()} == {1}


@pytest.mark.nodatabase
def test_the_document_marks_the_twelve_operations_that_an_agent_needs():
    marked = [operation["operationId"] for *_, operation in operations() if "x-core" in operation]
    assert marked == [
        *("listTasks", "createTask", "getTask", "updateTask", "deleteTask", "changeTasks"),
        *("listMeetings", "createMeeting", "getMeeting", "getMe", "getStats", "listEvents"),
    ]


@pytest.mark.nodatabase
def test_each_operation_tells_agents_whether_it_reads_destroys_or_can_be_repeated():
    hints = {}
    for method, _, operation in operations():
        true = [hint for hint, value in operation["x-mcp-hints"].items() if value]
        hints.setdefault((method, *true), set()).add(operation["operationId"])
    assert [*hints] == [
        ("GET", "readOnlyHint", "idempotentHint"),
        ("POST",),
        ("PATCH", "destructiveHint", "idempotentHint"),
        ("DELETE", "destructiveHint", "idempotentHint"),
        ("POST", "destructiveHint"),
    ]
    adding = {"createTask", "createMeeting", "addMember", "createWebhook", "createToken"}
    assert hints["POST",] - {"createSession"} == adding
    assert hints["POST", "destructiveHint"] > {"changeTasks", "rotateSecret"}


@pytest.mark.nodatabase
def test_the_schemas_of_events_repeat_no_description_of_the_objects_and_changes_in_them():
    schemas = document()["components"]["schemas"]
    for name in ("PreviousTask", "PreviousMeeting"):
        described = {part["description"] for part in schemas[name]["properties"].values()}
        assert described == {"The old value"}
    for name in EVENT_TYPES:
        properties = schemas[f"{name.title().replace('.', '')}Event"]["properties"]
        is_update = "$ref" in properties["previous"]
        for member in ("changed", "previous"):
            found = properties[member]["description"].startswith("Empty, because")
            assert found is not is_update, (name, member)


@pytest.mark.nodatabase
def test_the_document_says_that_operations_about_tokens_and_the_session_need_a_session():
    only = {
        operation["operationId"]
        for *_, operation in operations()
        if operation.get("security") == [{"session": []}]
    }
    assert only == {"listTokens", "createToken", "revokeToken", "endSession"}


@pytest.mark.nodatabase
@pytest.mark.parametrize("name", WEBHOOKS)
def test_the_document_has_each_event_with_its_signatures_and_a_real_example(name):
    sent = document()["webhooks"][name]["post"]
    headers = {resolve(parameter)["name"] for parameter in sent["parameters"]}
    standard = {"webhook-id", "webhook-timestamp", "webhook-signature"}
    assert headers == {"X-Service-Signature", *standard}
    content = sent["requestBody"]["content"]["application/json"]
    assert list(content["example"]) == list(resolve(content["schema"])["properties"])
    wrong = violations(content["schema"], content["example"])
    assert not wrong, f"edit service/openapi/examples, {name}: {wrong}"


def examples(part):
    """Yield every example in the document, with its schema before it."""
    if isinstance(part, dict):
        if "schema" in part and "example" in part:
            yield part["schema"], part["example"]
        if "schema" in part and isinstance(part.get("examples"), dict):
            yield from ((part["schema"], example["value"]) for example in part["examples"].values())
        for inner in part.values():
            yield from examples(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from examples(inner)


@pytest.mark.nodatabase
def test_every_example_fits_its_schema():
    found = list(examples(document()))
    assert len(found) > 40
    wrong = [wrong for schema, example in found for wrong in violations(schema, example)]
    assert not wrong, f"edit service/openapi/examples: {wrong[:3]}"


def missing_examples():
    """Yield the names of the examples that service/openapi/examples lacks."""
    for _, path, operation in operations():
        name = operation["operationId"]
        for parameter in operation.get("parameters", ()):
            if parameter.get("in") == "path" and "example" not in parameter:
                yield f"paths.{name}.{parameter['name']}"
        bodies = {"requests": operation.get("requestBody"), **operation["responses"]}
        for kind, part in bodies.items():
            content = (part or {}).get("content", {}).get("application/json")
            is_list = operation["operationId"].startswith("list")
            needed = content and path != "/openapi.json" and not is_list
            if needed and {"example", "examples"}.isdisjoint(content):
                yield f"{'responses' if kind.isdigit() else kind}.{name}"


@pytest.mark.nodatabase
def test_every_path_error_and_body_except_that_of_a_list_has_an_example():
    missing = sorted(missing_examples())
    assert not missing, f"service/openapi/examples lacks {', '.join(missing)}"
    for response in document()["components"]["responses"].values():
        assert response["content"]["application/json"]["examples"]


def described_parts(part, path=("",)):
    """Every parameter, header and property of the document, with its path."""
    if isinstance(part, list):
        part = dict(enumerate(part))
    if not isinstance(part, dict) or "example" in path:
        return
    for name, inner in part.items():
        if path[-1] in ("parameters", "headers"):
            # A reference to a component has the component's description.
            described = "$ref" not in inner
        else:
            # A property may have the name ``properties`` itself; its members are not properties.
            described = path[-1] == "properties" and path[-2] != "properties"
        if described:
            yield (*path, name), inner
        yield from described_parts(inner, (*path, name))


@pytest.mark.nodatabase
def test_every_parameter_header_and_property_has_a_description():
    found = dict(described_parts(document()))
    assert len(found) > 200
    assert [path for path, part in found.items() if not part.get("description")] == []


@pytest.mark.nodatabase
def test_every_header_of_a_response_has_an_example_that_its_schema_allows():
    for name, header in document()["components"]["headers"].items():
        assert violations(header["schema"], header["example"]) == [], name


@pytest.mark.nodatabase
@for_each_release
def test_a_field_that_a_release_lacked_is_optional(release):
    """Events and responses that this release has stored are sent again without the field."""
    old, new = (
        found["components"]["schemas"] for found in (read_json(release, "openapi.json"), document())
    )
    lacked = {
        name: sorted({*new[name].get("required", ())} - {*schema["properties"]})
        for name, schema in old.items()
        if name in new and "properties" in schema
    }
    modules = {
        schema.__name__: schema.__module__.replace(".", "/")
        for view in views()
        if (schema := view.operation.response)
    }
    found = [
        f"{modules.get(name)}.py: add {', '.join(fields)} to `optional` of {name}"
        for name, fields in lacked.items()
        if fields
    ]
    assert found == []


def shown_names(schema, shown):
    """Fail unless an object, and each object in it, has its schema's fields in their order."""
    known = {field.data_key: field for field in schema().dump_fields.values()}
    optional = {schema().fields[name].data_key for name in schema.optional}
    expected = [name for name in known if name in shown or name not in optional]
    assert list(shown) == expected, (
        f"{schema.__name__} differs from what PostgreSQL writes: its fields in {schema.__module__}"
        " and the fields of its type *_document in sql/schema and of its function *_json in"
        " sql/functions have one order"
    )
    for name, value in shown.items():
        if isinstance(known[name], Nested) and value is not None:
            shown_names(type(known[name].schema), value)


@by_name(views_of("GET"))
def test_each_response_has_the_fields_of_its_schema_in_the_same_order(app, connection, acme, view):
    connection.execute("UPDATE meetings SET status = 'completed' WHERE start_time < now()")
    # A plan with a daily limit, so that responses show it.
    connection.execute("UPDATE workspaces SET plan = 'Pro'")
    client = session(app, "alice")
    bodies = [
        response.get_json()
        for ids in acme.keys(view)
        if (response := client.get(view.path(*ids))).status_code == 200
    ]
    for body in bodies:
        many = {"page": lambda page: page["data"], "list": list}.get(view.operation.kind)
        items = many(body) if many else [body]
        assert items, f"{HERE} has no row that {view.name} shows"
        for item in items:
            shown_names(view.operation.response, item)
    assert bodies


def shorten_texts(connection):
    """Give all rows the shortest texts that their columns take; return the names of the columns."""
    columns = connection.execute(
        "SELECT table_name AS table, column_name AS column FROM information_schema.columns"
        " JOIN information_schema.tables USING (table_schema, table_name)"
        " WHERE table_schema = 'public' AND table_type = 'BASE TABLE' AND data_type = 'text'"
        # Only the service writes the texts of these tables. All tests share the plans and the
        # names of what migrate has applied.
        " AND table_name NOT IN ('webhooks', 'events', 'deliveries', 'attempts', 'plans',"
        " 'schema_migrations', 'schema_functions')"
    ).fetchall()
    shortened = set()
    for column in columns:
        for text in ("", "x", "a@b.co"):
            with suppress(psycopg.Error):
                connection.execute(f"UPDATE {column['table']} SET {column['column']} = %s", (text,))
                shortened.add(f"{column['table']}.{column['column']}")
                break
    return shortened


@pytest.fixture
def plan_x(connection, cast):
    connection.execute("INSERT INTO plans (name, per_minute) VALUES ('x', 1000)")


@pytest.mark.nodatabase
def test_each_id_in_a_path_is_named_after_its_resource():
    for _, path, operation in operations():
        pairs = re.findall(r"/(\w+?)(?:ies|s)/{(\w+)}", path)
        for resource, name in pairs:
            assert re.fullmatch(f"{resource}y?Id", name)
        parameters = operation.get("parameters", ())
        named = [part["name"] for part in parameters if part.get("in") == "path"]
        assert named == [name for _, name in pairs]
        assert len(named) == path.count("{")


@pytest.mark.slow
@pytest.mark.usefixtures("plan_x")
def test_the_document_allows_the_shortest_texts_that_can_be_stored(app, acme, connection, cast):
    # Keep one row where names are unique.
    connection.execute("DELETE FROM workspaces WHERE id <> %s", (cast["acme"],))
    connection.execute("DELETE FROM users WHERE id <> %s", (cast["alice"],))
    shortened = shorten_texts(connection)
    assert shortened >= {"users.name", "users.email", "workspaces.slug", "mail.sender"}
    client = session(app, "alice")
    for view in views_of("GET"):
        for ids in acme.keys(view):
            client.get(view.path(*ids))


def loads(schema, body):
    try:
        schema.load(body)
    except ValidationError:
        return False
    return True


# Values of every kind.
TEXTS = [
    "", " ", "\t\u2003\u0085\x1c", "x", " x ", "\ufeff", "a\nb", "a\0b", "é" * 128, 7, True, [], {},
]  # fmt: skip
# The document does not limit the years to 1900 to 9998, because only a pattern could.
TIMESTAMPS = [
    "2027-03-01T09:00:00Z", "2027-03-01T09:00:00.123456789+05:30", "2027-03-01T09:00",
    "2027-03-01T09:00+01", "2027-03-01T09:00:00,5-2359", "2028-02-29T00:00Z",
    "2000-02-29T00:00:00Z", "1900-01-01T00:00:00Z", "9998-12-31T23:59:59.999Z", "2027-03-01",
    "2027-13-01T00:00:00Z", "2027-00-01T00:00:00Z", "2027-03-32T00:00:00Z", "2027-03-00T00:00:00Z",
    "2027-03-01T24:00:00Z", "2027-03-01T09:60:00Z", "2027-03-01T09:00:60Z",
    "2027-03-01T09:00:00+24:00", "2027-03-01T09:00:00+05:99", "2027-03-01 09:00:00Z",
    "2027-03-01t09:00:00z", "2027-03-01T09:00:00.1234567890123Z", "2027-02-30T09:00:00Z",
    "2027-W09-1T09:00:00Z", "20270301T090000Z", "", 0, 1.5,
]  # fmt: skip
# The document allows every text that has the form of a name; only the IANA database has the names.
TIMEZONES = [
    *sorted(types.timezones()), "", " ", "\ufeff", "a\nb", "a\0b", "UTC ", "/UTC",
    "Europe//Berlin", "é", 7, True, [], {},
]  # fmt: skip
CHOICES = ["todo", "in_progress", "done", "Todo", "urgent", "zoom", "completed", "read", 1, False]
# Only the description forbids duplicates, because addresses count as equal in any case.
EMAIL_LISTS = [
    [], ["ada@example.com"], ["x"], [None], [1],
    "ada@example.com", ["a b@example.com"], ["ada@example"], ["@example.com"], ["ada@-example.com"],
    ["ada@exam_ple.com"], ["ada+x@mail.example.co"], [f"a{i}@example.com" for i in range(200)],
    [f"a{i}@example.com" for i in range(201)], [f"{'a' * 250}@example.com"],
    ["a..b@example.com"], {},
]  # fmt: skip


METADATA = [
    {}, {"a": "x"}, {"A-Z_a.z:0-9": "x" * 500}, {"x" * 40: "\n"}, {"a": None}, [], "a", 7,
    {"": "x"}, {"x" * 41: "x"}, {"a b": "x"}, {"ä": "x"}, {"a\n": "x"}, {"a": ""}, {"a": "x" * 501},
    {"a": 1}, {"a": {}}, {"a": "\0"}, {str(n): "x" for n in range(50)},
    {str(n): "x" for n in range(51)},
]  # fmt: skip
# All pairs of an object in exchange for as many others.
EXCHANGE = {str(n): "x" if n % 2 else None for n in range(100)}


URLS = [
    "http://127.0.0.1:9000/hook?x=1", "https://example.com", "HTTPS://example.com/", "ftp://x/",
    "https://", "https://ä.example/", "https://x/a b", "https://x/" + "x" * 2038,
    "https://x/" + "x" * 2039, "//x/", "https://x/\n",
]  # fmt: skip
# The document lists the types only as examples, because a later version may add types.
EVENT_LISTS = [
    None, [], [*EVENT_TYPES], ["task.created"], [""], [None], [1], ["x" * 129],
    ["task.created"] * 101, "task.created", {}, 7, True,
]  # fmt: skip


def tried(field):
    """Values that a field accepts, and values that it rejects."""
    match field:
        case types.StringList(inner=types.Email()):
            return EMAIL_LISTS
        case types.StringList(inner=types.OneOf()):
            return EVENT_LISTS
        case types.StringList():
            longest = "x" * field.inner.max
            return [[], ["x", "x"], [""], [longest], [longest + "x"], ["x"] * 201, "x", {}]
        case types.Metadata():
            return [*METADATA, *([EXCHANGE] if field.parent.partial else [])]
        case types.Timestamp():
            return TIMESTAMPS
        case types.Timezone():
            return TIMEZONES
        case types.String():
            return [*TEXTS, *URLS, "x" * field.max, "x" * (field.max + 1)]
    return [*TEXTS, *CHOICES]


@pytest.mark.nodatabase
@by_name(views_of("POST", "PATCH", body=True))
def test_the_document_allows_the_bodies_that_the_schemas_load_and_no_others(view):
    """If formats are checked, the document allows nothing that the schemas reject.

    Without formats, it allows everything that they load. A value that loads need not match its
    format (RFC 3339, UUID).
    """
    schema = view.arguments
    published = Schemas(document()["components"]["schemas"]).body(schema)
    base = {} if schema.partial else Values({}).required(schema)
    assert loads(schema, base)
    assert violations(published, base) == []
    pairs = [(key(field), [*tried(field), None]) for field in settable(schema)]
    for name, values in [*pairs, *((name, ["x", None]) for name in ("id", "Title", "unknown"))]:
        for value in values:
            body = {**base, name: value}
            if loads(schema, body):
                assert violations(published, body, formats=False) == [], (name, value)
            else:
                assert violations(published, body), (name, value)
    for required in base:
        body = {name: value for name, value in base.items() if name != required}
        assert violations(published, body)
        assert not loads(schema, body)


@by_name(views())
def test_an_operation_declares_the_header_workspace_id_if_and_only_if_it_obeys_the_header(
    browser, view
):
    """A client that cannot send the header would get the response of another workspace."""
    path = view.path(*[UNKNOWN] * len(view.variables))
    operation = operation_of(view.method, f"/api{path}")
    names = [resolve(parameter)["name"] for parameter in operation.get("parameters", ())]
    headers = {"Workspace-Id": UNKNOWN, "Content-Type": "application/json"}
    errors = browser.send(view.method, path, headers=headers).get_json(silent=True) or {}
    obeyed = "errors" in errors and errors["errors"][0]["field"] == "Workspace-Id"
    assert ("Workspace-Id" in names) == obeyed


@pytest.mark.nodatabase
def test_an_operation_documents_412_if_and_only_if_it_reads_versions():
    for method, path, operation in operations():
        names = {resolve(parameter)["name"] for parameter in operation.get("parameters", ())}
        # A batch has its versions in the body.
        reads = "If-Match" in names or path == "/api/tasks/batch"
        assert ("412" in operation["responses"]) == reads, f"{method} {path}"


@pytest.mark.nodatabase
def test_no_schema_of_a_response_has_a_limit_that_a_later_release_could_not_raise():
    limits = {"minLength", "maxLength", "pattern", "minItems", "maxItems", "minimum", "maximum"}
    for pointer, schema in schemas_of_responses().items():
        for name, member in {"": schema, **schema.get("properties", {})}.items():
            for part in (member, member.get("items", {}), *member.get("anyOf", [])):
                assert not limits & part.keys(), (pointer, name)


def schemas_of_responses():
    """Return the components that a response can contain, by their pointers."""
    found = {}

    def walk(node):
        if isinstance(node, dict) and (pointer := node.get("$ref")) and pointer not in found:
            target = resolve(node)
            if "/schemas/" in pointer:
                found[pointer] = target
            walk(target)
        for child in node.values() if isinstance(node, dict) else node:
            if isinstance(child, (dict, list)):
                walk(child)

    walk([operation["responses"] for *_, operation in operations()])
    return found


@pytest.mark.nodatabase
def test_the_document_says_what_each_query_parameter_of_the_list_of_tasks_takes():
    (tasks,) = (
        operation for *_, operation in operations() if operation["operationId"] == "listTasks"
    )
    parameters = map(resolve, tasks["parameters"])
    published = {parameter["name"]: parameter for parameter in parameters}
    assert published.pop("Workspace-Id")["in"] == "header"
    assert set(published) == {field.data_key for field in TaskFilter().fields.values()}
    assert published["limit"]["schema"]["minimum"] == 1
    assert published["limit"]["schema"]["default"] == 50
    assert "maximum" not in published["limit"]["schema"]
    items = {"$ref": "#/components/schemas/TaskStatus"}
    assert published["status"]["schema"] == {"type": "array", "items": items, "minItems": 1}
    assert (published["status"]["style"], published["status"]["explode"]) == ("form", False)
    assert resolve(items)["enum"] == ["todo", "in_progress", "done"]
    # Ids and the words me and none share one type, because an anyOf breaks clients in Java.
    id = "0190163d-8694-7000-8000-000000000001"
    for name, allowed in (("assignee", ["me", "none", id]), ("parentId", ["none", id])):
        schema = published[name]["schema"]
        assert schema.keys() <= {"type", "minLength", "maxLength", "pattern"}
        for value in (*allowed, "", "Me", "None", "foo", f"{id}x"):
            assert (violations(schema, value) == []) == (value in allowed)


def test_the_document_limits_the_length_of_idempotency_key_and_if_match():
    for name, allowed, forbidden in (
        ("Idempotency-Key", ["x", "~" * 255], ["", "~" * 256, "a b", "é"]),
        ("If-Match", ['"1"', 'W/"1"', "*"], ["x" * 1025]),
    ):
        schema = document()["components"]["parameters"][name]["schema"]
        assert [value for value in allowed if violations(schema, value)] == []
        assert [value for value in forbidden if not violations(schema, value)] == []
