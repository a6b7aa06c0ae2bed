"""A schema may have any hook of marshmallow, and any validator; the faster loader skips none."""

from dataclasses import replace
from functools import wraps
from itertools import product

import pytest
from flask import Response
from marshmallow import (
    EXCLUDE,
    ValidationError,
    fields,
    post_load,
    pre_load,
    validate,
    validates,
    validates_schema,
)
from support.derived import lists_of_objects, views_of
from support.rows import TOKENS

from service.database.statements import to_json
from service.speedups.fields import is_plain
from service.values.schemas import Resource, StrictSchema
from service.values.types import Items, Text
from service.web.operation import operation

VALID = {"title": "a"}


class Probe(Resource):
    title = Text(20, min=1, required=True)
    note = Text(20, load_default=None)
    id = Text(20, dump_only=True)


def refuse(word="no", field="title"):
    raise ValidationError({field: [f"must not be {word}"]})


class ValidatesSchema(Probe):
    @validates_schema
    def check(self, values, **_):
        if values.get("title") == "no":
            refuse()


class ValidatesWithOriginal(Probe):
    @validates_schema(pass_original=True)
    def check(self, values, original, **_):
        if original.get("title") != values.get("title"):
            refuse("trimmed")


class ValidatesCollection(Probe):
    @validates_schema(pass_collection=True, skip_on_field_errors=False)
    def check(self, values, *, many, **_):
        if not many and values.get("title") == "no":
            refuse()


class ValidatesField(Probe):
    @validates("title", "note")
    def check(self, value, data_key):
        if value == "no":
            refuse(field=data_key)


class PreLoad(Probe):
    @pre_load
    def rename(self, members, **_):
        return {"title" if name == "name" else name: value for name, value in members.items()}


class PreLoadCollection(Probe):
    @pre_load(pass_collection=True)
    def shout(self, members, *, many, **_):
        return members if many else {**members, "note": "from a hook"}


class PostLoad(Probe):
    @post_load
    def add(self, values, **_):
        return {**values, "length": len(values.get("title", ""))}


class PostLoadWithOriginal(Probe):
    @post_load(pass_original=True)
    def add(self, values, original, **_):
        return {**values, "names": sorted(original)}


class PostLoadCollection(Probe):
    @post_load(pass_collection=True)
    def add(self, values, **_):
        return {**values, "last": True}


class OtherHookOfTheSameName(Probe):
    @pre_load
    def ignore_read_only(self, members, **_):
        return {**members, "note": "from a hook"}


class Inherits(ValidatesSchema):
    other = Text(20, load_default=None)


class ValidatedField(Probe):
    title = Text(20, required=True, validate=validate.NoneOf(["no"]))


class ChangedField(Probe):
    title = Text(20, required=True, pre_load=[str.upper], post_load=[str.swapcase])


class NamedField(Probe):
    note = Text(20, attribute="remark", load_default=None)


class FieldOfMarshmallow(Probe):
    note = fields.Nested(Probe)


class IgnoresUnknown(Probe):
    class Meta:
        unknown = EXCLUDE


class ManyItems(StrictSchema):
    items = Items(ValidatesSchema(), 5, load_default=list)


class PartialItems(StrictSchema):
    """As in the update of a batch: a PATCH in which one field is required."""

    items = Items(ValidatedField(partial=["note", "id"]), 5, load_default=list)


class NestedWithHook(Probe):
    note = fields.Nested(ValidatesSchema)


class CountsItems(StrictSchema):
    items = fields.List(fields.Nested(PostLoad), required=True)

    @validates_schema
    def check(self, values, **_):
        if len(values.get("items", ())) > 1:
            refuse("two", "items")


SCHEMAS = [
    *(ValidatesSchema, ValidatesWithOriginal, ValidatesCollection, ValidatesField, PreLoad),
    *(PreLoadCollection, PostLoad, PostLoadWithOriginal, PostLoadCollection, Inherits),
    *(OtherHookOfTheSameName, ValidatedField, ChangedField, NamedField, FieldOfMarshmallow),
    *(IgnoresUnknown, ManyItems, PartialItems, NestedWithHook, CountsItems, Probe),
]
ONE = [
    *(VALID, {}, {"title": "no"}, {"title": " no "}, {"title": "a", "note": "no"}, {"name": "a"}),
    *({"title": "a", "id": "x"}, {"title": "a", "note": {"title": "no"}}, {"note": {"note": "x"}}),
    *({"title": None}, {"note": "x"}),
]
# With partial=True no field is required; with a list, only the fields that it leaves out.
CASES = [
    *((kind, None) for kind in SCHEMAS),
    *product([Probe, ValidatesSchema, PreLoad, NestedWithHook], [True, ("note",)]),
]
BODIES = [*ONE, *({"items": [item]} for item in ONE), {"items": [VALID, VALID]}]


@pytest.fixture(scope="module")
def services(settings, start_shared):
    """Return the service without and with speedups; each view answers with its arguments."""
    found = [start_shared(replace(settings, speedups=speedups)) for speedups in (False, True)]
    for app, (number, (kind, partial)) in product(found, enumerate(CASES)):
        path = f"/api/{number}"
        view = operation(kind(partial=partial))(lambda values: Response(to_json(values)))
        app.add_url_rule(path, path, view, methods=["POST"])
    return found


def answer(app, path, body):
    headers = {"Authorization": f"Bearer {TOKENS['alice']}"}
    response = app.test_client().post(path, json=body, headers=headers)
    content = response.get_json(force=True)
    content.pop("requestId", None)
    return response.status_code, content


@pytest.mark.slow
@pytest.mark.parametrize(
    "number", range(len(CASES)), ids=[f"{kind.__name__}, {partial}" for kind, partial in CASES]
)
def test_no_hook_and_no_validator_of_a_schema_is_skipped(services, number):
    path, statuses = f"/api/{number}", set()
    for body in BODIES:
        plain, fast = (answer(app, path, body) for app in services)
        assert fast == plain, body
        statuses.add(plain[0])
    assert statuses == {200, 400}


@pytest.mark.nodatabase
def test_the_faster_loader_loads_each_resource_of_the_service():
    schemas = [view.arguments for view in views_of("POST", "PATCH", body=True)]
    items = [field.schema for schema in schemas for field in lists_of_objects(schema)]
    resources = [schema for schema in (*schemas, *items) if isinstance(schema, Resource)]
    assert len(resources) > 10
    assert all(map(is_plain, resources))


@pytest.mark.nodatabase
def test_the_faster_loader_leaves_a_schema_of_lists_to_marshmallow():
    assert is_plain(Probe())
    assert not is_plain(Probe(many=True))


@pytest.mark.parametrize("faster", [False, True])
def test_a_decorator_above_or_below_the_operation_runs_with_and_without_speedups(
    settings, start, faster
):
    def shout(view):
        @wraps(view)
        def shouting(*values, **variables):
            return Response(view(*values, **variables).get_data().upper())

        return shouting

    def title(values):
        return Response(values["title"])

    above, below = shout(operation(Probe())(title)), operation(Probe())(shout(title))
    app = start(replace(settings, speedups=faster))
    headers = {"Authorization": f"Bearer {TOKENS['alice']}"}
    views = {"/api/above": above, "/api/below": below}
    for path, view in views.items():
        app.add_url_rule(path, path, view, methods=["POST"])
    for path in views:
        response = app.test_client().post(path, json={"title": "ask again"}, headers=headers)
        assert response.text == "ASK AGAIN"
