"""JSON Schema of requests and responses, made from the marshmallow schemas.

The schema of a request allows no unknown members. The schema of a response does, because later
releases may add members.
"""

from collections.abc import Iterable
from typing import Any

from marshmallow import Schema, fields, missing

from service.values.schemas import RESERVED, StrictSchema
from service.values.types import Items, List, Nested, OneOf, SomeOf

JSON = dict[str, object]
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

    def response(self, schema: type[Schema]) -> JSON:
        """Add the schema of a response and refer to it; every field is required unless optional."""
        members = schema().dump_fields
        optional = getattr(schema, "optional", ())
        required = [field for name, field in members.items() if name not in optional]
        properties = {str(field.data_key): self.of_response(field) for field in members.values()}
        # Generators for Go name the constructor of Token NewToken, so a schema needs another name.
        name = schema.__name__
        name = f"Created{name.removeprefix('New')}" if name.startswith("New") else name
        return self.refer(name, object_of(properties, keys(required)))

    def some_members(self, schema: type[Schema]) -> JSON:
        """Add the schema of an object with some members of a response, and refer to it."""
        name = schema.__name__.removesuffix("Details")
        members = schema().dump_fields.values()
        properties = {str(field.data_key): self.of_response(field) for field in members}
        return self.refer(f"Previous{name}", object_of(properties, []))

    def page(self, schema: type[StrictSchema]) -> JSON:
        """Add the schema of one page of a list and refer to it."""
        properties: dict[str, JSON] = {
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
        return self.refer(f"{schema.__name__}Page", object_of(properties, [*properties]))

    def body(self, schema: Schema) -> JSON:
        """Add the schema of a POST, or of a PATCH if it is partial, and refer to it."""
        name = type(schema).__name__.removesuffix("Details").removeprefix("New")
        if schema.partial:
            return self.refer(f"{name}Changes", self.changes(schema))
        taken = schema.load_fields.values()
        required = [field for field in taken if field.required]
        properties = {str(field.data_key): self.of_request_with_default(field) for field in taken}
        strict = {"additionalProperties": False, **getattr(schema, "json_schema", {})}
        return self.refer(f"{name}Input", {**object_of(properties, keys(required)), **strict})

    def changes(self, schema: Schema) -> JSON:
        """Describe the body of a PATCH: no field is required, unless ``partial`` leaves it out.

        ``properties`` has only the fields that a client may set, because tools make inputs of them.
        ``propertyNames`` allows the read-only fields as well, because a client may send an object
        back whole; the service ignores these fields, and rejects all other names.
        """
        taken = schema.load_fields.values()
        properties = {str(field.data_key): self.of_request(field) for field in taken}
        names = [*dict.fromkeys([*keys(schema.fields.values()), *sorted(RESERVED)])]
        optional = schema.fields if schema.partial is True else schema.partial or ()
        required = [field for name, field in schema.load_fields.items() if name not in optional]
        return {**object_of(properties, keys(required)), "propertyNames": {"enum": names}}

    def parameter(self, field: AnyField) -> JSON:
        # A query cannot express null, so the document omits the default None.
        schema = self.of_field(field, nullable=False)
        # Remove the examples, because the reference page would send one of them.
        schema.pop("examples", None)
        if isinstance(field.load_default, (int, str)):
            schema["default"] = field.load_default
        described = {"description": schema.pop("description")} if "description" in schema else {}
        commas = {"style": "form", "explode": False} if isinstance(field, SomeOf) else {}
        parameter = {"name": field.data_key, "in": "query", "required": field.required}
        return {**parameter, **described, **commas, "schema": schema}

    def of_response(self, field: AnyField) -> JSON:
        """Describe a field of a response, without limits: a later release may raise a limit."""
        return without_limits(self.of_field(field, nullable=field.allow_none))

    def of_request(self, field: AnyField) -> JSON:
        schema = self.of_field(field, nullable=field.allow_none)
        return with_sentence(schema, getattr(field, "request_note", ""))

    def of_request_with_default(self, field: AnyField) -> JSON:
        """Describe a field in a request; the description names the field's default.

        The schema has no keyword ``default``, because generators of clients would conclude from it
        that the field is always present.
        """
        default = default_of(field)
        return with_sentence(
            self.of_request(field), "" if default is None else f"Default: {default}"
        )

    def of_field(self, field: AnyField, *, nullable: bool) -> JSON:
        """Describe a field anywhere: its keywords, component and items, and null."""
        schema: JSON = {**field.metadata}
        if isinstance(field, Items):
            schema |= {"type": "array", "items": self.body(field.schema)}
        elif isinstance(field, List):
            items = self.of_field(field.inner, nullable=False)
            schema |= {"type": "array", "items": items}
        if isinstance(field, Nested):
            schema |= self.response(field.schema)
        if isinstance(field, OneOf) and field.schema_name:
            values = {keyword: schema.pop(keyword) for keyword in ("type", "enum")}
            schema |= self.refer(field.schema_name, values)
        if nullable and "$ref" in schema:
            reference = {"$ref": schema.pop("$ref")}
            return {"anyOf": [reference, {"type": "null"}], **schema}
        if nullable:
            schema["type"] = [schema["type"], "null"]
        return schema


LIMITS = {"minLength", "maxLength", "pattern", "minItems", "maxItems", "minimum", "maximum"}


def without_limits(schema: JSON) -> JSON:
    items = schema.get("items")
    rest = {keyword: value for keyword, value in schema.items() if keyword not in LIMITS}
    return rest | ({"items": without_limits(items)} if isinstance(items, dict) else {})


def with_defaults(example: object, schema: type[Schema] | None) -> object:
    """Add absent fields, with their defaults or null, to an example: an object, a list or a page.

    The files of examples omit these fields.
    """
    if isinstance(example, list):
        return [with_defaults(item, schema) for item in example]
    if schema is None or not isinstance(example, dict):
        return example
    members = {str(field.data_key): (name, field) for name, field in schema().dump_fields.items()}
    if "nextCursor" in example and "nextCursor" not in members:
        return {**example, "data": with_defaults(example["data"], schema)}
    optional = getattr(schema, "optional", ())
    shown = {
        key: default_of(field)
        for key, (name, field) in members.items()
        if name not in optional and (field.allow_none or default_of(field) is not None)
    } | example
    return {
        key: with_defaults(shown[key], inner_schema(field))
        for key, (_, field) in members.items()
        if key in shown
    }


def default_of(field: AnyField) -> object:
    """Return the value that a new object has without this field; None if there is none."""
    default = field.load_default() if callable(field.load_default) else field.load_default
    return None if default is missing else default


def inner_schema(field: AnyField) -> type[Schema] | None:
    """Return the schema of the objects in a list of objects, otherwise None."""
    inner = field.inner if isinstance(field, List) else None
    return inner.schema if isinstance(inner, Nested) else None


def with_sentence(schema: JSON, sentence: str) -> JSON:
    """Add a sentence to the description of a schema, unless it is empty."""
    if not sentence:
        return schema
    sentences = [str(schema.get("description", "")), sentence]
    return {**schema, "description": ". ".join(filter(None, sentences))}


def keys(members: Iterable[AnyField]) -> list[str]:
    return [str(field.data_key) for field in members]


def object_of(properties: dict[str, JSON], required: list[str]) -> JSON:
    return {
        "type": "object",
        **({"required": required} if required else {}),
        "properties": properties,
    }
