"""The tables that the worker prunes page by page."""

import pytest
from support.rows import count
from support.statements import run

# By table: a statement that inserts rows that are old enough, with the numbers from %(first)s to
# %(last)s.
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
        INSERT INTO tokens (user_id, kind, hash, expires_at)
        SELECT %(user)s, 'session', sha256(number::text::bytea), now() - interval '91 days'
          FROM generate_series(%(first)s::bigint, %(last)s) AS number
    """,
}


@pytest.mark.slow
@pytest.mark.parametrize("table", OLD)
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
