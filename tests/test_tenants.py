"""Tenants: five kinds of callers try every view, id, filter and cursor.

They are a stranger, a former member, a colleague, a member's token for another workspace, and an
owner while another workspace has rows with the same ids as hers.

The views and their parameters come from the url_map, the ids from a world with a row in every
table. What a caller reads must not depend on rows that the caller may not see: each response is
compared with the response after these rows are deleted.
"""

import re
from collections.abc import Callable
from functools import partial
from itertools import islice, pairwise, product
from typing import NamedTuple

import psycopg
import pytest
from psycopg.rows import dict_row
from support.derived import (
    Values,
    body_of,
    by_name,
    filter_values,
    filters,
    key,
    lists_of_objects,
    outcome,
    parameter,
    references,
    session,
    settable,
    views,
    views_of,
)
from support.http import Client, error_message
from support.project import PROJECT
from support.resources import EVERYWHERE, RESOURCES, WORD
from support.resources import HERE as TABLE
from support.rows import UNKNOWN, activate, insert_member, insert_token
from support.statements import NAME_IN_PYTHON, NIL, SUCCESS, claim_due, claim_new, record
from support.world import COUNTED, World

from service.database.statements import STATEMENTS
from service.values import types

READS, WRITES = views_of("GET"), views_of("POST", "PATCH", "DELETE")
# The writes that take If-Match and If-None-Match, and the reads that take If-Match.
CONDITIONAL = views_of("PATCH", "DELETE", kinds=("versioned", "live"))
TAGGED = views_of("GET", kinds=("versioned", "live"))


@pytest.fixture
def owner(app, acme):
    """Alice, who may see everything of Acme."""
    return session(app, "alice")


def former_member(app, connection, cast):
    """Bob, who has left Acme and works for Globex."""
    connection.execute("DELETE FROM members WHERE user_id = %s", (cast["bob"],))
    insert_member(connection, cast["globex"], cast["bob"])
    activate(connection, cast["globex"], cast["bob"])
    return colleague(app, connection, cast)


def colleague(app, connection, cast):
    """Bob, a member of Acme, who sees no personal rows of Alice."""
    insert_token(connection, cast["bob"], f"tmw_session_bob_{WORD}", kind="session")
    return session(app, "bob")


def token_of_globex(app, connection, cast):
    """Charlie's token for Globex, while he also owns Acme, his active workspace."""
    insert_member(connection, cast["acme"], cast["charlie"], "owner")
    activate(connection, cast["acme"], cast["charlie"])
    return Client(app, f"tmw_api_charlie_{WORD}")


class Prober(NamedTuple):
    client: Client
    # The ids that the client must not reach, and the ids that it reads with.
    forbidden: list[str]
    ids: list[str]
    # Deletes every row that the client may not see.
    delete: Callable[[], None]


# The suite tries two kinds of outsiders, and the slow tests try the others.
OUTSIDERS = [
    "stranger",
    "colleague",
    pytest.param("former member", marks=pytest.mark.slow),
    pytest.param("token of another workspace", marks=pytest.mark.slow),
]
SAME_IDS = "owner of rows with the same ids"


@pytest.fixture(params=OUTSIDERS)
def prober(request, app, connection, cast, acme, unlimited, view):
    """Return a caller. The former member tries all ids, and the others a few of each table.

    The stranger has a token, if the view takes one. The former member and the colleague have a
    cookie.
    """
    few = acme.ids(few=True)
    if request.param == SAME_IDS:
        copies = request.getfixturevalue("copies")
        return Prober(session(app, "alice"), [], few, copies.delete)
    request.getfixturevalue("globex")
    if request.param == "colleague":
        client = colleague(app, connection, cast)
        return Prober(client, acme.personal_ids(), few, acme.delete_personal)
    if request.param == "former member":
        client = former_member(app, connection, cast)
        return Prober(client, acme.ids(), acme.ids(), acme.delete)
    token = Client(app, f"tmw_api_charlie_{WORD}")
    if request.param == "stranger" and view.operation.session_only:
        token = session(app, "charlie")
    elif request.param != "stranger":
        token = token_of_globex(app, connection, cast)
    return Prober(token, few, few, acme.delete)


def paths(view, ids, world=None):
    """Return paths with each id.

    Two ids in one path belong to one row of the world, or are neighbours in ``ids``.
    """
    if len(view.variables) < 2:
        return [view.path(*chosen) for chosen in product(ids, repeat=len(view.variables))]
    related = world.keys(view, ids) if world else []
    return [view.path(*pair) for pair in (*related, *pairwise([ids[-1], *ids]))]


def paths_of_rows(view, world, ids=None):
    """Return the paths with which the view can find a row of the world."""
    return [view.path(*found) for found in world.keys(view, ids)]


def queries(view, acme, owner, ids):
    """Each filter with each value, alone and with the cursor of the owner's first page.

    A filter that takes an id has each of the values ``ids`` with which the filter finds a row, and
    one value with which it finds none.
    """
    assert not view.variables or not filters(view.arguments) or view.operation.kind == "page"
    found = []
    cursor = acme.cursor()
    for field in (None, *filters(view.arguments)):
        values = filter_values(field, ids, WORD, cursor) if field else [None]
        shown, without_row = 0, []
        for value in values:
            query = {parameter(field): value} if field else {}
            if view.operation.kind == "page" and not view.variables:
                page = owner.get(view.path(), query_string={**query, "limit": 1}).get_json()
                shown += len(page["data"])
                if page["nextCursor"]:
                    found.append({**query, "cursor": page["nextCursor"]})
                if isinstance(field, types.Id) and not page["data"]:
                    without_row.append(query)
                    continue
            found.append(query)
        found += without_row[:1]
        needed = field and view.operation.kind == "page" and not view.variables
        assert shown or not needed, (
            f"{view.name}?{key(field)}= finds no row of the world: the filter in {view.files} is"
            f" wrong, or {TABLE} needs a row"
        )
    return found


@by_name(READS)
def test_each_view_shows_its_caller_a_row_of_the_test_world(owner, acme, unlimited, view):
    """Without this test, the tests that compare what others see would prove nothing."""
    mine = acme.ids()
    own_filters = [
        {key(field): acme.cursor() if key(field) == "after" else acme.workspace_id}
        for field in filters(view.arguments)
    ]
    shown = (
        owner.get(path, query_string=query).text
        for path in paths_of_rows(view, acme)
        for query in ({}, *own_filters)
    )
    assert any(id in text for text in shown for id in mine), (
        f"{view.name} shows Alice nothing of her own: add a row to {TABLE}, and show ids"
    )


# Filters that choose which statement the view runs. The statement itself need not take them. The
# statement that the view runs without any filter takes none.
CHOOSING = {
    ("GET /api/tasks", "q"),
    ("GET /api/tasks", "metadata"),
    ("GET /api/tasks", "sort"),
    ("GET /api/meetings", "upcoming"),
    ("GET /api/meetings", "metadata"),
}
# These change the order and leave out no row.
ORDERS = {"sort"}
FILTERED = pytest.mark.parametrize(
    ("view", "field"),
    [
        (view, field)
        for view in READS
        for field in filters(view.arguments)
        if not isinstance(field, types.Cursor)
    ],
    ids=lambda value: value.name,
)


def filters_taken(name):
    """Return the parameters of a statement, with the filters of the function that it may call."""
    taken = {*STATEMENTS[name].parameters}
    if "filters" in taken:
        text = STATEMENTS[f"functions/{name.partition('/')[0]}"].source.decode()
        taken |= {*re.findall(r"filters ->> '(\w+)'", text)}
    return taken


@pytest.mark.nodatabase
@FILTERED
def test_each_statement_of_a_view_that_filters_takes_all_filters_of_the_view(view, field):
    names = {other.name for other in filters(view.arguments)}
    taken = {name: filters_taken(name) for name in view.statements}
    filtering = [name for name in taken if names & taken[name]]
    lacking = [name for name in filtering if field.name not in taken[name]]
    if (view.name, field.name) not in CHOOSING:
        assert filtering, f"no statement of {view.name} has a filter: see {view.files}"
        assert not lacking, (
            f"sql/{lacking[0]}.sql lacks %({field.name})s: add it to the WHERE, or to the function"
            f" matches() of the resource, in {view.files}; or add the filter {key(field)}, if it"
            " chooses the statement, to CHOOSING in tests/test_tenants.py"
        )


@FILTERED
def test_each_filter_leaves_out_some_row_of_the_workspace(owner, acme, unlimited, view, field):
    (path,) = own_paths(view, owner, acme)
    ids, cursor = acme.ids(), acme.cursor()
    begin = {
        key(other): cursor for other in filters(view.arguments) if isinstance(other, types.Cursor)
    }

    def number(query):
        response = owner.get(path, query_string={**begin, **query})
        body = response.get_json() if response.status_code == 200 else {"data": []}
        return len(body.get("data", [body]))

    def values_of(field):
        return filter_values(field, ids, WORD, cursor)

    def choosing_values(field):
        return values_of(field) if field.name in ORDERS else values_of(field)[:1]

    # Each statement of the view, by the filters that choose it. Each order can be a statement.
    choices = [
        [{}, *({parameter(other): value} for value in choosing_values(other))]
        for other in filters(view.arguments)
        if other is not field and (view.name, key(other)) in CHOOSING
    ]
    for chosen in product(*choices):
        others = {name: value for choice in chosen for name, value in choice.items()}
        whole = number(others)
        numbers = (number({**others, parameter(field): value}) for value in values_of(field))
        assert field.name in ORDERS or any(number < whole for number in numbers), (
            f"{view.name}?{key(field)}= leaves out no row, beside {others}: use it in the WHERE of"
            f" {view.files}, or add a row with another value to {TABLE}"
        )


@pytest.mark.parametrize(
    "prober", [*OUTSIDERS, pytest.param(SAME_IDS, marks=pytest.mark.slow)], indirect=True
)
@by_name(READS)
def test_what_a_view_shows_does_not_depend_on_rows_that_its_caller_may_not_see(
    prober, owner, acme, view
):
    client = prober.client
    requests = [
        (path, query)
        for query in queries(view, acme, owner, prober.ids)
        for path in (
            paths_of_rows(view, acme, prober.ids) if query else paths(view, prober.ids, acme)
        )
    ]
    before = [outcome(client.get(path, query_string=query)) for path, query in requests]
    for (path, query), (status, *_) in zip(requests, before, strict=True):
        assert status < 500, (path, query)
    prober.delete()
    for (path, query), old in zip(requests, before, strict=True):
        new = outcome(client.get(path, query_string=query))
        assert new == old, f"{path} {query} shows rows of others: see the WHERE in {view.files}"


@by_name([view for view in WRITES if view.variables])
def test_a_write_with_the_id_of_a_row_that_its_caller_may_not_see_is_like_one_with_an_unknown_id(
    prober, acme, connection, cast, insert_into, view
):
    client, forbidden = prober.client, prober.forbidden
    body = body_of(view, Values(references(connection, cast, insert_into)))
    before = acme.everything()
    for headers in ({}, {"If-Match": '"999"'}) if view in CONDITIONAL else ({},):
        send = partial(client.send, view.method, json=body, headers=headers)
        unknown = send(paths(view, [UNKNOWN])[0])
        assert unknown.status_code in (403, 404)
        # A precondition, and another spelling of an id, matter only for a row that is found.
        rows = acme.keys(view, forbidden)
        spelled = [*rows, *(map(str.upper, ids) for ids in rows)]
        others = [] if headers else paths(view, forbidden, acme)
        for path in (*others, *(view.path(*ids) for ids in spelled)):
            assert outcome(send(path)) == outcome(unknown), f"{path}: see the WHERE in {view.files}"
    check_unchanged(acme, before, view)


def check_unchanged(world, before, view):
    """Fail if rows of a workspace have changed; the message has the rows and the files."""
    after = world.everything()
    changed = {
        table: [row for row in (*rows, *after[table]) if (row in rows) != (row in after[table])]
        for table, rows in before.items()
        if after[table] != rows
    }
    assert not changed, f"{view.name} changed {changed}: see the WHERE in {view.files}"


def own_paths(view, client, world):
    """A list with one path of the view. If the path has ids, the caller may see their rows."""
    if not view.variables:
        return [view.path()]
    (reader,) = (other for other in READS if other.rule == view.rule)
    tried = paths_of_rows(reader, world)
    return [*islice((path for path in tried if client.get(path).status_code == 200), 1)]


# Members are left out: their parent is the workspace, and test_members.py tries another workspace.
@by_name([view for view in views() if len(view.variables) == 2 and view.resource != "members"])
def test_a_path_with_a_row_and_the_id_of_another_parent_gets_404(
    owner, acme, connection, cast, insert_into, view
):
    body = body_of(view, Values(references(connection, cast, insert_into)))
    (reader,) = (other for other in READS if other.variables == view.variables)
    related = {
        pair for pair in acme.keys(reader) if owner.get(reader.path(*pair)).status_code == 200
    }
    parents, children = ({*ids} for ids in zip(*related, strict=True))
    before = acme.everything()
    crossed = {*product(parents, children)} - related
    assert crossed, f"{TABLE}: add a second parent with a row below it"
    for pair in crossed:
        response = owner.send(view.method, view.path(*pair), json=body)
        assert response.status_code == 404, f"{pair}: see the WHERE in {view.files}"
    check_unchanged(acme, before, view)


@pytest.fixture
def check_preconditions(silent_app, acme, connection, cast, insert_into):
    """Return a function that tries a write with headers that refuse it, then with allowed ones.

    Before each refused dictionary stands the header that the error names. VERSION in a tag becomes
    the current version.
    """

    def check(view, refused, allowed):
        client = session(silent_app, "alice")
        body = body_of(view, Values(references(connection, cast, insert_into)))
        (path,) = own_paths(view, client, acme)
        current = client.get(path).headers["ETag"]
        version = current.strip('"')

        def send(headers):
            headers = {name: tags.replace("VERSION", version) for name, tags in headers.items()}
            return client.send(view.method, path, json=body, headers=headers)

        before = acme.everything()
        for header, headers in refused:
            response = send(headers)
            assert error_message(response, 412).startswith(f"{header}: "), f"see {view.files}"
            assert response.headers["ETag"] == current
        check_unchanged(acme, before, view)
        assert send(allowed).status_code in (200, 204)
        assert acme.everything() != before

    return check


# Tags of no version, or of another one. VERSION becomes the current version.
OTHER_TAGS = (
    '"999"', 'W/"999"', '"0VERSION"', '" VERSION"', '"VERSIONx"', '"-VERSION"', '"*"', '""', "!",
    '"99999999999999999999"',
)  # fmt: skip


@by_name(CONDITIONAL)
def test_a_write_with_if_match_succeeds_only_if_the_header_names_the_current_version(
    check_preconditions, view
):
    refused = [("If-Match", {"If-Match": tag}) for tag in ('"998", W/"999"', *OTHER_TAGS)]
    check_preconditions(view, refused, {"If-Match": '"foreign, with comma", W/"VERSION"'})


@by_name(CONDITIONAL)
def test_a_write_with_if_none_match_succeeds_only_if_the_header_does_not_match(
    check_preconditions, view
):
    refused = [
        ("If-None-Match", {"If-None-Match": "*"}),
        ("If-None-Match", {"If-None-Match": '"VERSION"'}),
        ("If-None-Match", {"If-None-Match": '"999", W/"VERSION"', "If-Match": '"VERSION"'}),
        ("If-None-Match", {"If-None-Match": '"VERSION"', "If-Match": "*"}),
        # RFC 9110, section 13.2.2: If-Match comes first.
        ("If-Match", {"If-None-Match": '"VERSION"', "If-Match": '"999"'}),
        ("If-Match", {"If-None-Match": '"999"', "If-Match": '"999"'}),
    ]
    tags = ", ".join(OTHER_TAGS)
    allowed = {"If-None-Match": tags, "If-Match": '"999", "VERSION"'}
    check_preconditions(view, refused, allowed)


@by_name(TAGGED)
def test_a_read_with_if_match_succeeds_only_if_the_header_names_the_current_version(
    owner, acme, view
):
    (path,) = own_paths(view, owner, acme)
    shown = owner.get(path)
    current = shown.headers["ETag"]
    known = {"If-None-Match": current}
    for tag in ('"999"', f'"0{current[1:]}', '"998", W/"999"', "!"):
        for headers in ({"If-Match": tag}, {"If-Match": tag, **known}):
            refused = owner.get(path, headers=headers)
            assert error_message(refused, 412).startswith("If-Match: ")
            assert refused.headers["ETag"] == current
            assert refused.get_json()["current"] == shown.get_json()
            head = owner.send("HEAD", path, headers=headers)
            assert (head.status_code, head.headers["ETag"], head.data) == (412, current, b"")
    for tag in ("*", current, f'"999", W/{current}'):
        assert owner.get(path, headers={"If-Match": tag}).data == shown.data
        for method in ("GET", "HEAD"):
            response = owner.send(method, path, headers={"If-Match": tag, **known})
            # The members of a live object change without a new version.
            assert response.status_code == (200 if view.operation.kind == "live" else 304)
            has_type = "Content-Type" in response.headers
            assert has_type == (response.status_code == 200), "a 304 has no headers of a body"


@by_name(views_of("POST", kinds=("versioned", "live")))
def test_a_request_that_creates_an_object_reads_no_precondition(
    silent_app, acme, connection, cast, insert_into, view
):
    client = session(silent_app, "alice")
    body = body_of(view, Values(references(connection, cast, insert_into)))
    headers = {"If-Match": '"999"', "If-None-Match": "*"}
    response = client.send(view.method, view.path(), json=body, headers=headers)
    assert response.status_code == 201, response.get_json()


@by_name(CONDITIONAL)
def test_a_412_shows_the_object_as_get_shows_it_to_the_same_caller(
    silent_app, acme, globex, connection, cast, insert_into, view
):
    for name, user, options in (
        ("read-only", "alice", {"scope": "read"}),
        ("acme", "alice", {"workspace_id": cast["acme"]}),
        ("globex", "alice", {"workspace_id": cast["globex"]}),
        ("bob", "bob", {}),
    ):
        insert_token(connection, cast[user], f"tmw_api_{name}_{WORD}", **options)
    insert_member(connection, cast["globex"], cast["alice"])
    owner = session(silent_app, "alice")
    body = body_of(view, Values(references(connection, cast, insert_into)))
    (path,) = own_paths(view, owner, acme)
    callers = {
        name: Client(silent_app, f"tmw_api_{name}_{WORD}")
        for name in ("read-only", "acme", "globex", "bob", "charlie")
    }
    before, shown = acme.everything(), set()
    for name, client in {"owner": owner, **callers}.items():
        for headers in ({}, {"Idempotency-Key": f"key-of-{name}"}):
            # The second tag names no version of an object.
            conditions = {"If-Match": 'W/"999", "x"', **headers}
            response = client.send(view.method, path, json=body, headers=conditions)
            error = response.get_json()
            if response.status_code != 412:
                assert error_message(response, response.status_code)
                assert response.status_code in (403, 404)
                assert list(error) == ["message", "status", "requestId"]
                continue
            read = client.get(path)
            assert error_message(response, 412)
            assert error["current"] == read.get_json(), f"see {view.files}"
            # The bytes are the bytes of GET.
            assert response.data.endswith(b',"current":%b}' % read.data)
            assert response.headers["ETag"] == read.headers["ETag"]
            assert response.headers["Content-Type"] == read.headers["Content-Type"]
            shown.add(name)
    assert {"owner", "acme"} <= shown <= {"owner", "acme", "bob"}
    check_unchanged(acme, before, view)


@pytest.mark.nodatabase
def test_a_view_takes_if_match_if_and_only_if_its_statement_compares_versions():
    compared = {
        view.name
        for view in views()
        # In a batch, each task has its version beside its id.
        if not (view.takes_body and lists_of_objects(view.arguments))
        and any(b"%(versions)s" in STATEMENTS[name].source for name in view.statements)
    }
    taken = {view.name for view in CONDITIONAL}
    assert compared == taken, (
        f"{compared ^ taken}: a view whose statement has %(versions)s needs a kind of object with"
        " versions in its @operation, and the other way round"
    )
    assert len(taken) > 5


@pytest.mark.parametrize(
    ("view", "field"),
    [
        (view, field)
        for view in views_of("POST", "PATCH", body=True)
        for field in settable(view.arguments)
        if isinstance(field, types.Id) and not isinstance(field, types.NewId)
    ],
    ids=lambda value: value.name,
)
def test_a_reference_to_a_row_of_another_workspace_gets_400_like_a_reference_to_no_row(
    app, acme, globex, connection, unlimited, view, field
):
    client = session(app, "charlie")
    values = Values({key(field): [UNKNOWN]})
    before = acme.everything()
    (path,) = own_paths(view, client, globex)
    body = values.required(view.arguments)
    unknown = client.send(view.method, path, json={**body, key(field): UNKNOWN})
    assert error_message(unknown, 400).startswith(key(field))
    for id in acme.ids():
        response = client.send(view.method, path, json={**body, key(field): id})
        assert outcome(response) == outcome(unknown), f"see {view.files}"
    check_unchanged(acme, before, view)


@by_name([view for view in WRITES if not view.variables])
def test_a_write_without_an_id_changes_nothing_in_another_workspace(
    silent_app, acme, globex, connection, cast, insert_into, view
):
    client = session(silent_app, "charlie")
    # The first connection of a process stores which key the secrets of webhooks derive from.
    assert client.get("/me").status_code == 200
    ids = references(connection, {**cast, "acme": cast["globex"]}, insert_into)
    before = acme.everything()
    response = client.send(view.method, view.path(), json=body_of(view, Values(ids)))
    assert response.status_code < 500
    check_unchanged(acme, before, view)
    shown = response.get_json(silent=True) or {}
    assert shown.get("workspaceId") in (None, cast["globex"])


@by_name(views())
def test_a_caller_without_a_credential_gets_401_and_a_read_credential_cannot_write(
    app, stranger, acme, connection, cast, insert_into, view
):
    reader, read_only = session(app, "alice"), view.method == "GET"
    connection.execute("UPDATE tokens SET scope = 'read'")
    body = body_of(view, Values(references(connection, cast, insert_into)))
    before = acme.everything()
    for path in paths_of_rows(view, acme):
        response = stranger.send(view.method, path, json=None if read_only else body)
        assert "nauthorized" in error_message(response, 401)
        assert response.headers["WWW-Authenticate"] == "Bearer"
        if not read_only:
            assert "scope read" in error_message(reader.send(view.method, path, json=body), 403)
    check_unchanged(acme, before, view)


def test_a_user_who_has_left_their_only_workspace_can_read_and_write_nothing(
    bob, acme, connection, cast
):
    connection.execute("DELETE FROM members WHERE user_id = %s", (cast["bob"],))
    before = acme.everything()
    empty = {"page": {"data": [], "nextCursor": None}, "list": []}
    for view in READS:
        if view.operation.kind in empty and not view.variables:
            response = bob.get(view.path())
            if response.status_code == 200:
                assert response.get_json() == empty[view.operation.kind], view.name
    times = {"startTime": "2099-01-01T00:00:00Z", "endTime": "2099-01-01T01:00:00Z"}
    error_message(bob.post("/tasks", {"title": "New"}), 409)
    error_message(bob.post("/meetings", {"title": "New", **times}), 409)
    assert acme.everything() == before


# Repeats


@by_name([view for view in WRITES if view.operation.idempotent])
def test_a_user_gets_the_first_response_to_a_repeat_in_any_role_until_the_membership_ends(
    silent_app, acme, connection, cast, insert_into, unlimited, view
):
    """A key of the user alone outlives the membership, unless its response names the workspace."""
    client = session(silent_app, "alice")
    body = body_of(view, Values(references(connection, cast, insert_into)))

    def send(path):
        key = {"Idempotency-Key": f"key:{path}"}
        return client.send(view.method, path, json=body, headers=key)

    # She cannot change herself, the only owner.
    of_bob = view.resource == "members" and len(view.variables) == 2
    members = [view.path(cast["acme"], cast["bob"])] if of_bob else []
    tried = ((path, send(path)) for path in members or paths_of_rows(view, acme))
    path, first = next((path, sent) for path, sent in tried if sent.status_code < 300)
    (key,) = connection.execute(
        "SELECT workspace_id::text, coalesce(body, '') AS body FROM idempotency_keys"
        " WHERE key = %s",
        (f"key:{path}",),
    ).fetchall()
    assert first.headers.get("Idempotent-Replayed") is None
    shown = first.get_json(silent=True)
    if isinstance(shown, dict):
        shown |= dict.fromkeys({"secret", "token"} & shown.keys())
    of_alice = "WHERE workspace_id = %s AND user_id = %s"
    for change, lasts in (
        ("UPDATE members SET role = 'admin'", True),
        ("UPDATE members SET role = 'member'", True),
        ("DELETE FROM members", key["workspace_id"] == NIL and cast["acme"] not in key["body"]),
    ):
        connection.execute(f"{change} {of_alice}", (cast["acme"], cast["alice"]))
        before = acme.everything()
        repeat = send(path)
        kept = repeat.headers.get("Idempotent-Replayed") == "true"
        assert kept == lasts, f"{change}: {repeat.told} must replay: {lasts}"
        if lasts:
            assert repeat.status_code == first.status_code
            assert repeat.get_json(silent=True) == shown
        else:
            assert 400 <= repeat.status_code < 500
        check_unchanged(acme, before, view)


# Rows with the same ids

# Tables whose rows are not copied: an id that is looked up in all workspaces is unique.
NOT_COPIED = {"feeds", "event_cursors", "members", "tokens", *COUNTED} | {
    resource.table for resource in RESOURCES if resource.visible_to == EVERYWHERE
}


@pytest.fixture
def copies(connection, cast, acme):
    """Charlie's workspace with copies of the rows of Acme, under their ids.

    A workspace that is loaded or moved keeps its ids. The keys of most tables include the
    workspace, so an id alone never identifies a row.
    """
    tables = connection.execute(
        "SELECT class.oid, relname AS name, string_agg(quote_ident(attname), ', ') AS columns"
        "  FROM pg_class AS class JOIN pg_attribute ON attrelid = class.oid"
        " WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND attnum > 0"
        "   AND NOT attisdropped AND attgenerated = ''"
        " GROUP BY class.oid HAVING bool_or(attname = 'workspace_id') ORDER BY class.oid"
    )
    for row in tables.fetchall():
        if row["name"] in NOT_COPIED:
            continue
        copied = ", ".join(f"copy.{column}" for column in row["columns"].split(", "))
        connection.execute(
            f"INSERT INTO {row['name']} ({row['columns']}) SELECT {copied}"
            f"  FROM {row['name']} AS original CROSS JOIN LATERAL jsonb_populate_record("
            f"           NULL::{row['name']},"
            "            replace(replace(to_jsonb(original)::text, %s, %s), %s, %s)::jsonb"
            "        ) AS copy WHERE original.workspace_id = %s"
            # Parents come before their subtasks.
            " ORDER BY to_jsonb(original) ->> 'parent_id' NULLS FIRST",
            (cast["acme"], cast["globex"], cast["alice"], cast["charlie"], cast["acme"]),
        )
    return World(connection, cast["globex"], cast["charlie"])


@pytest.mark.slow
def test_a_write_does_not_change_rows_with_the_same_ids_in_another_workspace(
    silent_app, acme, copies, connection, cast, insert_into, unlimited
):
    client, ids = session(silent_app, "alice"), acme.ids()
    before, done = copies.everything(), set()
    values = Values(references(connection, cast, insert_into))
    # Run the deletions last.
    for view in [*views_of("PATCH"), *views_of("POST"), *views_of("DELETE")]:
        if not view.variables:
            continue
        for path in paths(view, ids, acme):
            status = client.send(view.method, path, json=body_of(view, values)).status_code
            # A statement that found two rows with one id would fail with 500.
            assert status != 500, f"{view.method} {path}: see the WHERE in {view.files}"
            if status < 300:
                done.add(view.name)
        check_unchanged(copies, before, view)
    assert len(done) > 8, done


def test_a_worker_does_not_touch_rows_with_the_same_ids_in_another_workspace(
    acme, copies, database_url, connection, cast
):
    """The worker skips Globex, which is passed as busy."""
    due, _ = (
        row
        for row in acme.rows("deliveries", "workspace_id", acme.workspace_id)
        if row["state"] == "waiting"
    )
    statements = {
        "record a failure": lambda still: record(still, due, number=0),
        "record a success": lambda still: record(still, due, number=0, **SUCCESS),
        "claim_due": lambda still: claim_due(still, busy=[cast["globex"]]),
        "claim_new": lambda still: claim_new(still, cast, due),
    }
    # One delivery is due now, and another one when the webhook has recovered.
    connection.execute("UPDATE webhooks SET failing_since = now(), backoff_until = now()")
    connection.execute("UPDATE deliveries SET attempts = 0 WHERE state = 'waiting'")
    connection.execute(
        "UPDATE deliveries SET state = 'waiting', due_at = now() + interval '1 hour'"
        " WHERE state = 'delivered'"
    )
    found = []
    with (
        psycopg.connect(database_url, row_factory=dict_row) as still,
        still.transaction(force_rollback=True),
    ):
        world = World(still, copies.workspace_id, copies.user_id)
        for _ in range(2):
            rows = {}
            for name, statement in statements.items():
                with still.transaction(force_rollback=True):
                    if name == "claim_new":
                        still.execute("UPDATE webhooks SET failing_since = NULL")
                    before = world.everything()
                    rows[name] = statement(still)
                    assert world.everything() == before, name
            found.append(rows)
            still.execute("DELETE FROM workspaces WHERE id = %s", (copies.workspace_id,))
    assert found[0] == found[1]
    assert all(found[0].values())


# Statements

# Statements of requests that do not take the caller, each with the reason.
WITHOUT_CALLER = {
    "gate/authenticate_and_count": "it finds the caller",
    "health/check": "it needs no credential and reads no row of a tenant",
    "status/unusable": "it needs no credential and reads no row of a tenant",
    "status/parts": "it needs no credential and reads no row of a tenant",
    "health/functions": "it needs no credential and reads no row of a tenant",
    "sessions/find_user": "it finds the caller, whose login page has the key of the operator",
    "webhooks/missing_keys": "a process runs it when it starts, and no request does",
    "tokens/record_use": "it takes the id of the token that the gate has found",
    "webhooks/record": "it takes a delivery that claim_new, which takes the caller, has claimed",
}
# The rooms whose code runs in a request; worker.py and what it alone uses run in a worker.
ROOMS = "api", "web", "openapi", "webhooks"


@pytest.mark.nodatabase
def test_every_statement_that_a_request_runs_takes_the_caller_as_a_parameter():
    names = {
        name
        for room in ROOMS
        for path in PROJECT.joinpath("service", room).rglob("*.py")
        if path.name != "worker.py"
        for name in NAME_IN_PYTHON.findall(path.read_text(encoding="utf-8"))
        if name in STATEMENTS
    }
    assert {name for view in views() for name in view.statements} <= names
    assert names >= {"tasks/list", "tasks/filter", "knowledge/search", "idempotency/begin"}
    for name in names - WITHOUT_CALLER.keys():
        # Comments do not count.
        text = re.sub(rb"--.*", b"", STATEMENTS[name].source)
        assert re.search(rb"%\((user_id|token_id|workspace_id)\)s", text), (
            f"sql/{name}.sql takes neither %(user_id)s nor %(workspace_id)s: add one to its WHERE,"
            " or the reason to WITHOUT_CALLER in tests/test_tenants.py"
        )
    assert set(WITHOUT_CALLER) <= names
