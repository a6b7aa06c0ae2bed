"""What the worker prunes: every old row of each table, in as many batches as that takes."""

import pytest
from support.rows import count
from support.statements import run

from service.database.statements import STATEMENTS


def source(name):
    return STATEMENTS[f"worker/prune_{name}"].source


FILES = [
    name.removeprefix("worker/prune_") for name in STATEMENTS if name.startswith("worker/prune_")
]
# By file: a statement that inserts rows that are old enough, with the numbers from %(first)s to
# %(last)s; two feeds, because each workspace has one.
OLD = {
    "usage": """
        INSERT INTO usage
        SELECT %(workspace)s, number::text, now(), 1, now() - interval '3 days', 1, true
          FROM generate_series(%(first)s::bigint, %(last)s) AS number
    """,
    "deleted_versions": """
        INSERT INTO deleted_versions
        SELECT %(workspace)s, new_id(), number, now() - interval '401 days'
          FROM generate_series(%(first)s::integer, %(last)s) AS number
    """,
    "tokens": """
        INSERT INTO tokens (user_id, kind, hash, expires_at, revoked_at)
        SELECT %(user)s, 'session', sha256(number::text::bytea), one, other
          FROM generate_series(%(first)s::bigint, %(last)s) AS number
          JOIN (
               VALUES (0, now() - interval '91 days', now()),
                      (1, now() + interval '91 days', now() - interval '91 days')
               ) AS ended (rest, one, other) ON rest = number %% 2
    """,
    "keys": """
        INSERT INTO idempotency_keys (workspace_id, user_id, key, fingerprint, created_at)
        SELECT %(workspace)s, %(user)s, number::text, '', now() - interval '25 hours'
          FROM generate_series(%(first)s::integer, %(last)s) AS number
    """,
    "events": """
        INSERT INTO events (workspace_id, id, type, body, created_at)
        SELECT %(workspace)s, new_id(), 'task.created', '{}', now() - interval '73 hours'
          FROM generate_series(%(first)s::integer, %(last)s)
    """,
    "feeds": """
        INSERT INTO feeds (workspace_id, read_at)
        SELECT id, now() - interval '74 hours' FROM workspaces
    """,
    "webhooks": """
        INSERT INTO webhooks (workspace_id, url, key_fingerprint, disabled_at, deleted_at)
        SELECT %(workspace)s, 'https://example.com/' || number, '', now(), now()
          FROM generate_series(%(first)s::integer, %(last)s) AS number
    """,
}

NONE = {"deleted": 0, "next": None}


@pytest.mark.parametrize("name", FILES)
def test_a_round_prunes_each_old_row(name, connection, cast):
    assert name in OLD, f"add sql/worker/prune_{name}.sql to OLD in this file"
    values = {"workspace": cast["acme"], "user": cast["alice"], "first": 1, "last": 3}
    old = connection.execute(OLD[name], values).rowcount
    assert old > 1
    deleted, after = 0, ""
    while after is not None:
        # There is no row if no webhook is left.
        (batch,) = run(connection, f"worker/prune_{name}", keep=72, after=after) or [NONE]
        deleted += batch["deleted"]
        after = batch["next"]
    assert deleted == old


@pytest.mark.slow
@pytest.mark.parametrize("table", [name for name in FILES if b"next_pages" in source(name)])
@pytest.mark.parametrize(("pages", "following"), [(128, [None]), (129, ["128", None])])
def test_the_rows_of_every_page_are_pruned_128_pages_at_a_time(
    table, connection, cast, pages, following
):
    with connection.transaction(force_rollback=True):
        connection.execute(f"TRUNCATE {table}")
        number = 0
        while True:
            size = connection.execute("SELECT pg_relation_size(%s) / 8192 AS pages", (table,))
            if size.fetchone()["pages"] == pages:
                break
            # Fewer rows than fit on a page.
            values = {"workspace": cast["acme"], "user": cast["alice"]}
            connection.execute(OLD[table], {**values, "first": number, "last": number + 29})
            number += 30
        found, after = [], ""
        while after is not None:
            (batch,) = run(connection, f"worker/prune_{table}", after=after)
            after = batch["next"]
            found.append(after)
        assert found == following
        assert count(connection, table) == 0
