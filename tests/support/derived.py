"""The views of the service, their fields, and values for each field, derived from its code.

Tests that use this module also test views and fields that are added later.
"""

import inspect
import json
import re
from functools import cache
from typing import NamedTuple

import pytest
from support.http import Client
from support.resources import HERE as TABLE
from support.resources import LISTS, RESOURCES, WORD, missing
from support.rows import UNKNOWN
from support.statements import NAME_IN_PYTHON

from service.app import create_app
from service.commands.load import lines
from service.database.statements import STATEMENTS
from service.settings import Settings
from service.values import types
from service.values.schemas import Query
from service.web.operation import Operation, operation_of

HERE = "tests/support/derived.py"

VALUES = {name: values for entry in RESOURCES for name, values in entry.values.items()}
# Fields that a client can set, but that the response shows in another way. The value says how.
NOT_SHOWN = {
    ("/api/me", "workspaceId"): "as the id of workspace",
    ("/api/me", "name"): "as the name of user",
    ("/api/webhooks/<id:id>", "enabled"): "as the state disabled, or another one",
}
# If the body of a request to this path also has these members, the response has all its fields.
COMPANIONS = {"/api/meetings/<id:id>": {"status": "completed"}}


class View(NamedTuple):
    """One method of one path."""

    method: str
    # The path as in the url_map: /api/tasks/<id:id>.
    rule: str
    operation: Operation
    # The names of statements in the source of the view, like tasks/create.
    statements: tuple[str, ...]

    @property
    def name(self):
        return f"{self.method} {self.rule}"

    @property
    def arguments(self):
        return self.operation.arguments

    @property
    def variables(self):
        return re.findall(r"<id:(\w+)>", self.rule)

    @property
    def tables(self):
        """The names before the variables of the path, which are also the names of their tables."""
        return re.findall(r"/(\w+)/<id:\w+>", self.rule)

    @property
    def resource(self):
        return re.search(r"/(\w+)(/<id:\w+>)?$", self.rule)[1]

    @property
    def takes_body(self):
        return self.arguments is not None and not isinstance(self.arguments, Query)

    @property
    def files(self):
        """The files of the statements and of their functions, for the message of a failure."""
        folders = {name.partition("/")[0] for name in self.statements}
        functions = sorted(f"functions/{folder}" for folder in folders)
        names = [*self.statements, *(name for name in functions if name in STATEMENTS)]
        return " or ".join(f"sql/{name}.sql" for name in names)

    def path(self, *ids):
        """Return the path below /api with these ids instead of its variables."""
        remaining = iter(ids)
        path = re.sub(r"<id:\w+>", lambda _: next(remaining), self.rule.removeprefix("/api"))
        assert "<" not in path, f"{self.rule} has a variable that {HERE} does not know"
        return path


def source_of(view):
    """Return the source of a view and of those functions of its module that it calls."""
    source, members = inspect.getsource(view), vars(inspect.getmodule(view))
    called = [
        members[name] for name in re.findall(r"(?<!def )\b(\w+)\(", source) if name in members
    ]
    return source + "".join(map(inspect.getsource, filter(inspect.isfunction, called)))


@cache
def views():
    app = create_app(Settings.read({}))
    found = []
    for rule in app.url_map.iter_rules():
        view = app.view_functions[rule.endpoint]
        if not rule.rule.startswith("/api/"):
            continue
        operation = operation_of(view)
        assert operation, f"the view {view.__name__} needs the decorator @operation"
        source = source_of(inspect.unwrap(view))
        found += [
            View(
                method,
                rule.rule,
                operation,
                tuple(NAME_IN_PYTHON.findall(source)),
            )
            for method in sorted(rule.methods - {"HEAD", "OPTIONS"})
        ]
    return sorted(found, key=lambda view: (view.rule, view.method))


def views_of(*methods, kinds=None, body=None):
    """Return the views with these methods.

    With ``kinds``, return only views whose response is of one of these kinds. With ``body``, return
    only views that take a body, or only views that take none.
    """
    return [
        view
        for view in views()
        if view.method in methods
        and (kinds is None or view.operation.kind in kinds)
        and (body is None or view.takes_body == body)
    ]


def view_of(paged):
    found = [view for view in views_of("GET") if view.rule == f"/api{paged.path}"]
    assert found, f"no view has the path of the list {paged.path}: see service/api/__init__.py"
    return found[0]


def by_name(views):
    return pytest.mark.parametrize("view", views, ids=lambda view: view.name)


def key(field):
    return field.data_key


def parameter(field):
    """Return the name of a query parameter; one that takes an object has a name for each pair."""
    return f"{key(field)}[name]" if isinstance(field, types.Pairs) else key(field)


def settable(schema):
    """Return the fields of a body, except lists of objects, which have fields of their own."""
    return [
        field
        for field in schema.load_fields.values()
        if not field.dump_only and not isinstance(field, types.Items)
    ]


def lists_of_objects(schema):
    return [field for field in schema.load_fields.values() if isinstance(field, types.Items)]


class Values:
    """Valid values for every field.

    ``references`` has the ids of rows that a field may refer to, by the name of the field.
    """

    def __init__(self, references):
        self.references = references

    def of(self, field, schema):
        """Return two values for a field, neither of them its default; or all its choices."""
        name = key(field)
        if name in VALUES:
            return VALUES[name]
        match field:
            case types.OneOf():
                return [*field.choices]
            case types.NewId():
                return [UNKNOWN.replace("1890", str(number)) for number in (2222, 3333)]
            case types.CountingNumber():
                return [7, 8]
            case lines.Fingerprint():
                return ["0123456789abcdef", "f" * 16]
            case lines.UserRef():
                return ["bob@example.com", "alice@example.com"]
            case types.Id():
                if name not in self.references:
                    missing(f"{TABLE}: no entry has the field {name} in its references")
                return self.references[name]
            case lines.PastTimestamp():
                return ["2025-03-01T09:00:00.001Z", "2025-03-02T09:00:00.001Z"]
            case types.Metadata():
                return [{"ticket": "one"}, {"ticket": "two"}]
            case types.Day():
                return ["2090-03-01", "2090-04-01"]
            case types.Timestamp():
                # The later a field is in its schema, the later are its values, so that a meeting
                # ends after it starts.
                timestamps = [other for other in settable(schema) if type(other) is type(field)]
                year = 2090 + timestamps.index(field)
                return [f"{year}-03-01T09:00:00.125Z", f"{year}-04-01T09:00:00.000Z"]
            case types.Timezone():
                return ["Asia/Tokyo", "Europe/Berlin"]
            case types.Email():
                return [f"{name}1@example.com", f"{name}2@example.com"]
            case types.URL():
                # These hosts are addresses, so no name server is needed.
                return ["https://1.1.1.1/one", "https://1.1.1.1/two"]
            case types.String():
                return [f"{name} {n}".ljust(field.min, "x")[: field.max] for n in ("one", "two")]
            case types.Boolean():
                return [not field.load_default, field.load_default is True]
            case types.StringList():
                field.inner.data_key = name
                items = self.of(field.inner, schema)[:2]
                return [items, items[:1]]
        return missing(f"{HERE} has no values for the field {name}, a {type(field).__name__}")

    def required(self, schema):
        """Return the smallest body. If there are lists of objects, the first of them has one."""
        return {
            key(field): self.of(field, schema)[0] for field in settable(schema) if field.required
        } | {key(field): [self.required(field.schema)] for field in lists_of_objects(schema)[:1]}


def full_line(kind, values):
    """Return a line with every field of its schema.

    If a field has choices, the line has the last one. For a status, this is the state of a finished
    object.
    """
    schema = lines.TYPES[kind]
    line = {key(field): values.of(field, schema)[0] for field in settable(schema)}
    for field in settable(schema):
        if isinstance(field, types.OneOf):
            line[key(field)] = field.choices[-1]
    # Alice and Bob are members already.
    return {**line, "user": "charlie@example.com"} if kind == "member" else line


def references(connection, cast, insert_into):
    """Return ids of rows in Alice's workspace, by the name of the field that may refer to them."""
    return {
        "assigneeId": [cast["bob"], cast["alice"]],
        "workspaceId": [cast["acme"]],
        **{
            name: [insert_into(entry.table), insert_into(entry.table)]
            for entry in RESOURCES
            for name in entry.references
        },
    }


def filters(schema):
    """Return the fields of a query that select rows, which are all but ``limit`` and ``cursor``."""
    return [
        field
        for field in (schema.fields.values() if schema else ())
        if not isinstance(field, types.Limit) and key(field) != "cursor"
    ]


def filter_values(field, ids, text, cursor):
    """Return the values to try for a filter, including ``ids`` if the filter takes an id."""
    match field:
        case types.Cursor():
            return [cursor]
        case types.Timestamp():
            # Times before, between and after the rows of a world.
            return ["2020-01-01T00:00:00Z", "2098-01-01T00:00:00Z", "2100-01-01T00:00:00Z"]
        case types.OneOf() | types.SomeOf():
            return [*field.choices]
        case types.Id():
            return [*field.words, *ids]
        case types.Boolean():
            return ["true", "false"]
        case types.String() | types.Pairs():
            return [text, "-absent", "absent"]
    return missing(f"{HERE} has no values for the filter {key(field)}, a {type(field).__name__}")


# A page has at most this many bytes of text, unless its first row alone has more.
MAX_TEXT_BYTES = 1_048_576
# These texts repeat themselves, so PostgreSQL could compress them to a hundredth of their size.
DOMAIN = f"{'b' * 60}.{'c' * 60}.{'d' * 37}.example.com"
ADDRESSES = [f"{'a' * 60}{number:03}@{DOMAIN}" for number in range(200)]


def longest(field):
    """Return the longest value that a field allows, or None if its values are always short."""
    match field:
        case types.StringList(inner=types.Email()):
            return ADDRESSES
        case types.StringList():
            return [longest(field.inner)] * field.max
        case types.Metadata():
            # The pair is for the lists that filter by it.
            return json.dumps({"name": "x", **{str(number): "x" * 500 for number in range(32)}})
        case types.String():
            # U+0001, because it takes one byte in the table.
            return "\x01" * field.max
    return None


def bytes_of(value):
    return sum(map(len, value)) if value else 0


@cache
def large_fields():
    """Return pairs (list, field) if the field could make a page of that list too large."""
    return [
        (name, column)
        for name, paged in LISTS.items()
        for column, field in view_of(paged).operation.response().fields.items()
        if bytes_of(longest(field)) * paged.maximum > MAX_TEXT_BYTES
    ]


# Members of responses that change with each request.
VOLATILE = {"requestId", "generatedAt", "remaining", "resetsAt", "lastUsedAt"}


def stable(value):
    """Return a response without the members that change with each request."""
    if isinstance(value, dict):
        return {name: stable(inner) for name, inner in value.items() if name not in VOLATILE}
    return [stable(inner) for inner in value] if isinstance(value, list) else value


def outcome(response):
    return (
        response.status_code,
        stable(response.get_json(silent=True)),
        response.headers.get("ETag"),
    )


def body_of(view, values):
    """Return a valid body for a view, {} if it takes no body, or None for DELETE."""
    if view.method == "DELETE":
        return None
    if not view.takes_body:
        return {}
    if body := values.required(view.arguments):
        return body
    first = settable(view.arguments)[0]
    return {key(first): values.of(first, view.arguments)[0]}


def session(app, name):
    client = Client(app, cookie=f"tmw_session_{name}_{WORD}")
    # A write with a cookie must declare JSON, even without a body.
    client.headers["Content-Type"] = "application/json"
    return client
