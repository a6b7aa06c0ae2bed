"""JSON Schema of requests and responses, made from the marshmallow schemas.

The schema of a request allows no unknown members. The schema of a response does, because later
releases may add members.
"""

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from marshmallow import fields, missing

from service.values.schemas import RESERVED, StrictSchema
from service.values.types import Items, List, Metadata, Nested, OneOf, SomeOf

JSON = dict[str, Any]
AnyField = fields.Field[Any]


class Schemas:
    """The component ``schemas``; the first reference to a schema adds it."""

    def __init__(self, components: dict[str, JSON]) -> None:
        self.components = components

    def refer(self, name: str, schema: JSON) -> JSON:
        """Add a component and refer to it; raises ValueError if another schema has its name."""
        if self.components.setdefault(name, schema) != schema:
            raise ValueError(f"two schemas of the published document have the name {name}")
        return {"$ref": f"#/components/schemas/{name}"}

    def response(self, schema: type[StrictSchema]) -> JSON:
        """Add the schema of a response and refer to it; every field is required unless optional."""
        fields = schema().dump_fields
        # Generators for Go name the constructor of Token NewToken, so a schema needs another name.
        name = re.sub("^New", "Created", schema.__name__)
        return self.refer(
            name, object_of(fields, self.of_response, fields.keys() - schema.optional)
        )

    def some_members(self, schema: type[StrictSchema]) -> JSON:
        """Add the schema of an object with some members of a response, and refer to it."""
        name = schema.__name__.removesuffix("Details")
        return self.refer(f"Previous{name}", object_of(schema().dump_fields, self.of_response))

    def page(self, schema: type[StrictSchema]) -> JSON:
        """Add the schema of one page of a list and refer to it."""
        properties = {
            "data": {
                "type": "array",
                "items": self.response(schema),
                "description": "The items of this page, in order",
            },
            "nextCursor": {
                "type": ["string", "null"],
                "description": "The cursor of the next page; null on the last page",
            },
        }
        page = {"type": "object", "required": [*properties], "properties": properties}
        return self.refer(f"{schema.__name__}Page", page)

    def body(self, schema: StrictSchema) -> JSON:
        """Add the schema of a POST, or of a PATCH if it is partial, and refer to it.

        The ``properties`` of a PATCH have only the fields that a client may set, because tools make
        inputs of them. ``propertyNames`` allows the read-only fields as well, because a client may
        send an object back whole; the service ignores these fields, and rejects all other names.
        """
        name = type(schema).__name__.removesuffix("Details").removeprefix("New")
        fields = schema.load_fields
        optional = fields if schema.partial is True else schema.partial or ()
        required = {key for key, field in fields.items() if field.required} - {*optional}
        if schema.partial:
            described = object_of(fields, self.of_request, required)
            names = [field.data_key for field in schema.fields.values()]
            names += sorted(RESERVED.difference(names))
            return self.refer(f"{name}Changes", {**described, "propertyNames": {"enum": names}})
        described = object_of(fields, self.of_request_with_default, required)
        strict = {"additionalProperties": False, **schema.json_schema}
        return self.refer(f"{name}Input", {**described, **strict})

    def parameter(self, field: AnyField) -> JSON:
        # A query cannot express null, so the document omits the default None.
        schema = self.of_field(field, nullable=False)
        # Remove the examples, because the reference page would send one of them.
        schema.pop("examples", None)
        if isinstance(field.load_default, (int, str)):
            schema["default"] = field.load_default
        return {
            "name": field.data_key,
            "in": "query",
            "required": field.required,
            "description": schema.pop("description"),
            **({"style": "form", "explode": False} if isinstance(field, SomeOf) else {}),
            "schema": schema,
        }

    def of_response(self, field: AnyField) -> JSON:
        """Describe a field of a response, without limits: a later release may raise a limit."""
        is_metadata = isinstance(field, Metadata)
        schema = self.of_field(field, nullable=field.allow_none and not is_metadata)
        return without_limits({**schema, **Metadata.shown} if is_metadata else schema)

    def of_request(self, field: AnyField) -> JSON:
        schema = self.of_field(field, nullable=field.allow_none)
        return with_sentence(schema, getattr(field, "request_note", ""))

    def of_request_with_default(self, field: AnyField) -> JSON:
        """Describe a field in a request; the description names the field's default.

        The schema has no keyword ``default``, because generators of clients would conclude from it
        that the field is always present.
        """
        default, schema = default_of(field), self.of_request(field)
        return schema if default is None else with_sentence(schema, f"Default: {default}")

    def of_field(self, field: AnyField, *, nullable: bool) -> JSON:
        """Describe a field anywhere: its keywords, component and items, and null."""
        schema: JSON = {**field.metadata}
        if isinstance(field, Items):
            schema |= {"type": "array", "items": self.body(field.schema)}
        elif isinstance(field, List):
            schema |= {"type": "array", "items": self.of_field(field.inner, nullable=False)}
        elif isinstance(field, Nested):
            schema |= self.response(field.schema)
        elif isinstance(field, OneOf) and field.schema_name:
            values = {keyword: schema.pop(keyword) for keyword in ("type", "enum")}
            schema |= self.refer(field.schema_name, values)
        if nullable and "$ref" in schema:
            return {"anyOf": [{"$ref": schema.pop("$ref")}, {"type": "null"}], **schema}
        if nullable:
            schema["type"] = [schema["type"], "null"]
        return schema


LIMITS = {"minLength", "maxLength", "pattern", "minItems", "maxItems", "minimum", "maximum"}
LIMITS |= {"maxProperties", "propertyNames"}


def without_limits(schema: JSON) -> JSON:
    items = schema.get("items")
    rest = {keyword: value for keyword, value in schema.items() if keyword not in LIMITS}
    return rest | ({"items": without_limits(items)} if isinstance(items, dict) else {})


def with_defaults(example: Any, schema: type[StrictSchema] | None) -> Any:
    """Add absent fields, with their defaults or null, to an example: an object, a list or a page.

    The files of examples omit these fields.
    """
    if isinstance(example, list):
        return [with_defaults(item, schema) for item in example]
    if schema is None or not isinstance(example, dict):
        return example
    fields = schema().dump_fields
    if "nextCursor" in example and "next_cursor" not in fields:
        return {**example, "data": with_defaults(example["data"], schema)}
    shown = {}
    for name, field in fields.items():
        default = default_of(field)
        if field.data_key in example:
            inner = field.inner if isinstance(field, List) else None
            inner_schema = inner.schema if isinstance(inner, Nested) else None
            shown[field.data_key] = with_defaults(example[field.data_key], inner_schema)
        elif name not in schema.optional and (field.allow_none or default is not None):
            shown[field.data_key] = default
    return shown


def default_of(field: AnyField) -> object:
    """Return the value that a new object has without this field; None if there is none."""
    default = field.load_default() if callable(field.load_default) else field.load_default
    return None if default is missing else default


def with_sentence(schema: JSON, sentence: str) -> JSON:
    """Add a sentence to the description of a schema, unless it is empty."""
    if not sentence:
        return schema
    sentences = [str(schema.get("description", "")), sentence]
    return {**schema, "description": ". ".join(filter(None, sentences))}


def object_of(
    fields: Mapping[str, AnyField],
    describe: Callable[[AnyField], JSON],
    required: Collection[str] = (),
) -> JSON:
    """Describe an object with these fields; ``required`` has their names in Python."""
    keys = [field.data_key for name, field in fields.items() if name in required]
    properties = {str(field.data_key): describe(field) for field in fields.values()}
    return {
        "type": "object",
        **({"required": keys} if keys else {}),
        "properties": properties,
    }
