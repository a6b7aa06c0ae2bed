"""Every field that a client may set: sent, read back, cleared and announced, in every view.

The views and their fields come from the code, so a new field is tested as soon as its schema has
it. A failure names the file to edit.
"""

import json

import pytest
from support.commands import CommandRunner
from support.derived import (
    COMPANIONS,
    HERE,
    NOT_SHOWN,
    Values,
    by_name,
    full_line,
    key,
    lists_of_objects,
    references,
    settable,
    stable,
    views,
    views_of,
)
from support.http import Client, error_message, location, read_all
from support.receivers import subscribe
from support.resources import RESOURCES, TABLES
from support.rows import UNKNOWN, insert_token

from service.api.event_types import EVENT_TYPES
from service.commands.load.lines import TYPES, UserRef
from service.values import schemas, types
from service.values.types import singular

VERBS = {"POST": "created", "PATCH": "updated"}
# Other members of a response that a change of a field may change.
TOUCHED = {
    "status": ["completedAt", "completedBy"],
    "enabled": ["state", "disabledReason", "gapSince"],
    "workspaceId": ["workspace", "limits"],
    # The name of the caller.
    "name": ["user", "limits"],
}


def cases(*methods):
    """One case for each field of each view with a body."""
    pairs = [
        (view, field)
        for view in views_of(*methods, body=True)
        for field in settable(view.arguments)
    ]
    return pytest.mark.parametrize(
        ("view", "field"), pairs, ids=[f"{view.name} {key(field)}" for view, field in pairs]
    )


def id_of(shown):
    """The id of an object; for a member, the id of the user."""
    return shown.get("id", shown.get("userId"))


class Writer:
    """Alice. She writes with a session, because every view accepts one."""

    def __init__(self, app, connection, cast, insert_into):
        insert_token(connection, cast["alice"], "tmw_session_alice", kind="session")
        self.client = Client(app, cookie="tmw_session_alice")
        self.connection, self.cast = connection, cast
        self.values = Values(references(connection, cast, insert_into))
        subscribe(connection, cast["acme"], "https://example.com/hook")

    def send(self, view, body, *ids):
        """Send a body, and check the event of a change; return the response.

        Afterwards, ``changed`` lists the fields that the request has changed, as its event says,
        and ``previous`` has their old values.
        """
        self.connection.execute("DELETE FROM events")
        if view.method == "POST":
            # An address can be added only once.
            self.connection.execute("DELETE FROM users WHERE email LIKE 'email_@%'")
        response = self.client.send(view.method, view.path(*ids), json=body)
        assert response.status_code == view.operation.status, (
            f"{body}: {response.text}; if it is 500, a statement of {view.files} names a column"
            " that no migration adds, or a parameter that the schema of the view lacks"
        )
        events = self.connection.execute("SELECT type, body::json AS body FROM events").fetchall()
        about = singular(view.resource)
        if f"{about}.{VERBS[view.method]}" in EVENT_TYPES:
            assert len(events) == 1, f"{len(events)} events of {view.name}: see {view.files}"
            (event,) = events
            # Completing a meeting announces meeting.completed; later changes do not.
            verb = body.get("status") if event["type"] == "meeting.completed" else None
            assert event["type"] == f"{about}.{verb or VERBS[view.method]}", f"edit {view.files}"
        else:
            assert events == [], f"{view.name} announces what service/api/event_types.py lacks"
        shown = response.get_json()
        if "Location" in response.headers:
            assert location(response) == f"{view.path(*ids)}/{id_of(shown)}"
        self.changed, self.previous = [], {}
        for event in (event["body"] for event in events):
            assert event["data"] == shown, f"the event differs from the response: {view.files}"
            assert event["actorId"] == self.cast["alice"], f"see {view.files}"
            self.changed, self.previous = event["changed"], event["previous"]
        assert view.method == "PATCH" or (self.changed, self.previous) == ([], {})
        return shown

    def refuse(self, view, body, *ids):
        """Send a body that must be a 400; return its message."""
        return error_message(self.client.send(view.method, view.path(*ids), json=body), 400)

    def parents(self, view):
        """The ids in the path of a view that creates objects."""
        return [self.cast["acme"] for _ in view.variables]

    def existing(self, view):
        """The ids in the path of an object that a PATCH can change; a new one if a POST exists."""
        if not view.variables:
            return []
        collection = view.rule.rpartition("/")[0]
        makers = [maker for maker in views_of("POST") if maker.rule == collection]
        if makers:
            (maker,) = makers
            of, schema = self.values.of, maker.arguments
            parents = self.parents(maker)
            body = {key(f): of(f, schema)[0] for f in settable(schema)}
            return [*parents, id_of(self.send(maker, body, *parents))]
        if view.resource == "workspaces":
            return [self.cast["acme"]]
        pytest.fail(f"{__name__}: Writer.existing() has no object for {view.name}")

    def rows(self, view, ids):
        """The version of an object's row (None without versions), and the table's other rows."""
        rows = self.connection.execute(f"SELECT *, xmin::text FROM {view.resource} ORDER BY 1, 2")
        rows = {str(row.get("id", row.get("user_id"))): row for row in rows}
        return rows.pop(ids[-1]).get("version"), rows

    def read_back(self, view, ids, shown):
        """Yield the object as its own path and its list show it, if these exist."""
        named = view.rule.endswith(">")
        id = ids[-1] if named else id_of(shown)
        collection = view.rule.rpartition("/")[0] if named else view.rule
        for reader in views():
            if reader.method != "GET":
                continue
            below = reader.rule.endswith(">") and reader.rule.rpartition("/")[0] == view.rule
            if (reader.rule == view.rule and named) or (below and id):
                path = reader.path(*ids) if named else reader.path(*ids, id)
                yield reader, self.client.get(path).get_json()
            elif reader.rule == collection and reader.operation.kind in ("page", "list"):
                listed = self.client.get(reader.path(*ids[: len(reader.variables)])).get_json()
                items = listed["data"] if reader.operation.kind == "page" else listed
                yield reader, next(item for item in items if id_of(item) == id)
            elif reader.rule == view.rule:
                yield reader, self.client.get(reader.path()).get_json()


@pytest.fixture
def writer(silent_app, connection, cast, insert_into):
    return Writer(silent_app, connection, cast, insert_into)


def check(view, field, value, shown, source):
    """Fail unless an object shows the value; the message names the file to edit."""
    name, schema = key(field), source.operation.response
    if (view.rule, name) in NOT_SHOWN:
        return
    known = {key(other): other for other in schema().fields.values()}
    if name not in known:
        # A list may show less than the object's own path.
        assert source.rule != view.rule, (
            f"{source.name} does not show {name}: add it to {schema.__name__}, or say in {HERE},"
            " NOT_SHOWN, where it is shown"
        )
        return
    if isinstance(field, types.Metadata):
        # Null removes all pairs.
        value = value or {}
    found = shown.get(name, "nothing")
    assert found == value, (
        f"{view.name} with {name} = {value!r}: {source.name} shows {found!r};"
        f" does {view.files} write it?"
    )


def check_touched(view, field, companions, before, shown, writer):
    """Fail unless a change has touched only its field, and its event lists what it touched.

    The event also has the old values, in the order of the list.
    """
    changed = writer.changed
    before = {"summary": None, "actionItems": [], "decisions": [], **before}
    touched = [name for name, value in shown.items() if value != before.get(name, value)]
    allowed = {key(field), *companions, *TOUCHED.get(key(field), ())}
    hint = f"{view.name} with {key(field)}: see {view.files}"
    assert {*touched} <= allowed | {"updatedAt", "version"}, hint
    assert shown.get("updatedAt", "") >= before.get("updatedAt", "")
    if view.resource in ("tasks", "meetings"):
        assert key(field) in changed, f"its event leaves the field out; {hint}"
        assert changed == [name for name in touched if name not in ("updatedAt", "version")], hint
        assert [*writer.previous.items()] == [(name, before[name]) for name in changed], hint


def empty_values(field):
    """The values that clear a field. A response shows each of them as it was sent, or as {}."""
    return [
        *([None] if field.allow_none else []),
        *([[]] if isinstance(field, types.StringList) and not field.min else []),
    ]


@cases("POST")
def test_a_field_of_a_new_object_is_stored_shown_and_announced(writer, view, field):
    body, parents = writer.values.required(view.arguments), writer.parents(view)
    for value in [*writer.values.of(field, view.arguments), *empty_values(field)]:
        shown = writer.send(view, {**body, key(field): value}, *parents)
        check(view, field, value, shown, view)
        for reader, read in writer.read_back(view, parents, shown):
            check(view, field, value, read, reader)
    if not field.allow_none:
        refused = writer.refuse(view, {**body, key(field): None}, *parents)
        assert refused == f"{key(field)}: must not be null"
    if field.required:
        del body[key(field)]
        assert writer.refuse(view, body, *parents) == f"{key(field)}: is required"


@cases("PATCH")
def test_a_changed_field_is_stored_shown_announced_and_cleared_and_no_other_field_changes(
    writer, insert_into, view, field
):
    ids = writer.existing(view)
    companions = {}
    before = next(iter(writer.read_back(view, ids, {})))[1]
    if field.name in view.operation.response.optional and key(field) not in before:
        companions = COMPANIONS.get(view.rule)
        assert companions, f"{HERE}: COMPANIONS says with what {view.name} takes {key(field)}"
    values = [
        value
        for value in writer.values.of(field, view.arguments)
        if before.get(key(field), "nothing") != value
    ]
    if ids and view.resource in TABLES and TABLES[view.resource].required:
        insert_into(view.resource)
    for value in [*values, *empty_values(field)]:
        version, others = writer.rows(view, ids) if ids else (0, {})
        shown = writer.send(view, {**companions, key(field): value}, *ids)
        check(view, field, value, shown, view)
        check_touched(view, field, companions, before, shown, writer)
        if ids:
            assert writer.rows(view, ids) == (version and version + 1, others), (
                f"{view.name} makes one new version, and changes no other row: see {view.files}"
            )
        for reader, read in writer.read_back(view, ids, shown):
            check(view, field, value, read, reader)
        before = shown
    if not field.allow_none:
        refused = writer.refuse(view, {key(field): None}, *ids)
        assert refused == f"{key(field)}: must not be null"


def read_only(view):
    return [key(field) for field in view.arguments.fields.values() if field.dump_only]


@by_name(views_of("POST", body=True))
def test_a_body_for_a_new_object_with_a_field_that_only_the_service_sets_gets_400(writer, view):
    body, parents = writer.values.required(view.arguments), writer.parents(view)
    for name in read_only(view):
        for value in (None, "x", 1, UNKNOWN):
            refused = writer.refuse(view, {**body, name: value}, *parents)
            assert refused == f"{name}: is read-only; the service sets it"


@pytest.mark.slow
@by_name(views_of("PATCH", body=True))
def test_sending_an_object_back_as_it_was_read_changes_nothing(writer, connection, view):
    """The object is sent back as it was created, and after a change of every field.

    In the body, fields that only the service sets may have any value. The object may also have
    those that only a later release sets: after a rollback, the schema still shows them.
    """
    ids, schema = writer.existing(view), view.arguments
    finished = {key(field): writer.values.of(field, schema)[-1] for field in settable(schema)}
    names = {*read_only(view), *schemas.RESERVED}
    odd = [{name: value} for name in sorted(names) for value in (None, "x", -1, True, [], {})]
    table = view.resource if ids else "users"
    rows = f"SELECT *, xmin::text FROM {table} ORDER BY 1, 2"
    for change in ({}, finished):
        response = writer.client.patch(view.path(*ids), change)
        shown = stable(response.get_json())
        assert response.status_code == 200, shown
        connection.execute("DELETE FROM events")
        before = connection.execute(rows).fetchall()
        read = [read for _, read in writer.read_back(view, ids, {})]
        for number, sent in enumerate([{}, *read, *odd]):
            for headers in (
                {"Idempotency-Key": f"{len(change)}-{number}"},
                {"If-Match": response.headers.get("ETag", "*")},
            ):
                again = writer.client.patch(view.path(*ids), sent, headers=headers)
                hint = f"{view.name} with {sent} and {headers}: see {view.files}"
                assert (again.status_code, stable(again.get_json())) == (200, shown), hint
                assert again.headers.get("ETag") == response.headers.get("ETag"), hint
        assert connection.execute(rows).fetchall() == before, f"see {view.files}"
        assert connection.execute("SELECT FROM events").fetchall() == [], f"see {view.files}"


@pytest.mark.nodatabase
@pytest.mark.parametrize(
    "schema",
    [
        pytest.param(schema, id=view.name if schema is view.arguments else f"{view.name} {number}")
        for view in views_of("POST", "PATCH", body=True)
        for number, schema in enumerate(
            [view.arguments, *(field.schema for field in lists_of_objects(view.arguments))]
        )
        if isinstance(schema, schemas.Resource)
    ],
)
def test_a_valid_body_loads_to_the_same_values_as_with_marshmallow_itself(schema):
    """Resource.load runs no hooks of a schema, so no schema may rely on one for valid bodies."""
    referring = (field for field in settable(schema) if isinstance(field, types.Id))
    values = Values({key(field): [UNKNOWN] for field in referring})
    whole = {key(field): values.of(field, schema)[0] for field in settable(schema)}
    nulls = {key(field): None for field in settable(schema) if field.allow_none}
    required = {} if schema.partial is True else values.required(schema)
    for body in (required, whole, {**whole, **nulls}):
        assert schema.load(body) == super(schemas.Resource, schema).load(body)


@pytest.mark.parametrize(
    "entry",
    [entry for entry in RESOURCES if entry.path and entry.line],
    ids=lambda entry: entry.table,
)
def test_a_list_shows_the_fields_that_the_command_load_has_stored(
    app, bob, connection, cast, insert_into, tmp_path, entry
):
    line = full_line(entry.line, Values(references(connection, cast, insert_into)))
    if entry.table == "suggestions":
        # Accepted and dismissed suggestions are not listed.
        line["status"] = "pending"
    bare = insert_into(entry.table, user="bob")
    (tmp_path / "line").write_text(json.dumps({"type": entry.line, **line, "workspace": "acme"}))
    assert CommandRunner(app).invoke(["load", str(tmp_path / "line")]).exit_code == 0
    listed = {item["id"]: item for item in read_all(bob, entry.path)}
    assert bare in listed, f"GET /api{entry.path} does not show a row that load has stored"
    loaded = TYPES[entry.line].fields.values()
    for name in {key(field) for field in loaded if not isinstance(field, UserRef)} & {
        *listed[bare]
    }:
        assert listed[line["id"]][name] == line[name], (
            f"load stores another {name} than the line {entry.line} has: see sql/load"
        )
