"""Messages come from tables; errors.md lists them all, and the examples use no others."""

import re
from pathlib import Path

import pytest
from support.openapi_check import document

from service.api.meetings import MeetingDetails
from service.api.tasks import Task
from service.api.workspaces import WorkspaceDetails
from service.app import create_app
from service.settings import Settings
from service.values import schemas, strict_json, types
from service.web import errors
from service.web.operation import operation_of

PAGE = Path(__file__).parents[2].joinpath("service/openapi/errors.md").read_text(encoding="utf-8")

# What the HTTP server of the speedups itself says about time. No client of the API should ever get
# its other errors.
BY_THE_SERVER = {
    (408, "The request did not arrive in time"),
    (503, "The service is busy: the request waited too long for a free thread"),
}

# The tables that requests write, and the schema of what a request may set there.
WRITTEN = {"tasks": Task, "meetings": MeetingDetails, "workspaces": WorkspaceDetails}


def subclasses(base):
    for subclass in base.__subclasses__():
        yield subclass
        yield from subclasses(subclass)


def field_messages():
    """Yield what the fields and the base schemas of requests say about one value or name."""
    for field in (types.Field, *subclasses(types.Field)):
        if field.__module__ == types.__name__:
            yield from vars(field).get("default_error_messages", {}).values()
    for schema in (schemas.Resource, schemas.Query):
        yield f"{schema.unknown_message}; did you mean …?"
        yield f"{schema.unknown_message}; allowed: …"


def constraint_messages(connection):
    """Return the messages of the constraints that a request with valid fields can violate.

    These constraints compare two columns, or concern another row.
    """
    constraints = connection.execute(
        "SELECT conrelid::regclass::text AS table_name, conname FROM pg_constraint"
        " WHERE contype = 'f' OR contype = 'c' AND cardinality(conkey) > 1"
    ).fetchall()
    sentences = [
        errors.words_of(row["conname"])
        for row in constraints
        if row["table_name"] in WRITTEN
        and errors.words_of(row["conname"]).partition(" ")[0] in loaded(row["table_name"])
    ]
    raised = connection.execute("SELECT prosrc FROM pg_proc WHERE proname LIKE 'check\\_%'")
    for row in raised:
        names = re.findall(r"CONSTRAINT = '([^']+)'", row["prosrc"])
        sentences += map(errors.words_of, names)
    return [": ".join(sentence.split(" ", 1)) for sentence in sentences]


def loaded(table):
    return {field.data_key for field in WRITTEN[table](partial=True).load_fields.values()}


@pytest.fixture
def messages(connection):
    """Return all messages of the API with their statuses; … stands for what is filled in."""
    bodies = {f"The body {message}" for message in strict_json.MESSAGES.values()}
    whole = {errors.MESSAGES[name] for name in errors.MESSAGES.keys() - {"invalid_body"}}
    sentences = {*bodies, *field_messages(), *constraint_messages(connection)}
    return {
        (status, re.sub(r"\{\w+\}", "…", message))
        for status, message in whole | BY_THE_SERVER | {(400, text) for text in sentences}
    }


def test_the_page_of_errors_lists_every_message_once_and_nothing_else(messages):
    listed = [
        (int(status), message)
        for status, message in re.findall(r"^\| (\d{3}) \| `([^|]+)` \|", PAGE, re.MULTILINE)
    ]
    assert len(messages) > 60
    missing, unknown = sorted(messages - set(listed)), sorted(set(listed) - messages)
    assert (missing, unknown) == ([], []), "change service/openapi/errors.md too: lacks, has"
    assert len(listed) == len(set(listed))


def test_every_published_example_of_an_error_has_a_message_that_the_tables_contain(messages):
    def produced(status, message):
        return any(
            status == table_status and re.fullmatch(re.escape(text).replace("…", ".+?"), message)
            for table_status, text in messages
        )

    examples = [
        example["value"]
        for response in document()["components"]["responses"].values()
        for example in response["content"]["application/json"]["examples"].values()
    ]
    assert len(examples) >= 15
    for example in examples:
        faults = example.get("errors")
        if faults:
            joined = "; ".join(f"{fault['field']}: {fault['message']}" for fault in faults)
            assert example["message"] == joined
        for message in [fault["message"] for fault in faults or [example]]:
            assert produced(example["status"], message), message


@pytest.mark.nodatabase
def test_every_message_about_a_field_is_our_own_and_none_is_from_marshmallow():
    operations = map(operation_of, create_app(Settings.read({})).view_functions.values())
    schemas = [operation.arguments for operation in operations if operation and operation.arguments]
    assert len(schemas) >= 10
    for field in [field for schema in schemas for field in schema.load_fields.values()]:
        # A field without validators never uses marshmallow's message validator_failed.
        assert not field.validators
        own = {key: text for key, text in field.error_messages.items() if key != "validator_failed"}
        assert set(own.values()) <= set(field_messages()), field.data_key


@pytest.mark.nodatabase
def test_the_published_examples_have_every_status_of_the_tables():
    published = {
        example["value"]["status"]
        for response in document()["components"]["responses"].values()
        for example in response["content"]["application/json"]["examples"].values()
    }
    assert published == {status for status, _ in {*errors.MESSAGES.values(), *BY_THE_SERVER}}
