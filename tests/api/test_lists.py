"""Lists: the promises of every paged list; a table of the lists drives each test."""

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from threading import Event

import pytest
from client import TOKENS, Client, activate, ids
from derived import views_of
from psycopg import Connection
from resources import EDGES, HERE, LISTS, MS, TABLES, PagedList

from service.database.statements import STATEMENTS, Statement


@pytest.fixture(params=LISTS)
def paged(request):
    return LISTS[request.param]


@pytest.mark.nodatabase
def test_every_paged_list_is_in_the_table_of_lists():
    pages = {view.rule for view in views_of("GET", kinds=["page"]) if not view.variables}
    missing = pages - {f"/api{paged.path}" for paged in LISTS.values()}
    assert not missing, f"add the list to an entry of {HERE}: {missing}"


# Pages


def test_an_empty_list_is_an_empty_page(paged, alice):
    assert paged.get(alice).get_json() == {"data": [], "nextCursor": None}


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
        monkeypatch.setitem(STATEMENTS, name, Statement(name, shuffled))
    for n in range(2 * len(EDGES)):
        insert_into(paged.table, **paged.columns(n))
    expected = paged.ordered(connection)
    assert len(expected) >= 5
    alice = Client(build(), TOKENS["alice"])
    assert paged.ids(alice, limit=4) == expected
    assert paged.ids(alice) == expected


def test_the_pages_hold_every_row_of_the_caller_exactly_once_in_order(
    paged, alice, connection, initech, insert_into
):
    """Rows share a sort key, pages end between such rows, and rows of others lie between them."""
    listed = set()
    for n in range(2 * len(EDGES)):
        listed.add(insert_into(paged.table, **paged.columns(n)))
        insert_into(paged.table, "globex", "charlie", **paged.columns(n))
        other = insert_into(paged.table, initech, **paged.columns(n))
        listed |= {other} if paged.everywhere else set()
    expected = [id for id in paged.ordered(connection) if id in listed]
    assert len(expected) >= 8
    for limit in (1, 2, 3, 200):
        assert paged.ids(alice, limit=limit) == expected
    for limit in (len(expected), len(expected) + 1):
        assert paged.get(alice, limit=limit).get_json()["nextCursor"] is None


def test_the_limit_has_a_default_and_a_maximum(paged, alice, insert_into):
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
        assert (limit, len(page["data"])) == (limit, size)
        assert page["nextCursor"]


def test_a_cursor_works_after_its_row_is_deleted(paged, alice, connection, insert_into):
    for _ in range(4):
        insert_into(paged.table)
    everything = paged.ids(alice)
    first = paged.get(alice, limit=2).get_json()
    assert ids(first["data"]) == everything[:2]
    connection.execute(f"DELETE FROM {paged.table} WHERE id = ANY (%s::uuid[])", (everything[:2],))
    if paged.order.endswith("DESC"):
        insert_into(paged.table)
    assert paged.ids(alice, cursor=first["nextCursor"]) == everything[2:]


# Tenancy


def test_a_list_follows_the_active_workspace(paged, alice, cast, connection, initech, insert_into):
    acme, other = insert_into(paged.table), insert_into(paged.table, initech)
    both = [id for id in paged.ordered(connection) if id in (acme, other)]
    assert paged.ids(alice) == (both if paged.everywhere else [acme])
    activate(connection, initech, cast["alice"])
    assert paged.ids(alice) == (both if paged.everywhere else [other])


# While others write

WRITERS, ROWS, WALKS = 3, 30, 20


@dataclass
class Writer:
    """Changes the rows of a list as Bob: through the service where it can, else by SQL."""

    paged: PagedList
    bob: Client
    connection: Connection
    insert_into: Callable

    def send(self, method, path, body=None):
        response = self.bob.send(method, path, json=body)
        assert response.status_code < 300
        return response.get_json(silent=True)

    def times(self, place):
        start = datetime(2100, 1, 1, tzinfo=UTC) + timedelta(minutes=place)
        return {"startTime": start.isoformat(), "endTime": (start + MS).isoformat()}

    def insert(self, place):
        table = self.paged.table
        if TABLES[table].patch:
            times = self.times(place) if table == "meetings" else {}
            return self.send("POST", f"/{table}", {"title": f"At {place}", **times})["id"]
        return self.insert_into(
            table, **({"received_at": self.times(place)["startTime"]} if table == "mail" else {})
        )

    def update(self, id, turn):
        resource = TABLES[self.paged.table]
        if resource.patch:
            self.send("PATCH", f"{self.paged.path}/{id}", resource.patch(turn))
        else:
            column = next(iter(resource.required))
            sql = f"UPDATE {self.paged.table} SET {column} = {column} WHERE id = %s"
            self.connection.execute(sql, (id,))

    def move(self, id, place):
        """Move a meeting to another time; delete any other row and insert it again."""
        if self.paged.table == "meetings":
            self.send("PATCH", f"/meetings/{id}", self.times(place))
            return id
        if self.paged.table == "tasks":
            self.send("DELETE", f"/tasks/{id}")
        else:
            self.connection.execute(f"DELETE FROM {self.paged.table} WHERE id = %s", (id,))
        return self.insert(place)

    def run(self, stay, go, stop):
        """Update the rows that stay and move the others until ``stop``; return how often."""
        turn = 0
        while not stop.is_set():
            self.update(stay[turn % len(stay)], turn)
            go[turn % len(go)] = self.move(go[turn % len(go)], turn * 7 % ROWS)
            turn += 1
        return turn


@pytest.mark.proof
@pytest.mark.usefixtures("unlimited")
@pytest.mark.parametrize("name", [name for name in LISTS if name != "search"])
def test_a_row_that_stays_is_listed_exactly_once_while_other_users_write(
    alice, bob, connection, insert_into, name
):
    paged = LISTS[name]
    writer = Writer(paged, bob, connection, insert_into)
    rows = [writer.insert(place) for place in range(ROWS)]
    stay, go = rows[::2], rows[1::2]
    expected = stay[::-1] if paged.order.endswith("DESC") else stay
    stop = Event()
    with ThreadPoolExecutor(WRITERS) as threads:
        turns = [
            threads.submit(writer.run, stay[n::WRITERS], go[n::WRITERS], stop)
            for n in range(WRITERS)
        ]
        try:
            for _ in range(WALKS):
                assert [id for id in walk(paged, alice) if id in stay] == expected
        finally:
            stop.set()
    assert all(turn.result() > WALKS for turn in turns)


def walk(paged, client):
    """Return the ids on all pages, read with nextCursor."""
    cursor, listed = None, []
    while True:
        page = paged.get(client, limit=2, cursor=cursor).get_json()
        listed += ids(page["data"])
        cursor = page["nextCursor"]
        if cursor is None:
            return listed
