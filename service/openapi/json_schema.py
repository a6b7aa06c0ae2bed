"""JSON Schema of what requests take and responses have, from the marshmallow schemas.

Requests are strict: a name that they do not have is rejected. Responses are open: they may get new
members.
"""

from collections.abc import Iterable
from typing import Any

from marshmallow import Schema, fields, missing

from service.fields import Enum, Id
from service.schemas import StrictSchema

JSONSchema = dict[str, Any]


class Schemas:
    """The component ``schemas``: each is added when something first refers to it."""

    def __init__(self, components: dict[str, JSONSchema]) -> None:
        self.components = components

    def refer(self, name: str, schema: JSONSchema) -> JSONSchema:
        """Refer to a component; raises ValueError if another schema has its name."""
        if self.components.setdefault(name, schema) != schema:
            raise ValueError(f"two schemas of the published document have the name {name}")
        return {"$ref": f"#/components/schemas/{name}"}

    def response(self, schema: type[StrictSchema]) -> JSONSchema:
        """Refer to what a response has: every field, but for the optional ones."""
        members = schema().fields
        optional = getattr(schema, "optional", ())
        required = [field for name, field in members.items() if name not in optional]
        properties = {str(field.data_key): self.of_response(field) for field in members.values()}
        return self.refer(schema.__name__, object_of(properties, keys(required)))

    def page(self, schema: type[StrictSchema]) -> JSONSchema:
        """Refer to one page of a list."""
        properties: dict[str, JSONSchema] = {
            "data": {"type": "array", "items": self.response(schema)},
            "nextCursor": {
                "type": ["string", "null"],
                "description": "The cursor of the next page; null on the last one",
            },
        }
        return self.refer(f"{schema.__name__}Page", object_of(properties, [*properties]))

    def body(self, schema: Schema) -> JSONSchema:
        """Refer to what a request may send: to create a resource, or (``partial``) to change it."""
        name = type(schema).__name__.removesuffix("Details")
        name = f"{name}Changes" if schema.partial else f"New{name}"
        taken = list(schema.load_fields.values())
        required = [field for field in taken if field.required and not schema.partial]
        of_field = self.of_request if schema.partial else self.of_request_with_default
        properties = {str(field.data_key): of_field(field) for field in taken}
        strict = {"additionalProperties": False}
        return self.refer(name, {**object_of(properties, keys(required)), **strict})

    def parameter(self, field: fields.Field[Any]) -> JSONSchema:
        """One parameter of a query."""
        # In a query there is no null, so None is not a default either.
        schema = self.of_field(field, "request_schema", nullable=False)
        if isinstance(field.load_default, (int, str)):
            schema["default"] = field.load_default
        described = {"description": schema.pop("description")} if "description" in schema else {}
        parameter = {"name": field.data_key, "in": "query", "required": field.required}
        return {**parameter, **described, "schema": schema}

    def of_response(self, field: fields.Field[Any]) -> JSONSchema:
        """What a response promises of one field."""
        return self.of_field(field, "response_schema", nullable=field.allow_none)

    def of_request(self, field: fields.Field[Any]) -> JSONSchema:
        """What a request may send for one field."""
        return self.of_field(field, "request_schema", nullable=field.allow_none)

    def of_request_with_default(self, field: fields.Field[Any]) -> JSONSchema:
        """The same, with what an absent field stands for.

        In words: generators take the keyword ``default`` for a promise that the field is there.
        """
        default = field.load_default() if callable(field.load_default) else field.load_default
        schema = self.of_request(field)
        if default is missing or default is None:
            return schema
        sentences = [schema.get("description", ""), f"Default: {default}"]
        return {**schema, "description": ". ".join(filter(None, sentences))}

    def of_field(self, field: fields.Field[Any], kind: str, *, nullable: bool) -> JSONSchema:
        """The JSON Schema that the field carries, with its component, its items and null."""
        schema = {**field.metadata, **getattr(field, kind, {})}
        if isinstance(field, fields.List):
            schema |= {"type": "array", "items": self.of_field(field.inner, kind, nullable=False)}
        if isinstance(field, fields.Nested):
            schema |= self.response(type(field.schema))  # type: ignore[arg-type]
        if isinstance(field, Enum):
            values = {keyword: schema.pop(keyword) for keyword in ("type", "enum")}
            schema |= self.refer(field.schema_name, values)
        if isinstance(field, Id) and field.words:
            described = {key: schema.pop(key) for key in ("description",) if key in schema}
            words = self.of_field(field.words, kind, nullable=False)
            schema = {"anyOf": [schema, words], **described}
        if nullable and "$ref" in schema:
            reference = {"$ref": schema.pop("$ref")}
            return {"anyOf": [reference, {"type": "null"}], **schema}
        if nullable:
            schema["type"] = [schema["type"], "null"]
        return schema


def keys(members: Iterable[fields.Field[Any]]) -> list[str]:
    """The names of the fields in JSON."""
    return [str(field.data_key) for field in members]


def object_of(properties: dict[str, JSONSchema], required: list[str]) -> JSONSchema:
    """An object with these members."""
    return {
        "type": "object",
        **({"required": required} if required else {}),
        "properties": properties,
    }
