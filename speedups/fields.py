"""Loads valid bodies field by field, without marshmallow's loop over all fields of a schema.

The resources of the service have only one hook, which drops read-only members. marshmallow loads
the bodies of a schema with another hook, so no check of a schema is skipped.

Relies on ``Field.deserialize`` doing all of the work for one field, as marshmallow documents it,
and on ``Schema._hooks``, which marshmallow does not document.
"""

from collections.abc import Callable
from functools import cache, lru_cache

from marshmallow import Schema, ValidationError, missing

from service.context import current_request
from service.values import Values
from service.values.schemas import Query, Resource, StrictSchema
from service.values.types import Field, Items
from service.web.operation import View, operation_of
from service.web.requests import parse_query, read_object


def is_plain(schema: Schema) -> bool:
    """Return whether a ``Loader`` loads the same values as marshmallow.

    The schema is a resource that loads one object, without hooks of its own. Each field has its own
    name, and converts a value without the other members of the body.
    """
    hooks = {name for found in schema._hooks.values() for name, *_ in found}
    return (
        hooks == {"ignore_read_only"}
        and type(schema).ignore_read_only is Resource.ignore_read_only  # type: ignore[attr-defined]
        and not schema.many
        and all(
            isinstance(field, Field) and field.attribute is None
            for field in schema.load_fields.values()
        )
    )


class Loader:
    """Loads valid bodies of a plain schema; marshmallow loads all others, and raises their errors.

    A body with a read-only member counts as invalid here, so marshmallow drops or rejects it.
    """

    def __init__(self, schema: StrictSchema) -> None:
        self.load: Callable[[Values], Values] = schema.load
        self.required = schema.required_names
        # By the JSON name of each field that a body may set: its Python name and the field.
        self.by_key = {
            field.data_key: (name, field.deserialize) for name, field in schema.load_fields.items()
        }
        absent = {} if schema.partial else schema.load_fields
        values = {name: field.load_default for name, field in absent.items()}
        # The defaults of absent fields, and the functions that make a new default for each body.
        self.defaults = {
            name: value
            for name, value in values.items()
            if value is not missing and not callable(value)
        }
        self.factories = {name: value for name, value in values.items() if callable(value)}

    def __call__(self, members: Values) -> Values:
        values = self.defaults.copy()
        for name, make in self.factories.items():
            values[name] = make()
        try:
            for key, value in members.items():
                name, deserialize = self.by_key[key]
                values[name] = deserialize(value)
            if self.required <= values.keys():
                return values
        except (KeyError, ValidationError):
            pass
        return self.load(members)


@cache
def faster(view: View) -> View:
    """Return the view with a faster reader of its arguments, if it has a reader of the service."""
    operation = operation_of(view)
    inner: View = getattr(view, "__wrapped__", view)
    # A decorator above ``operation`` hands the attribute on, and must still run.
    if operation is None or operation.arguments is None or operation_of(inner):
        return view
    schema = operation.arguments
    read = cached_query(schema) if isinstance(schema, Query) else body(schema)
    return operation(inner, read)


def body(schema: StrictSchema) -> Callable[[Schema], Values]:
    load: Callable[[Values], Values] = Loader(schema) if is_plain(schema) else schema.load
    for field in schema.load_fields.values():
        if isinstance(field, Items) and is_plain(field.schema):
            field.load = Loader(field.schema)
    return lambda _: load(read_object())


def cached_query(schema: Query) -> Callable[[Schema], Values]:
    """Return a reader that keeps the loaded values of a query: clients repeat their queries."""

    @lru_cache(maxsize=256)
    def load(query: bytes) -> Values:
        values: Values = schema.load(parse_query(query, schema))
        return values

    return lambda _: load(current_request().query_string).copy()
