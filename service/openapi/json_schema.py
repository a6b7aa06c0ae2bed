"""JSON Schema of requests and responses, made from the marshmallow schemas.

The schema of a request allows no unknown members. The schema of a response does, because later
releases may add members.
"""

import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from marshmallow import fields, missing

from service.values.schemas import RESERVED, StrictSchema
from service.values.types import Items, List, Nested, OneOf, Pairs, SomeOf

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

        def describe(field: AnyField) -> JSON:
            return {**self.of_response(field), "description": "The old value"}

        name = schema.__name__.removesuffix("Details")
        return self.refer(f"Previous{name}", object_of(schema().dump_fields, describe))

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
        describe = partial(self.of_request, is_new=not schema.partial)
        described = object_of(schema.load_fields, describe, schema.required_names)
        if schema.partial:
            names = [field.data_key for field in schema.fields.values()]
            names += sorted(RESERVED.difference(names))
            return self.refer(f"{name}Changes", {**described, "propertyNames": {"enum": names}})
        strict = {"additionalProperties": False, **schema.json_schema}
        return self.refer(f"{name}Input", {**described, **strict})

    def parameter(self, field: AnyField) -> JSON:
        # A query cannot express null, so the document omits the default None. It omits examples,
        # because the reference page would send one of them.
        schema = self.of_field(field, nullable=False, without={"examples"})
        if isinstance(field.load_default, (int, str)):
            schema["default"] = field.load_default
        parameter = {
            "name": field.data_key,
            "in": "query",
            "required": field.required,
            "description": schema.pop("description"),
        }
        if isinstance(field, SomeOf):
            schema = {"minItems": 1, "type": "array", "items": schema}
            parameter |= {"style": "form", "explode": False}
        if isinstance(field, Pairs):
            # Without the example, the reference page would send pairs that it made up.
            parameter |= {"style": "deepObject", "explode": True, "example": {}}
        return {**parameter, "schema": schema}

    def of_response(self, field: AnyField) -> JSON:
        """Describe a field of a response, without limits: a later release may raise a limit."""
        schema = self.of_field(field, nullable=field.allow_none, without=LIMITS)
        return {**schema, **getattr(field, "shown", {})}

    def of_request(self, field: AnyField, *, is_new: bool = False) -> JSON:
        """Describe a field in a request; for a new object the description has the default.

        The schema has no keyword ``default``, because generators of clients would conclude from it
        that the field is always present.
        """
        schema = self.of_field(field, nullable=field.allow_none)
        if is_new:
            schema |= getattr(field, "limits_of_new", {})
        default = default_of(field) if is_new else None
        sentences = [
            schema.get("description"),
            getattr(field, "request_note", None),
            None if default is None else f"Default: {default}",
        ]
        return {**schema, "description": ". ".join(filter(None, sentences))}

    def of_field(self, field: AnyField, *, nullable: bool, without: Collection[str] = ()) -> JSON:
        """Describe a field anywhere: its keywords, component and items, and null."""
        schema: JSON = {key: value for key, value in field.metadata.items() if key not in without}
        if isinstance(field, List):
            items = (
                self.body(field.schema)
                if isinstance(field, Items)
                else self.of_field(field.inner, nullable=False, without=without)
            )
            schema |= {"type": "array", "items": items}
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
LIMITS |= {"propertyNames"}


def with_defaults(example: Any, schema: type[StrictSchema] | None) -> Any:
    """Add absent fields, with their defaults or null, to an example: an object, a list or a page.

    The files of examples omit these fields. Only a new object has an optional field: its default.
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
        key, default = field.data_key, default_of(field)
        if key in example:
            inner = field.inner if isinstance(field, List) else None
            inner_schema = inner.schema if isinstance(inner, Nested) else None
            shown[key] = with_defaults(example[key], inner_schema)
        elif name in schema.optional and field.load_default is missing:
            continue
        elif field.allow_none or default is not None:
            shown[key] = default
    return shown


def default_of(field: AnyField) -> object:
    """Return the value that a new object has without this field; None if there is none."""
    default = field.load_default() if callable(field.load_default) else field.load_default
    return None if default is missing else default


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
