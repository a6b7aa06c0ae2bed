"""JSON Schema of what requests take and responses have, from the marshmallow schemas."""

from collections.abc import Iterable
from typing import Any

from marshmallow import Schema, fields, missing

from service.fields import Enum, Id, StrictSchema, Text, Timestamp, Timezone, timezones

JSONSchema = dict[str, Any]


class Schemas:
    """The component ``schemas``: each is added when something first refers to it."""

    def __init__(self, components: dict[str, JSONSchema]) -> None:
        self.components = components

    def response(self, schema: type[StrictSchema]) -> JSONSchema:
        """Refer to what a response has: every field, but for the optional ones."""
        instance = schema()
        optional = getattr(schema, "optional", ())
        required = [field for name, field in instance.fields.items() if name not in optional]
        return self._refer(schema.__name__, instance.fields.values(), required, self.of_response)

    def body(self, schema: Schema) -> JSONSchema:
        """Refer to what a request may send: to create a resource, or (``partial``) to change it."""
        name = type(schema).__name__.removesuffix("Details")
        name = f"{name}Changes" if schema.partial else f"New{name}"
        taken = list(schema.load_fields.values())
        required = [field for field in taken if field.required and not schema.partial]
        of_field = self.of_request if schema.partial else self.of_request_with_default
        return self._refer(name, taken, required, of_field)

    def _refer(
        self,
        name: str,
        members: Iterable[fields.Field[Any]],
        required: Iterable[fields.Field[Any]],
        of_field: Any,
    ) -> JSONSchema:
        if name not in self.components:
            self.components[name] = strict_object(
                {str(field.data_key): of_field(field) for field in members},
                [str(field.data_key) for field in required],
            )
        return {"$ref": f"#/components/schemas/{name}"}

    def of_response(self, field: fields.Field[Any]) -> JSONSchema:
        """What a response promises of one field."""
        if isinstance(field, fields.Nested):
            reference = self.response(type(field.schema))  # type: ignore[arg-type]
            return {"anyOf": [reference, {"type": "null"}]} if field.allow_none else reference
        return {**of_field(field), **getattr(field, "response_schema", {})}

    @staticmethod
    def of_request(field: fields.Field[Any]) -> JSONSchema:
        """What a request may send for one field."""
        schema = of_field(field)
        if isinstance(field, Enum):
            schema["enum"] = [*field.accepts, *([None] if field.allow_none else [])]
        if isinstance(field, Timezone):
            schema["enum"] = sorted(timezones())
        if isinstance(field, Timestamp):
            schema["description"] = "ISO 8601 with a time, from 1900 to 9998; no offset means UTC"
        return schema

    def of_request_with_default(self, field: fields.Field[Any]) -> JSONSchema:
        """The same, with what an absent field stands for."""
        default = field.load_default() if callable(field.load_default) else field.load_default
        schema = self.of_request(field)
        return schema if default is missing else {**schema, "default": default}


def of_field(field: fields.Field[Any]) -> JSONSchema:
    """The JSON Schema that the field carries, with its items and null."""
    schema = dict(field.metadata)
    if isinstance(field, fields.List):
        schema.update(type="array", items=of_field(field.inner))
    if field.allow_none:
        schema["type"] = [schema["type"], "null"]
    return schema


def query_parameter(field: fields.Field[Any]) -> dict[str, Any]:
    """One parameter of a query."""
    # In a query there is no null, so None is not a value either.
    schema = {**Schemas.of_request(field), "type": field.metadata["type"]}
    if isinstance(field, Enum):
        schema["enum"] = list(field.accepts)
    if isinstance(field, Id):
        # Nothing has a malformed id: a filter by it is valid and matches nothing.
        schema = dict(Text(field.max, min=field.min).metadata)
    parameter = {"name": field.data_key, "in": "query", "required": field.required}
    if "description" in schema:
        parameter["description"] = schema.pop("description")
    if isinstance(field.load_default, (int, str)):
        schema["default"] = field.load_default
    return {**parameter, "schema": schema}


def strict_object(properties: dict[str, JSONSchema], required: list[str]) -> JSONSchema:
    """An object with these members and no others."""
    return {
        "type": "object",
        "additionalProperties": False,
        **({"required": required} if required else {}),
        "properties": properties,
    }
