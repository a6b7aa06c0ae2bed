"""Lists: what every paged list promises. Each test runs for each list in LISTS."""

import re
from itertools import permutations

import pytest
from support.derived import filters, key, parameter, view_of, views_of
from support.http import Client, ids, invalid_field, read_all
from support.resources import EDGES, HERE, LISTS
from support.rows import TOKENS, activate

from service.database.statements import STATEMENTS, Statement
from service.values import types

# Each filter of each list; a search has the same filters in another statement.
FILTERS = {
    f"{key(field)} of {name}": (paged, field)
    for name, paged in LISTS.items()
    for field in filters(view_of(paged).arguments)
    if parameter(field) not in paged.query
}


@pytest.fixture(params=LISTS)
def paged(request):
    return LISTS[request.param]


def hint(paged):
    """Return what a failure says of a list: its request, and the files to open."""
    view = view_of(paged)
    return f"{view.name} with {paged.query}: see {view.files}, and the order of the list in {HERE}"


@pytest.mark.nodatabase
def test_every_paged_list_is_in_the_table_of_lists():
    pages = {view.rule for view in views_of("GET", kinds=["page"]) if not view.variables}
    missing = pages - {f"/api{paged.path}" for paged in LISTS.values()}
    assert not missing, f"add the list to an entry of {HERE}: {missing}"


def test_an_empty_list_is_an_empty_page(paged, alice):
    assert paged.get(alice).get_json() == {"data": [], "nextCursor": None}, hint(paged)


def test_the_order_of_a_page_does_not_depend_on_how_postgresql_scans_its_rows(
    paged, build, insert_into, connection, monkeypatch
):
    """The test shuffles each scan of a page, so a statement without ORDER BY fails."""
    for name, statement in STATEMENTS.items():
        shuffled = re.sub(
            rb"\bFROM page\b",
            b"FROM (SELECT * FROM page ORDER BY random()) AS page",
            statement.source,
        )
        monkeypatch.setitem(STATEMENTS, name, Statement(shuffled))
    for n in range(2 * len(EDGES)):
        insert_into(paged.table, **paged.columns(n))
    expected = paged.ordered(connection)
    assert len(expected) >= 5
    alice = Client(build(), TOKENS["alice"])
    for limit in (4, None):
        assert paged.ids(alice, limit=limit) == expected, f"ORDER BY is missing: {hint(paged)}"


def test_the_pages_of_a_list_have_each_row_of_the_caller_once_and_in_order(
    paged, alice, connection, initech, insert_into
):
    """Rows share a sort key, pages end between such rows, and others' rows lie between them."""
    listed = set()
    for n in range(2 * len(EDGES)):
        listed.add(insert_into(paged.table, **paged.columns(n)))
        insert_into(paged.table, "globex", "charlie", **paged.columns(n))
        other = insert_into(paged.table, initech, **paged.columns(n))
        listed |= {other} if paged.everywhere else set()
    expected = [id for id in paged.ordered(connection) if id in listed]
    assert len(expected) >= 8
    for limit in (1, 3, 200):
        assert paged.ids(alice, limit=limit) == expected, hint(paged)
    for limit in (len(expected), len(expected) + 1):
        assert paged.get(alice, limit=limit).get_json()["nextCursor"] is None, hint(paged)


def test_the_pages_of_a_list_have_rows_of_two_workspaces_that_are_equal_in_its_order(
    paged, alice, connection, initech, insert_into
):
    if not paged.everywhere:
        return
    for n in range(2 * len(EDGES)):
        id = insert_into(paged.table, **paged.columns(n))
        insert_into(paged.table, initech, id=id, **paged.columns(n))
    expected = paged.ordered(connection)
    assert len(expected) >= 8
    for limit in (1, 3, 200):
        rows = read_all(alice, paged.path, **paged.query, limit=limit)
        assert ids(rows) == expected, hint(paged)
        assert len({(row["id"], row["workspaceId"]) for row in rows}) == len(rows), hint(paged)


@pytest.mark.slow
def test_the_number_of_rows_of_a_page_has_a_default_and_a_maximum(paged, alice, insert_into):
    for _ in range(paged.maximum + 1):
        insert_into(paged.table)
    for limit, size in (
        (None, paged.default),
        ("1", 1),
        (paged.maximum, paged.maximum),
        (paged.maximum + 1, paged.maximum),
        ("9" * 100, paged.maximum),
    ):
        page = paged.get(alice, limit=limit).get_json()
        assert (limit, len(page["data"])) == (limit, size), hint(paged)
        assert page["nextCursor"], hint(paged)


def test_a_cursor_works_after_its_row_is_deleted(paged, alice, connection, insert_into):
    for _ in range(4):
        insert_into(paged.table)
    everything = paged.ids(alice)
    first = paged.get(alice, limit=2).get_json()
    assert ids(first["data"]) == everything[:2], hint(paged)
    connection.execute(f"DELETE FROM {paged.table} WHERE id = ANY (%s::uuid[])", (everything[:2],))
    if paged.order.endswith("DESC"):
        insert_into(paged.table)
    assert paged.ids(alice, cursor=first["nextCursor"]) == everything[2:], hint(paged)


def test_a_list_shows_rows_of_the_workspace_that_is_active(
    paged, alice, cast, connection, initech, insert_into
):
    acme, other = insert_into(paged.table), insert_into(paged.table, initech)
    both = [id for id in paged.ordered(connection) if id in (acme, other)]
    assert paged.ids(alice) == (both if paged.everywhere else [acme]), hint(paged)
    activate(connection, initech, cast["alice"])
    assert paged.ids(alice) == (both if paged.everywhere else [other]), hint(paged)


@pytest.mark.parametrize(("paged", "field"), FILTERS.values(), ids=FILTERS)
def test_a_filter_that_a_query_repeats_is_a_list_on_each_page_or_gets_400(
    paged, field, alice, insert_into
):
    """Generated clients send a list in this way. The second value has rows of its own."""
    name = parameter(field)
    if not isinstance(field, types.SomeOf):
        repeated = alice.get(paged.path, query_string={**paged.query, name: ["none", "none"]})
        assert invalid_field(repeated, key(field)) == "must not be repeated", hint(paged)
        return
    rows = {}
    for value in 2 * [*field.choices]:
        # Only a task that is done has a time of completion.
        more = {"completed_at": EDGES[0]} if value == "done" else {}
        rows[insert_into(paged.table, **{field.name: value}, **more)] = value
    for pair in permutations(field.choices, 2):
        found = read_all(alice, paged.path, **paged.query, **{name: pair}, limit=1)
        assert {*ids(found)} == {id for id, value in rows.items() if value in pair}, hint(paged)
