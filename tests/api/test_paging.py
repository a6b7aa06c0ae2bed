"""Lists that are read page by page while others write: what was there throughout is listed exactly once."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import count
from threading import Event

import psycopg
import pytest
from client import TOKENS, Client, insert
from psycopg.rows import dict_row

pytestmark = pytest.mark.proof

WRITERS, ROWS, WALKS = 3, 30, 20
SOON = datetime(2100, 1, 1, tzinfo=UTC)


class Tasks:
    """Bob's hand on the tasks: one that stays is changed, one that goes is deleted and made anew."""

    path = "/tasks"

    def __init__(self, app, database_url, cast):
        self.bob = Client(app, TOKENS["bob"])

    def make(self, place):
        answer = self.bob.post(self.path, {"title": f"At {place}", "priority": "high"})
        assert answer.status_code == 201
        return answer.get_json()["id"]

    def touch(self, id, turn):
        self.change(id, title=f"Turn {turn}", dueDate="2026-11-20T11:02Z")

    def change(self, id, **changes):
        assert self.bob.patch(f"{self.path}/{id}", changes).status_code == 200

    def move(self, id, place):
        assert self.bob.delete(f"{self.path}/{id}").status_code == 204
        return self.make(place)

    def close(self):
        pass


class Meetings(Tasks):
    """The meetings: one that goes is moved to another time."""

    path = "/meetings"

    def times(self, place):
        start, end = (SOON + timedelta(minutes=place + length) for length in (0, 30))
        return {"startTime": start.isoformat(), "endTime": end.isoformat()}

    def make(self, place):
        answer = self.bob.post(self.path, {"title": "x", **self.times(place)})
        assert answer.status_code == 201
        return answer.get_json()["id"]

    def touch(self, id, turn):
        self.change(id, notes=f"Turn {turn}", status="completed")

    def move(self, id, place):
        self.change(id, **self.times(place))
        return id


class Mail:
    """The mail, past the service, which only reads it."""

    path = "/mail"

    def __init__(self, app, database_url, cast):
        self.connection = psycopg.connect(database_url, autocommit=True, row_factory=dict_row)
        self.owner = {"workspace_id": cast["acme"], "user_id": cast["alice"]}

    def make(self, place):
        at = SOON + timedelta(minutes=place)
        return insert(self.connection, "mail", sender="a@b.c", received_at=at, **self.owner)

    def touch(self, id, turn):
        self.connection.execute("UPDATE mail SET read = NOT read WHERE id = %s", (id,))

    def move(self, id, place):
        self.connection.execute("DELETE FROM mail WHERE id = %s", (id,))
        return self.make(place)

    def close(self):
        self.connection.close()


def keep_writing(hand, stay, go, stop):
    """Change the ones that stay and move the others about, until told to stop; returns how often."""
    for turn in count():
        if stop.is_set():
            return turn
        hand.touch(stay[turn % len(stay)], turn)
        go[turn % len(go)] = hand.move(go[turn % len(go)], turn * 7 % ROWS)
    return None


def walk(client, path, query):
    """The ids on all pages, as nextCursor leads from one to the next."""
    cursor, found = {}, []
    while cursor is not None:
        page = client.get(path, query_string={"limit": 2, **query, **cursor}).get_json()
        found += [item["id"] for item in page["data"]]
        cursor = page["nextCursor"] and {"cursor": page["nextCursor"]}
    return found


@pytest.mark.parametrize(
    ("kind", "query"),
    [
        (Tasks, {}),
        (Tasks, {"priority": "high"}),
        (Meetings, {}),
        (Meetings, {"upcoming": "true"}),
        (Mail, {}),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "&".join(value) or "all",
)
def test_what_is_there_throughout_is_listed_exactly_once_while_others_write(
    app, alice, database_url, cast, unlimited, kind, query
):
    with closing(kind(app, database_url, cast)) as hand, ThreadPoolExecutor(WRITERS) as writers:
        rows = [hand.make(place) for place in range(ROWS)]
        stay, go = rows[::2], rows[1::2]
        listed = stay if "upcoming" in query else stay[::-1]
        stop = Event()
        turns = [
            writers.submit(keep_writing, hand, stay[n::WRITERS], go[n::WRITERS], stop)
            for n in range(WRITERS)
        ]
        try:
            for _ in range(WALKS):
                found = walk(alice, hand.path, query)
                assert [id for id in found if id in stay] == listed
        finally:
            stop.set()
        assert all(turn.result() > WALKS for turn in turns)
